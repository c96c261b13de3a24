"""The setting `BALLAST_EVICTION__WINDOWS`: one allowed or denied time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from zoneinfo import ZoneInfo

from ballast.model.cron import Cron
from ballast.settings.written import Duration, WrittenValue

_KEYS = ("allow", "deny", "duration", "timezone", "planners")
LONGEST = 31 * 86_400.0
"""Seconds of the longest window."""


@dataclass(frozen=True)
class EvictionWindow(
    WrittenValue,
    allowed='windows such as {"allow": "0 22 * * mon-fri", "duration": "8h", "timezone": "Europe/Amsterdam", '
    '"planners": ["rebalance"]}: allow or deny and duration, the others optional',
    json=("object",),
):
    """Beginnings by `cron` in `zone`, `duration` after each; `text` is how it was written."""

    denies: bool
    cron: Cron
    duration: Duration
    zone: ZoneInfo
    planners: tuple[str, ...]
    text: str

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes an EvictionWindow or a map; raises ValueError, saying what is allowed."""
        if isinstance(value, cls):
            return value
        value = entries(cls, value, _KEYS)
        if ("allow" in value) == ("deny" in value):
            raise cls.refusal("give one of allow and deny")
        if "duration" not in value:
            raise cls.refusal("duration is missing")
        duration = Duration.parse(value["duration"])
        if not 0 < duration <= LONGEST:
            raise cls.refusal("a duration is longer than 0 and at most 31d")
        begins = value["deny" if "deny" in value else "allow"]
        if not isinstance(begins, str):
            raise cls.refusal("allow and deny are text")
        return cls(
            "deny" in value,
            Cron.parse(begins),
            duration,
            _zone(value.get("timezone", "UTC")),
            planners_of(value.get("planners", ())),
            json.dumps(dict(value)),
        )

    def __str__(self) -> str:
        return self.text


def entries(kind: type[WrittenValue], value: object, keys: Sequence[str]) -> Mapping[str, Any]:
    """A map with these keys alone. Raises ValueError, saying what is allowed."""
    if not isinstance(value, Mapping):
        raise kind.refusal()
    if unknown := [str(key) for key in value if key not in keys]:
        raise kind.refusal(f"there is no {', '.join(unknown)}")
    return value


def _zone(name: object) -> ZoneInfo:
    try:
        return ZoneInfo(str(name))
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"expected a timezone of the IANA database such as Europe/Amsterdam; {name!r} is not one"
        ) from None


def planners_of(names: Any) -> tuple[str, ...]:
    """The names of a list. Raises ValueError for one that is no planner."""
    from ballast.planners.built_in import planners  # numpy is slow to import

    known = [planner.name for planner in planners()]
    if not isinstance(names, list | tuple) or not all(name in known for name in names):
        raise ValueError(f"expected planners as a list out of {', '.join(known)}; not {names!r}")
    return tuple(names)
