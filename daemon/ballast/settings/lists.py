"""Lists and maps as a person writes them: `a,b`, JSON, or YAML."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BeforeValidator

_T = TypeVar("_T")
LONG = 300
"""Characters of the longest number; a longer one may not fit a float."""


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


TEXT_OR_MAP = {"type": ["string", "object"]}
