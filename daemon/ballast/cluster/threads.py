"""Whether a thread does what it was started for."""

from __future__ import annotations

import threading


def going(thread: threading.Thread | None, stop: threading.Event) -> bool:
    """False once a thread has ended without being told to; true before its start and from `stop` on."""
    return thread is None or thread.ident is None or thread.is_alive() or stop.is_set()
