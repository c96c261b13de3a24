"""The setting `BALLAST_EVICTION__TIDY`: which pods the planner `tidy` removes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ballast.model.selector import parse
from ballast.planners.tidy_rules import NOTHING, TidyRules
from ballast.settings.lists import as_map
from ballast.settings.names import selector
from ballast.settings.written import Duration, WrittenValue

_KEYS = {"failed": ("minAge",), "lifetime": ("maxAge", "selector"), "restarts": ("threshold",)}
_MOST = 2**31


@dataclass(frozen=True)
class TidySetting(
    WrittenValue,
    allowed='a map such as {"failed": {"minAge": "1h"}, "lifetime": {"maxAge": "7d", "selector": "app=web"}, '
    '"restarts": {"threshold": 100}}, or nothing',
    json=("string", "object"),
):
    """`rules` say which pods; `text` is how it was written."""

    rules: TidyRules = NOTHING
    text: str = ""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes such a value, a map or JSON; raises ValueError, saying what is allowed."""
        if isinstance(value, cls):
            return value
        if value is None or (isinstance(value, str) and not value.strip()):
            return cls()
        parts = {name: as_map(part) for name, part in as_map(value).items()}
        for name, part in parts.items():
            if name not in _KEYS:
                raise cls.refusal(f"there is no {name}")
            if unknown := [key for key in part if key not in _KEYS[name]]:
                raise cls.refusal(f"{name} has no {', '.join(unknown)}")
        rules = TidyRules(
            failed_after=Duration.parse(parts["failed"].get("minAge", "0s")) if "failed" in parts else None,
            oldest=_needed(parts, "lifetime", "maxAge", Duration.parse),
            of=_needed(parts, "lifetime", "selector", _selector, optional=True),
            restarts=_needed(parts, "restarts", "threshold", _count),
        )
        return cls(rules, json.dumps(parts, default=str) if parts else "")

    def __str__(self) -> str:
        return self.text


def _needed(
    parts: Mapping[str, Mapping[str, object]],
    part: str,
    key: str,
    read: Callable[[object], Any],
    *,
    optional: bool = False,
) -> Any:
    if part not in parts or (optional and parts[part].get(key) is None):
        return None
    if key not in parts[part]:
        raise TidySetting.refusal(f"{part} needs {key}")
    return read(parts[part][key])


def _selector(value: object) -> object:
    if not isinstance(value, str):
        raise TidySetting.refusal("selector is a label selector as text")
    return parse(selector(value))


def _count(value: object) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 12 else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < _MOST:
        raise TidySetting.refusal("threshold is a number of at least 1")
    return number
