"""The part `power` of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ballast.settings.part import Mode, ModeSetting, SettingsPart


class Power(SettingsPart):
    """Keeps the replicas of workloads within the available power."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether replica counts and caps are changed."""

    policies: Annotated[tuple[Mapping[str, Any], ...], Field(exclude=True)] = ()
    """Power policies, each a mapping as written; only in the configuration file."""
