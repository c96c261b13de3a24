"""Names as Kubernetes takes them: labels, their keys, subdomains, selectors. Each checks and returns its text."""

import re

from ballast.model.selector import parse
from ballast.settings.lists import split

LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY = rf"(?:{LABEL}(?:\.{LABEL})*/)?{_NAME}"


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
