"""The part `metrics` of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, WithJsonSchema

from ballast.settings.part import SettingsPart


def _level(value: object) -> object:
    """YAML reads a bare `off` as a boolean."""
    return "off" if value is False else value


class MetricsSettings(SettingsPart):
    """What `/metrics` shows."""

    nodes: Annotated[
        Literal["off", "primary", "all"],
        BeforeValidator(_level),
        WithJsonSchema({"enum": ["off", "primary", "all", False]}),
    ] = "primary"
    """Series per node: none; mean, deviation and score over the first window, by the leader alone; or all windows and
    percentiles, by every replica. The histogram ballast_load is always there."""
