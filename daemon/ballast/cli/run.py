"""`ballast run`: runs the daemon until a signal stops it."""

from __future__ import annotations

import gc
import signal
import threading
from types import FrameType

import structlog

from ballast.base import log
from ballast.cli.checked_settings import checked
from ballast.settings import explain

logger = structlog.get_logger("ballast")


def run() -> None:
    """Run the daemon until SIGTERM or Ctrl-C. Environment variables configure it; see `ballast config show`."""
    settings, warnings = checked()
    log.configure(settings.log.level, settings.log.format)
    for warning in warnings:
        logger.warning(warning)
    from ballast.runtime.daemon import Daemon

    daemon = Daemon(settings, config=explain())
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    gc.freeze()
    try:
        daemon.start(stop)
        logger.info(f"serving on {daemon.url}")
        gc.freeze()
        stop.wait()
    finally:
        daemon.stop()
    logger.info("stopped")
