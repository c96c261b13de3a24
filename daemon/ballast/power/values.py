"""Numbers, durations and references of a policy, read exactly: 0.1 is a tenth."""

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, PlainValidator, WithJsonSchema

from ballast.model import duration

_REFERENCE = re.compile(r"(?:(?P<kind>[a-z0-9.-]+)/)?(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9.-]+)")
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DURATIONS = "a duration such as 15s, 5m or 1h30m (a bare number is seconds)"

DEFAULT_KIND = "deployments.apps"
INT32 = 2**31 - 1


def exact(value: object) -> Fraction:
    """The number as written. Raises ValueError where it is not a finite number."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError("expected a number")
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        raise ValueError("expected a number") from None
    if not number.is_finite() or abs(number.adjusted()) > 400:
        raise ValueError("expected a finite number")
    return Fraction(number)


def seconds(value: object) -> Fraction:
    """A duration in seconds. Raises ValueError that states what is allowed."""
    if isinstance(value, str) and (written := duration.seconds(value.strip())) is not None:
        return written
    try:
        number = exact(value)
    except ValueError:
        raise ValueError(f"expected {_DURATIONS}") from None
    if number < 0:
        raise ValueError(f"expected {_DURATIONS}, not a negative one")
    return number


def _fraction(value: object) -> Fraction:
    try:
        number = exact(value)
    except ValueError:
        number = Fraction(-1)
    if not 0 <= number <= 1:
        raise ValueError("expected a fraction between 0 and 1, such as 0.05")
    return number


def _open(value: Fraction) -> Fraction:
    if not 0 < value < 1:
        raise ValueError("expected a fraction above 0 and below 1, such as 0.05")
    return value


def _positive(value: Fraction) -> Fraction:
    if not value > 0:
        raise ValueError("expected something larger than 0")
    return value


def _not_negative(value: Fraction) -> Fraction:
    if value < 0:
        raise ValueError("expected a number of at least 0")
    return value


def _count(value: object) -> int:
    try:
        number = exact(value)
    except ValueError:
        number = Fraction(-1)
    if number.denominator != 1 or not 0 <= number <= INT32:
        raise ValueError(f"expected a whole number between 0 and {INT32}")
    return int(number)


def _integer(value: object) -> int:
    try:
        number = exact(value)
    except ValueError:
        number = Fraction(1, 2)
    if number.denominator != 1 or abs(number) > INT32:
        raise ValueError("expected a whole number")
    return int(number)


def _at_least_one(value: int) -> int:
    if not value:
        raise ValueError("expected at least 1")
    return value


def _reference(value: object) -> str:
    match = _REFERENCE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("expected namespace/name or kind.group/namespace/name, such as prod/api")
    return f"{match['kind'] or DEFAULT_KIND}/{match['namespace']}/{match['name']}"


def _name(value: object) -> str:
    value = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("expected a name of letters, digits, dots, dashes and underscores")
    return value


_NUMBER = WithJsonSchema({"type": ["number", "string"]})
_FRACTION = WithJsonSchema({"type": ["number", "string"], "minimum": 0, "maximum": 1})
_WHOLE = WithJsonSchema({"type": ["integer", "string"]})
_DURATION = WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": duration.PATTERN})

Positive: TypeAlias = Annotated[Fraction, PlainValidator(exact), AfterValidator(_positive), _NUMBER]
Number: TypeAlias = Annotated[Fraction, PlainValidator(exact), _NUMBER]
NotNegative: TypeAlias = Annotated[Fraction, PlainValidator(exact), AfterValidator(_not_negative), _NUMBER]
Share: TypeAlias = Annotated[Fraction, PlainValidator(_fraction), _FRACTION]
OpenShare: TypeAlias = Annotated[Fraction, PlainValidator(_fraction), AfterValidator(_open), _FRACTION]
Seconds: TypeAlias = Annotated[Fraction, PlainValidator(seconds), _DURATION]
Period: TypeAlias = Annotated[Fraction, PlainValidator(seconds), AfterValidator(_positive), _DURATION]
Count: TypeAlias = Annotated[int, PlainValidator(_count), _WHOLE]
Integer: TypeAlias = Annotated[int, PlainValidator(_integer), _WHOLE]
PositiveCount: TypeAlias = Annotated[int, PlainValidator(_count), AfterValidator(_at_least_one), _WHOLE]
Reference: TypeAlias = Annotated[str, PlainValidator(_reference), WithJsonSchema({"type": "string"})]
Name: TypeAlias = Annotated[str, PlainValidator(_name), WithJsonSchema({"type": ["string", "integer"]})]
