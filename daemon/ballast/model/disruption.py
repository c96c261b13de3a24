"""Disruption budgets that can never be met."""

from __future__ import annotations

import math


def never_allows(most: int | str | None, least: int | str | None, expected: int) -> str | None:
    """Why `maxUnavailable: most` or `minAvailable: least` allow no disruption of `expected` pods, or None.

    Shares are rounded up, as by the disruption controller (kubernetes pkg/controller/disruption/disruption.go).
    """
    if most is not None:
        return f"maxUnavailable: {most} allows no eviction" if _pods(most, max(1, expected)) == 0 else None
    if least is None:
        return None
    if _share(least) == 1:
        return f"minAvailable: {least} allows no eviction"
    needed = _pods(least, expected)
    if expected and needed is not None and needed >= expected:
        return f"minAvailable: {least} of {expected} pods allows no eviction"
    return None


def _share(value: int | str) -> float | None:
    if not isinstance(value, str) or not value.endswith("%"):
        return None
    try:
        return int(value[:-1]) / 100
    except ValueError:
        return None


def _pods(value: int | str, of: int) -> int | None:
    share = _share(value)
    if share is not None:
        return math.ceil(round(share * of, 9))
    return value if isinstance(value, int) else None
