"""Replicas inside the power that is available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ballast.settings.part import Mode, ModeSetting, SettingsPart


class Power(SettingsPart):
    """`policies` are the raw policies of the configuration file, each a mapping as written."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether replicas and caps are changed."""

    policies: Annotated[tuple[Mapping[str, Any], ...], Field(exclude=True)] = ()
    """Power policies; only in the configuration file."""
