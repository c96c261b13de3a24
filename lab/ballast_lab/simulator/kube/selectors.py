"""Label and field selectors of list and watch requests, and LabelSelector objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ballast.model import selector as model
from ballast_lab.simulator.kube.api_errors import bad_request
from ballast_lab.simulator.kube.store import Stored

Selector = Callable[[Stored], bool]

_COMPARE = re.compile(r"^([^\s!=]+)\s*(==|=|!=)\s*([^\s]*)$")


def parse(labels: str, fields: str) -> Selector | None:
    """A predicate for both selectors, or None if they select everything. Raises ApiError (400)."""
    tests = [*map(_label_test, _split(labels)), *map(_field_test, _split(fields))]
    if not tests:
        return None
    return lambda stored: all(test(stored) for test in tests)


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector object matches; an empty one selects everything, None nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(expression, labels) for expression in selector.get("matchExpressions") or ())


def _expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: list[str] = expression.get("values") or []
    operator: str = expression["operator"]
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return (value is not None) == (operator == "Exists")


def _split(text: str) -> list[str]:
    parts = re.split(r",(?![^(]*\))", text) if text else []
    return [part.strip() for part in parts if part.strip()]


def _label_test(requirement: str) -> Selector:
    try:
        selector = model.parse(requirement)
    except ValueError:
        token = requirement.split()[-1]
        message = f"unable to parse requirement: found '{token}', expected: in, notin, =, ==, !=, gt, lt"
        raise bad_request(message) from None
    return lambda stored: selector.matches(stored.labels)


def _field_test(requirement: str) -> Selector:
    found = _COMPARE.match(requirement)
    if found is None:
        raise bad_request(f"invalid selector: '{requirement}'; can't understand '{requirement}'")
    key, operator, value = found.groups()

    def read(stored: Stored) -> str:
        if key == "metadata.name":
            return stored.name
        if key == "metadata.namespace":
            return stored.namespace
        if key not in stored.fields:
            raise bad_request(f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"')
        return stored.fields[key]

    if operator == "!=":
        return lambda stored: read(stored) != value
    return lambda stored: read(stored) == value
