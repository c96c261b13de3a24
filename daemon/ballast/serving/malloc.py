"""Makes the C library keep the memory of one answer for the next."""

from __future__ import annotations

import ctypes
from contextlib import suppress

KEEP = 16 * 2**20
"""Bytes at the end of a heap that are kept for the next answer."""

LARGE = 2 * 2**20
"""Bytes; a larger block goes back to the kernel as soon as it is free."""


def keep_freed_memory() -> None:
    """Keeps up to `KEEP` freed bytes in the heap. Does nothing without glibc.

    By default glibc returns the memory of an answer of some hundred kilobytes to the kernel, and the next answer pays
    for its page faults: 0.5 of 1.2 ms for 5,000 names.
    """
    with suppress(OSError, AttributeError):
        adjust = ctypes.CDLL(None).mallopt
        adjust(_TRIM_THRESHOLD, KEEP)
        adjust(_MMAP_THRESHOLD, LARGE)


# malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
