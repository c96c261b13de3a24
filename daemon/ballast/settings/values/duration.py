"""Durations such as `1h30m`."""

from __future__ import annotations

import math
import re
from typing import Any, ClassVar, Self

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from ballast.model import duration
from ballast.settings.values.written import WrittenNumber

_BARE = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")


class Duration(WrittenNumber):
    """Seconds, never negative; `text` is how it was written. `Duration("1h30m") == 5400.0`."""

    ALLOWED: ClassVar = (
        "a duration such as 15s, 5m, 1h or 1h30m (units d, h, m, s, ms, the larger first; a bare number is seconds)"
    )
    JSON_TYPE: ClassVar = ["string", "number"]

    def __new__(cls, value: str | float) -> Self:
        """Raises ValueError, saying what is allowed."""
        if isinstance(value, str):
            text = value.strip()
            seconds = _seconds(text)
        else:
            seconds = float(value)
            text = value.text if isinstance(value, Duration) else f"{value:g}"
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"expected {cls.ALLOWED}")
        made = super().__new__(cls, seconds)
        made.text = text
        return made

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**super().__get_pydantic_json_schema__(schema, handler), "pattern": duration.PATTERN, "minimum": 0}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a Duration, a number or text; raises ValueError, saying what is allowed."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"expected {cls.ALLOWED}")
        return cls(value)


def _seconds(text: str) -> float:
    if _BARE.fullmatch(text):
        return float(text)
    found = duration.seconds(text)
    if found is None:
        raise ValueError(f"expected {Duration.ALLOWED}")
    return float(found)
