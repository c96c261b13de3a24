"""Keys of Kubernetes labels, and label selectors."""

from __future__ import annotations

import re

from ballast.model.selector import parse
from ballast.settings.values.collection import split
from ballast.settings.values.dns import LABEL

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:{LABEL}(?:\.{LABEL})*/)?{_NAME}"


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
