"""What all sources have in common: origins, problems and warnings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic_settings import BaseSettings, InitSettingsSource

from ballast.settings.model import Settings


@dataclass(frozen=True)
class GivenValue:
    """A value as it was written, and its origin."""

    value: object
    origin: str


class SettingsSource(InitSettingsSource):
    """The values of one source by (part, field), with their origins; collects problems instead of raising."""

    def __init__(self, settings_cls: type[BaseSettings] = Settings, _init_state: Any = None) -> None:
        super().__init__(settings_cls, {}, _init_state=_init_state)
        self.values: dict[tuple[str, str], GivenValue] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def give(self, part: str, field: str, value: object, origin: str) -> None:
        """Sets the value of one field."""
        self.values[part, field] = GivenValue(value, origin)
        self.init_kwargs.setdefault(part, {})[field] = value
