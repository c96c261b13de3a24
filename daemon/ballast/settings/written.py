"""Types of settings that keep how they were written: durations, link speeds, counts, rates."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ballast.model import duration
from ballast.settings.lists import LONG

LONGEST = 100_000 * duration.DAY
"""Seconds of the longest duration, which timers still take."""
LARGEST = 2**63 - 1
"""The largest whole number, as in JSON of the Kubernetes API."""


_BARE = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(bit|B)(?:/s)?")
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class WrittenValue:
    """A class that is the type of a setting: `parse` reads it, `str` writes it as it is read.

    `allowed` is what may be written, as the end of a sentence that begins with `expected`; `json` are the JSON types.
    """

    _allowed: ClassVar[str]
    _schema: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, allowed: str = "", json: tuple[str, ...] = (), **schema: object) -> None:
        cls._allowed, cls._schema = allowed, {"type": list(json), "description": allowed, **schema}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes an instance or what a person wrote; raises ValueError, saying what is allowed."""
        raise NotImplementedError

    @classmethod
    def refusal(cls, reason: str = "") -> ValueError:
        """The error that says what is allowed, and what else is wrong."""
        return ValueError(f"expected {cls._allowed}" + (f"; {reason}" if reason else ""))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(cls._schema)


class WrittenNumber(WrittenValue, float):
    """A number that keeps in `text` how it was written; pickles as that text."""

    text: str

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"


class Duration(
    WrittenNumber,
    allowed="a duration such as 15s, 5m, 1h or 1h30m (units d, h, m, s, ms, the larger first; a bare number is "
    "seconds)",
    json=("string", "number"),
    pattern=duration.PATTERN,
    minimum=0,
):
    """Seconds, never negative; `text` is how it was written. `Duration("1h30m") == 5400.0`."""

    def __new__(cls, value: str | float) -> Self:
        """Raises ValueError, saying what is allowed."""
        if isinstance(value, str):
            text = value.strip()
            seconds = float(text) if _BARE.fullmatch(text) else duration.seconds(text)
        else:
            seconds, text = value, str(value) if isinstance(value, Duration) or abs(value) > LONGEST else f"{value:g}"
        if seconds is None or not seconds >= 0:
            raise cls.refusal()
        if seconds > LONGEST:
            raise cls.refusal("at most 100000d")
        number = super().__new__(cls, seconds)
        number.text = text
        return number

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a Duration, a number or text; raises ValueError, saying what is allowed."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise cls.refusal()
        return cls(value)


class Speed(
    WrittenNumber, allowed="a link speed with its unit, such as 10Gbit or 1.25GB (per second)", json=("string",)
):
    """Bytes per second, positive; `text` is how it was written. `Speed("8bit") == 1.0`."""

    def __new__(cls, value: str) -> Self:
        """Raises ValueError, saying what is allowed."""
        match = _SPEED.fullmatch(value.strip())
        speed = float(match[1]) * _FACTORS[match[2]] / (8 if match[3] == "bit" else 1) if match else 0.0
        if not 0 < speed < math.inf:
            raise cls.refusal()
        number = super().__new__(cls, speed)
        number.text = value.strip()
        return number

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a Speed or text; raises ValueError, saying what is allowed."""
        return value if isinstance(value, cls) else cls(str(value))


@dataclass(frozen=True)
class Count(
    WrittenValue, allowed="a count such as 5 or a share such as 10% (0 = no limit)", json=("string", "integer")
):
    """`N` or `P%` of a total; 0 is no limit. A share is rounded down, but never below one."""

    number: int = 0
    percent: Fraction | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a Count, a whole number, or text; raises ValueError, saying what is allowed."""
        if isinstance(value, cls):
            return value
        match = None if isinstance(value, bool) else _COUNT.fullmatch(str(value).strip())
        if match is None or len(match[1]) > LONG or float(match[1]) > LARGEST:
            raise cls.refusal()
        amount = Fraction(match[1])
        if match[2]:
            if amount > 100:
                raise cls.refusal("a share must be at most 100%")
            return cls(percent=amount)
        if amount.denominator != 1:
            raise cls.refusal("a count must be a whole number")
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
class Rate(
    WrittenValue,
    allowed="a rate such as 20/1h or 1%/1d (0 = no limit; without a duration it is per hour)",
    json=("string", "integer"),
):
    """At most `count` within `per`."""

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
            raise cls.refusal() from error
        if rate.per <= 0:
            raise cls.refusal("the duration must be longer than 0")
        return rate

    def __str__(self) -> str:
        return f"{self.count}/{self.per.text}"
