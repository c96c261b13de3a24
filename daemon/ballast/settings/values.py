"""Types of settings beyond plain text and numbers: durations, counts, rates, speeds, shares, lists, maps and names.

Each parser takes what a person wrote, in a variable or in YAML, and raises a ValueError that says what is allowed.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ballast.model import duration
from ballast.model.node_weights import LEAST, MOST, is_selector
from ballast.model.selector import parse

_T = TypeVar("_T")

LONGEST = 100_000 * duration.DAY
"""Seconds of the longest duration, which timers still take."""
LARGEST = 2**63 - 1
"""The largest whole number, as in JSON of the Kubernetes API."""

LONG = 300
"""Characters of the longest number; a longer one may not fit a float."""

LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:{LABEL}(?:\.{LABEL})*/)?{_NAME}"
_BARE = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(bit|B)(?:/s)?")
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, eq=False)
class Written:
    """Marks a type whose values `parse` reads before pydantic checks them; `schema` is its JSON schema.

    `Annotated[float, Written(_share, {"type": ["number", "string"]})]` takes 0.2 and 20%.
    """

    parse: Callable[[Any], object]
    schema: dict[str, Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return BeforeValidator(self.parse).__get_pydantic_core_schema__(source, handler)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return dict(self.schema)


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


def as_list(value: object) -> list[object]:
    """Splits `a,b`, decodes `["a","b"]`, keeps a sequence; raises ValueError, saying what is allowed."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            return list(_decode(text, "a JSON list"))
        return list(split(text))
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [value]
    raise ValueError('expected a list: comma-separated such as a,b or JSON such as ["a","b"]')


ListOf: TypeAlias = Annotated[tuple[_T, ...], BeforeValidator(as_list)]
"""A list as `as_list` takes it."""


def as_map(value: object) -> dict[str, object]:
    """Decodes `{"a": 1}`, keeps a mapping; raises ValueError, saying what is allowed."""
    if isinstance(value, str):
        if not value.strip().startswith("{"):
            raise ValueError('expected a JSON map such as {"name": "value"}')
        value = _decode(value, "a JSON map")
    if not isinstance(value, Mapping):
        raise ValueError('expected a JSON map such as {"name": "value"}')
    return {str(key): item for key, item in value.items()}


def split(text: str) -> list[str]:
    """Cuts at commas outside quotes, braces, brackets and parentheses; drops surrounding space and empty items."""
    items, item, quote, depth, escaped = [], "", "", 0, False
    for char in text:
        if quote:
            quote = "" if char == quote and not escaped else quote
            escaped = char == "\\" and not escaped and quote != "`"
        elif char in "\"'`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth <= 0:
            items.append(item.strip())
            item = ""
            continue
        item += char
    return [part for part in (*items, item.strip()) if part]


def whole(digits: str) -> float:
    """An integer as JSON or YAML has it; infinite where it has more digits than any setting takes."""
    return int(digits) if len(digits) <= LONG else float(digits)


def _decode(text: str, expected: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_map_of_unique_keys, parse_int=whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"expected {expected}, but it does not parse: {error}") from None
    except RecursionError:
        raise ValueError(f"expected {expected}, but it is nested too deeply") from None


def _map_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    items = dict(pairs)
    if len(items) < len(pairs):
        keys = [key for key, _ in pairs]
        doubled = ", ".join(sorted({key for key in keys if keys.count(key) > 1}))
        raise ValueError(f"expected each key once; {doubled} is given more than once")
    return items


def _between(value: object, allowed: str, highest: float) -> float:
    text = str(value).strip()
    percent = _PERCENT.fullmatch(text)
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(percent[1]) / 100 if percent else float(text)
    except ValueError:
        raise ValueError(f"expected {allowed}") from None
    if 0 <= number <= highest:
        return number
    hint = f" (did you mean {number / 100:g}, or {number:g}%?)" if 1 < number <= 100 and not percent else ""
    raise ValueError(f"expected {allowed}{hint}")


def _share(value: object) -> float:
    return _between(value, "a fraction between 0 and 1 (0.2 and 20% are the same)", 1.0)


def _load(value: object) -> float:
    return _between(value, "a load as a fraction of allocatable such as 0.8 (the same as 80%), between 0 and 2", 2.0)


def _limit(value: object) -> float | dict[str, float]:
    if isinstance(value, Mapping) or (isinstance(value, str) and value.strip().startswith("{")):
        limits = {name: _load(item) for name, item in as_map(value).items()}
        if not limits:
            raise ValueError('expected at least one resource, such as {"cpu": 0.8, "disk": 0.9}')
        return limits
    return _load(value)


def _weights(value: object) -> dict[str, float]:
    weights = {
        name: _between(item, f"a weight between 0 and 1 for {name}", 1.0) for name, item in as_map(value).items()
    }
    if not any(weights.values()):
        raise ValueError('expected at least one weight above 0, such as {"cpu": 1, "memory": 1}')
    return weights


def _node_weights(value: object) -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = {}
    for key, item in as_map(value).items():
        name = key.strip()
        (selector if is_selector(name) else subdomain)(name)
        by_resource = {
            resource: _between(number, f"a weight above 0, at most {MOST:g}, for {resource} of {name}", MOST)
            for resource, number in as_map(item).items()
        }
        if not by_resource or min(by_resource.values()) < LEAST:
            raise ValueError(f'expected weights above 0 for {name}, such as {{"disk=ssd": {{"disk": 0.5}}}}')
        weights[name] = by_resource
    return weights


def _shares(value: object) -> dict[str, float]:
    shares = {name: _share(item) for name, item in as_map(value).items()}
    if sum(shares.values()) > 1:
        raise ValueError("expected shares that are together at most 1")
    return shares


TEXT_OR_MAP = {"type": ["string", "object"]}
_FRACTION = {"type": ["number", "string"], "description": "a fraction such as 0.2, or 20%"}
_LIMIT = {
    "type": ["number", "string", "object"],
    "description": "a fraction such as 0.8, or 80%, for cpu and memory; or one for each resource",
}

Share: TypeAlias = Annotated[float, Written(_share, _FRACTION)]
Load: TypeAlias = Annotated[float, Written(_load, _FRACTION)]
LoadLimit: TypeAlias = Annotated[float | Mapping[str, float], Written(_limit, _LIMIT)]
Shares: TypeAlias = Annotated[Mapping[str, float], Written(_shares, TEXT_OR_MAP)]
Weights: TypeAlias = Annotated[Mapping[str, float], Written(_weights, TEXT_OR_MAP)]
NodeWeights: TypeAlias = Annotated[Mapping[str, Mapping[str, float]], Written(_node_weights, TEXT_OR_MAP)]


def label(name: str) -> str:
    """Checks an RFC 1123 label, at most 63 characters; raises ValueError."""
    if not re.fullmatch(LABEL, name):
        raise ValueError("expected at most 63 lower-case letters, digits and dashes, no dash at either end")
    return name


def subdomain(name: str) -> str:
    """Checks an RFC 1123 subdomain, at most 253 characters; raises ValueError."""
    if len(name) > 253 or not re.fullmatch(rf"{LABEL}(?:\.{LABEL})*", name):
        raise ValueError("expected a DNS subdomain such as ballast.dev: lower-case letters, digits, dashes and dots")
    return name


def label_key(name: str) -> str:
    """Checks the key of a label, with or without a prefix; raises ValueError."""
    if not re.fullmatch(_KEY, name):
        raise ValueError("expected the key of a label such as topology.kubernetes.io/zone")
    return name


def selector(text: str) -> str:
    """Checks a label selector as kubectl takes it; raises ValueError."""
    for part in split(text):
        try:
            [requirement] = parse(part).requirements
            valid = requirement.operator not in ("Gt", "Lt") and all(
                re.fullmatch(_NAME, value) for value in requirement.values if value
            )
        except ValueError:
            valid = False
        if not valid or not re.fullmatch(_KEY, requirement.key):
            raise ValueError(f"expected a label selector such as zone in (a,b),!gpu; {part} is not a requirement")
    return text
