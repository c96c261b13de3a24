"""Names as Kubernetes allows them."""

from __future__ import annotations

import re

from ballast.settings.values.collection import split

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:{_LABEL}(?:\.{_LABEL})*/)?{_NAME}"
_SET = rf"\(\s*(?:{_NAME})?(?:\s*,\s*(?:{_NAME})?)*\s*\)"
_REQUIREMENT = rf"!?\s*{_KEY}|{_KEY}\s*(?:==|=|!=)\s*(?:{_NAME})?|{_KEY}\s+(?:in|notin)\s*{_SET}"


def label(name: str) -> str:
    """RFC 1123 label, at most 63 characters; raises ValueError."""
    if not re.fullmatch(_LABEL, name):
        raise ValueError("expected at most 63 lower-case letters, digits and dashes, no dash at either end")
    return name


def subdomain(name: str) -> str:
    """RFC 1123 subdomain, at most 253 characters; raises ValueError."""
    if len(name) > 253 or not re.fullmatch(rf"{_LABEL}(?:\.{_LABEL})*", name):
        raise ValueError("expected a DNS subdomain such as ballast.dev: lower-case letters, digits, dashes and dots")
    return name


def label_key(name: str) -> str:
    """A label's key, with or without a prefix; raises ValueError."""
    if not re.fullmatch(_KEY, name):
        raise ValueError("expected the key of a label such as topology.kubernetes.io/zone")
    return name


def selector(text: str) -> str:
    """A label selector as kubectl takes it; raises ValueError."""
    for requirement in split(text):
        if not re.fullmatch(_REQUIREMENT, requirement):
            raise ValueError(f"expected a label selector such as zone in (a,b),!gpu; {requirement} is no requirement")
    return text
