"""Keys of Kubernetes labels, and label selectors."""

from __future__ import annotations

import re

from ballast.settings.values.collection import split
from ballast.settings.values.dns import LABEL

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:{LABEL}(?:\.{LABEL})*/)?{_NAME}"
_SET = rf"\(\s*(?:{_NAME})?(?:\s*,\s*(?:{_NAME})?)*\s*\)"
_REQUIREMENT = rf"!?\s*{_KEY}|{_KEY}\s*(?:==|=|!=)\s*(?:{_NAME})?|{_KEY}\s+(?:in|notin)\s*{_SET}"


def label_key(name: str) -> str:
    """Checks the key of a label, with or without a prefix; raises ValueError."""
    if not re.fullmatch(_KEY, name):
        raise ValueError("expected the key of a label such as topology.kubernetes.io/zone")
    return name


def selector(text: str) -> str:
    """Checks a label selector as kubectl takes it; raises ValueError."""
    for requirement in split(text):
        if not re.fullmatch(_REQUIREMENT, requirement):
            raise ValueError(
                f"expected a label selector such as zone in (a,b),!gpu; {requirement} is not a requirement"
            )
    return text
