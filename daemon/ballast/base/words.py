"""Values in words, as people say them."""

from __future__ import annotations

from collections.abc import Sequence


def duration(seconds: float) -> str:
    """ "45 s", "12 min", "2 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def named(names: Sequence[str], most: int = 5) -> str:
    """The first names and how many follow: "a, b and 3 more"."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def pods(count: int) -> str:
    """ "1 pod", "2,000 pods"."""
    return f"{count:,} pod" if count == 1 else f"{count:,} pods"
