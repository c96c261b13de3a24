"""Lengths of time, as people write them."""

from __future__ import annotations

import math
import re
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PARTS = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
_BARE = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_ALLOWED = "a duration such as 15s, 5m, 1h or 1h30m (units d, h, m, s, ms, the larger first; a bare number is seconds)"


class Duration(float):
    """Seconds, never negative; `text` is the spelling it was made from. `Duration("1h30m") == 5400.0`."""

    text: str

    def __new__(cls, value: str | float) -> Self:
        """Raises ValueError, saying what is allowed."""
        if isinstance(value, str):
            text = value.strip()
            seconds = _seconds(text)
        else:
            seconds = float(value)
            text = value.text if isinstance(value, Duration) else f"{value:g}"
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"expected {_ALLOWED}")
        made = super().__new__(cls, seconds)
        made.text = text
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Duration({self.text!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.text)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "number"], "description": _ALLOWED}

    @classmethod
    def _validate(cls, value: object) -> Duration:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"expected {_ALLOWED}")
        return cls(value)


def _seconds(text: str) -> float:
    if _BARE.fullmatch(text):
        return float(text)
    parts = _PARTS.findall(text)
    units = [_UNITS[unit] for _, unit in parts]
    whole = "".join(number + unit for number, unit in parts) == text
    if not parts or not whole or units != sorted(set(units), reverse=True):
        raise ValueError(f"expected {_ALLOWED}")
    return sum(float(number) * unit for (number, _), unit in zip(parts, units, strict=True))
