"""The part `log` of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator

from ballast.settings.part import SettingsPart


def _level(value: object) -> object:
    text = value.lower() if isinstance(value, str) else value
    return "warning" if text == "warn" else text


class LogSettings(SettingsPart):
    """What is logged, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_level)] = "info"
    """Lowest level that is logged."""

    format: Literal["text", "json"] | None = None
    """Format of a line; unset: text on a terminal, else json."""
