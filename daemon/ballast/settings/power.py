"""The part `power` of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ballast.settings.part import Mode, ModeSetting, SettingsPart
from ballast.settings.values.collection import ListOf, as_list


def _policies(value: object) -> list[object]:
    found = [] if isinstance(value, str) and not value.strip().startswith("[") else as_list(value)
    if not all(isinstance(each, Mapping) for each in found) or (not found and isinstance(value, str)):
        raise ValueError(
            'expected a list of policies, in the variable as JSON such as [{"feed": {...}, "independents": [...]}], in '
            "the file under power.policies"
        )
    return found


class PowerSettings(SettingsPart):
    """Keeps the replicas of workloads within the available power."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether replica counts and caps are changed."""

    operator_only: ListOf[Literal["exclude", "exclude-until", "exclude-power"]] = ()
    """Annotations of Ballast that count on namespaces alone, not on workloads, which tenants may change."""

    policies: Annotated[tuple[Mapping[str, Any], ...], BeforeValidator(_policies)] = ()
    """Power policies (docs/power.md): a JSON list. In the file the keys of one policy may stand beside `mode`."""
