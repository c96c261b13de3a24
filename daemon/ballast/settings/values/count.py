"""Limits that are a number or a share, and how often something may happen."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ballast.settings.values.duration import Duration

_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")
_ALLOWED = "a count such as 5 or a share such as 10% (0 = no limit)"
_RATE_ALLOWED = "a rate such as 20/1h or 1%/1d (0 = no limit; without a duration it is per hour)"


@dataclass(frozen=True)
class Count:
    """`N` or `P%` of something; 0 is no limit. A share is rounded down, but never below one."""

    number: int = 0
    percent: Fraction | None = None

    @classmethod
    def parse(cls, value: object) -> Count:
        """Takes a Count, a whole number, or text; raises ValueError, saying what is allowed."""
        if isinstance(value, Count):
            return value
        match = None if isinstance(value, bool) else _TEXT.fullmatch(str(value).strip())
        if match is None:
            raise ValueError(f"expected {_ALLOWED}")
        amount = Fraction(match[1])
        if match[2]:
            if amount > 100:
                raise ValueError(f"expected {_ALLOWED}; a share is at most 100%")
            return cls(percent=amount)
        if amount.denominator != 1:
            raise ValueError(f"expected {_ALLOWED}; a count is a whole number")
        return cls(number=int(amount))

    @property
    def unlimited(self) -> bool:
        return not self.number and not self.percent

    def of(self, total: int) -> int | None:
        """How many of `total` are allowed, None without a limit."""
        if self.unlimited:
            return None
        if self.percent is not None:
            return max(1, math.floor(total * self.percent / 100))
        return self.number

    def __str__(self) -> str:
        return str(self.number) if self.percent is None else f"{float(self.percent):g}%"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "integer"], "description": _ALLOWED}


@dataclass(frozen=True)
class Rate:
    """At most `count` within `per`."""

    count: Count
    per: Duration

    @classmethod
    def parse(cls, value: object) -> Rate:
        """`20/1h`, `1%/1d`; without a duration it is per hour. Raises ValueError, saying what is allowed."""
        if isinstance(value, Rate):
            return value
        count, _, per = str(value).partition("/")
        try:
            rate = cls(Count.parse(count), Duration(per or "1h"))
        except ValueError as error:
            raise ValueError(f"expected {_RATE_ALLOWED}") from error
        if rate.per <= 0:
            raise ValueError(f"expected {_RATE_ALLOWED}; the duration is longer than 0")
        return rate

    def __str__(self) -> str:
        return f"{self.count}/{self.per.text}"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": ["string", "integer"], "description": _RATE_ALLOWED}
