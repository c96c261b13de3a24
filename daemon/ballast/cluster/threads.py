"""Whether threads are alive."""

import threading


def going(thread: threading.Thread | None, stop: threading.Event) -> bool:
    """False only if the thread ended before `stop` was set."""
    return thread is None or thread.ident is None or thread.is_alive() or stop.is_set()
