"""How the C library deals with memory that an answer no longer needs."""

from __future__ import annotations

import ctypes
from contextlib import suppress

KEEP = 16 * 2**20
"""Bytes at the end of a heap that are kept for the next answer."""

LARGE = 2 * 2**20
"""Bytes from which on a piece is given back to the kernel as soon as it is free."""


def keep_freed_memory() -> None:
    """glibc returns what an answer of some hundred kilobytes took, and the next one pays for every page of it again:
    half a millisecond of 1.2 for 5,000 names. Does nothing with another C library.
    """
    with suppress(OSError, AttributeError):
        adjust = ctypes.CDLL(None).mallopt
        adjust(_TRIM_THRESHOLD, KEEP)
        adjust(_MMAP_THRESHOLD, LARGE)


# malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
