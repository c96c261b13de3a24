"""Sentences about values: how a value is shown, and what is wrong with it."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr
from pydantic_core import ErrorDetails

from ballast.base.text import HIDDEN
from ballast.settings.model import VARIABLES, Settings, variable
from ballast.settings.secrets import mask_address, mask_urls
from ballast.settings.sources import GivenValue
from ballast.settings.telemetry import ResourceSetting
from ballast.settings.written import LARGEST, Count, Duration, Speed

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "int_parsing": "a whole number",
    "int_parsing_size": f"a number of at most {LARGEST}",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "path_type": "the name of a file",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "literal_error": "one of {expected}",
    "enum": "one of {expected}",
    "too_short": "at least one item",
}


def shown(part: str, field: str, value: object) -> Any:
    """A value as `config show` prints it: plain JSON, durations as written, unset as None, nothing secret."""
    if value is None or value == () or value == {}:
        return None
    if isinstance(value, SecretStr) or field == "token":
        return HIDDEN
    if field == "headers":
        return dict.fromkeys(map(str, value), HIDDEN) if isinstance(value, Mapping) else HIDDEN
    if isinstance(value, str):
        return mask_address(value) if field == "url" else mask_urls(value)
    if field == "resources" and isinstance(value, tuple):
        return _resources(value)
    return _plain(value)


def problem(error: ErrorDetails, values: Mapping[tuple[str, str], GivenValue]) -> str:
    """One validation error as a sentence: variable, value, origin, what is allowed, the next step."""
    part, field = (*map(str, error["loc"]), "", "")[:2]
    name = variable(part, field) if (part, field) in VARIABLES.values() else f"{part}.{field}"
    entry = values.get((part, field))
    if entry is None:
        return f"{name}: {_expectation(error)}."
    text = json.dumps(shown(part, field, entry.value), ensure_ascii=False)
    default = shown(part, field, getattr(getattr(Settings(), part), field))
    fallback = "" if default is None else f" to use {json.dumps(default)}"
    return f"{name} is {text} ({entry.origin}): {_expectation(error)}. Correct it, or unset it{fallback}."


def _expectation(error: ErrorDetails) -> str:
    if error["type"] == "value_error":
        return mask_urls(str(error["ctx"]["error"]))
    template = _EXPECTED.get(error["type"])
    return f"expected {template.format(**error.get('ctx', {}))}" if template else mask_urls(error["msg"])


def _resources(resources: tuple[ResourceSetting, ...]) -> Any:
    details = {resource.name: resource.model_dump(exclude_none=True, exclude={"name"}) for resource in resources}
    return _plain(details if any(details.values()) else list(details))


def _plain(value: object) -> Any:
    if isinstance(value, Duration | Speed):
        return value.text
    if isinstance(value, Count) and value.percent is None:
        return value.number
    if isinstance(value, str):
        return mask_urls(value)
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return mask_urls(str(value))
