"""Values in words, as people say them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """ "45 s", "12 min", "2 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 1 or not seconds else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
