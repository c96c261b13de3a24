"""Limits: a number or a share, and rates."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from ballast.settings.values.duration import Duration
from ballast.settings.values.written import WrittenValue

_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")


@dataclass(frozen=True)
class Count(WrittenValue):
    """`N` or `P%` of a total; 0 is no limit. A share is rounded down, but never below one."""

    ALLOWED: ClassVar = "a count such as 5 or a share such as 10% (0 = no limit)"
    JSON_TYPE: ClassVar = ["string", "integer"]

    number: int = 0
    percent: Fraction | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a Count, a whole number, or text; raises ValueError, saying what is allowed."""
        if isinstance(value, cls):
            return value
        match = None if isinstance(value, bool) else _TEXT.fullmatch(str(value).strip())
        if match is None:
            raise ValueError(f"expected {cls.ALLOWED}")
        amount = Fraction(match[1])
        if match[2]:
            if amount > 100:
                raise ValueError(f"expected {cls.ALLOWED}; a share must be at most 100%")
            return cls(percent=amount)
        if amount.denominator != 1:
            raise ValueError(f"expected {cls.ALLOWED}; a count must be a whole number")
        return cls(number=int(amount))

    @property
    def unlimited(self) -> bool:
        """Whether it is 0 or 0%."""
        return not self.number and not self.percent

    def of(self, total: int) -> int | None:
        """How many of `total` are allowed; None if there is no limit."""
        if self.unlimited:
            return None
        if self.percent is not None:
            return max(1, math.floor(total * self.percent / 100))
        return self.number

    def __str__(self) -> str:
        return str(self.number) if self.percent is None else f"{float(self.percent):g}%"


@dataclass(frozen=True)
class Rate(WrittenValue):
    """At most `count` within `per`."""

    ALLOWED: ClassVar = "a rate such as 20/1h or 1%/1d (0 = no limit; without a duration it is per hour)"
    JSON_TYPE: ClassVar = ["string", "integer"]

    count: Count
    per: Duration

    @classmethod
    def parse(cls, value: object) -> Self:
        """`20/1h`, `1%/1d`; without a duration it is per hour. Raises ValueError, saying what is allowed."""
        if isinstance(value, cls):
            return value
        count, _, per = str(value).partition("/")
        try:
            rate = cls(Count.parse(count), Duration(per or "1h"))
        except ValueError as error:
            raise ValueError(f"expected {cls.ALLOWED}") from error
        if rate.per <= 0:
            raise ValueError(f"expected {cls.ALLOWED}; the duration must be longer than 0")
        return rate

    def __str__(self) -> str:
        return f"{self.count}/{self.per.text}"
