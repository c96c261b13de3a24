"""Reads policies from the mappings of a configuration file; errors are sentences for the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ballast.base.errors import SettingsError
from ballast.power import feed_spec, policy, schedule
from ballast.power.policy import PowerPolicy
from ballast.power.policy_rules import contradictions
from ballast.power.policy_section import PolicySection
from ballast.power.sections import changes

_EXPECTED = {
    "string_type": "text",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "too_short": "at least one",
    "greater_than": "a number above {gt}",
    "model_type": "a mapping",
    "mapping_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
}


def read(raws: Sequence[Mapping[str, Any]]) -> tuple[PowerPolicy, ...]:
    """The policies, each with a name of its own. Raises SettingsError with all problems at once."""
    problems: list[str] = []
    found: list[PowerPolicy] = []
    for number, raw in enumerate(raws):
        label = f"power policy {_called(raw, number)}" if len(raws) > 1 else "power"
        try:
            one = PowerPolicy.model_validate(_without_empty(raw))
        except ValidationError as error:
            problems.extend(dict.fromkeys(_problem(label, raw, each) for each in error.errors()))
        else:
            found.append(one)
            problems.extend(f"{label}: {text}" for text in contradictions(one))
    if len(raws) > 1:
        problems.extend(_names(raws))
    problems.extend(_doubled(found))
    if problems:
        raise SettingsError(*problems)
    return tuple(found)


def _problem(label: str, raw: Mapping[str, Any], error: ErrorDetails) -> str:
    path = [each for each in error["loc"] if each != "function-plain"]
    key = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).lstrip(".")
    if error["type"] == "extra_forbidden":
        return f"{label}: {key} is no key of a policy. {_hint(str(path[-1]))}"
    if error["type"] == "missing":
        return f"{label}: {key} is missing. Give it."
    if error["type"] == "value_error":
        expectation = str(error["ctx"]["error"])
    else:
        template = _EXPECTED.get(error["type"])
        expectation = f"expected {template.format(**error.get('ctx', {}))}" if template else error["msg"]
    given = error["input"]
    shown = f"{key} is {_shown(given)}" if not isinstance(given, Mapping | list | PolicySection) else key
    return f"{label}: {shown}: {expectation}. Correct it." if shown else f"{label}: {expectation}. Correct it."


def _hint(key: str) -> str:
    if key in ("dryRun", "dry_run", "dryrun"):
        return "BALLAST_POWER__MODE (off, dry-run or on) sets whether anything is changed. Remove it."
    near = get_close_matches(key, _KEYS, n=1, cutoff=0.6)
    return f"Did you mean {near[0]}? Correct or remove it." if near else "Correct or remove it."


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _called(raw: Mapping[str, Any], number: int) -> str:
    name = raw.get("name") if isinstance(raw, Mapping) else None
    return str(name) if name else f"number {number + 1}"


def _without_empty(value: Any) -> Any:
    """An empty value counts as unset."""
    if isinstance(value, Mapping):
        return {str(key): _without_empty(each) for key, each in value.items() if each is not None and each != ""}
    return [_without_empty(each) for each in value] if isinstance(value, list | tuple) else value


def _names(raws: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    seen: set[str] = set()
    for number, raw in enumerate(raws):
        name = str(raw.get("name") or "")
        if not name:
            yield f"power policy number {number + 1} has no name; several policies need different names. Give it one."
        elif name in seen:
            yield f"power policy {name} exists twice: expected a different name for each policy. Rename one."
        seen.add(name)


def _doubled(policies: Sequence[PowerPolicy]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for one in policies:
        for name in one.places:
            if owners.setdefault(name, one.name) != one.name:
                yield (
                    f"{name} is a target of the power policies {owners[name]} and {one.name}: expected one budget for "
                    "each target. Remove it from one of them."
                )


def _aliases() -> Iterator[str]:
    for module in (policy, feed_spec, schedule, changes):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, PolicySection):
                yield from (info.alias or name for name, info in each.model_fields.items())
                yield from each.other_names


_KEYS = sorted(set(_aliases()))
