"""Names of Kubernetes objects."""

from __future__ import annotations

import re

LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"


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
