"""`ballast run`: runs the daemon until a signal stops it."""

import gc
import signal
import threading
import time
from itertools import count
from types import FrameType

import structlog

from ballast.base import log
from ballast.base.errors import SettingsError
from ballast.base.freed_memory import trim
from ballast.extender import strategies
from ballast.scoring.strategy import REGISTRY
from ballast.settings import Mode, Settings, SettingsFindings, examine, explain, needed_to_run
from ballast.settings.model import variable
from ballast.settings.prometheus import PRESETS
from ballast.settings.sources import ORIGIN

SETTLE = 60.0
"""Seconds after which what stays is put aside from the garbage collector."""

THOROUGH = 360
"""Rounds of that after which all is looked at once."""

logger = structlog.get_logger("ballast")


def run() -> None:
    """Run the daemon until SIGTERM or Ctrl-C. Environment variables configure it; see `ballast config show`."""
    settings, warnings = check_settings()
    log.configure(settings.log.level, settings.log.format)
    for warning in warnings:
        logger.warning(warning)
    from ballast.runtime.daemon import Daemon

    daemon = Daemon(settings, config=explain())
    log.configure(settings.log.level, settings.log.format, dropped=daemon.context.metrics.log_dropped.inc)
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    gc.freeze()
    try:
        daemon.start(stop)
        logger.info(f"serving on {daemon.url}")
        rest(stop)
    finally:
        daemon.stop()
    logger.info("stopped")


def rest(stop: threading.Event) -> None:
    """Until `stop`; meanwhile the garbage collector is kept from looking at what stays.

    The facts of 5,000 nodes are 100,000 objects, and everything waits 50 ms whenever all of them are looked at, which
    happened every 15 s. What became garbage among them is found after `THOROUGH` rounds.
    """
    gc.freeze()
    for number in count(1):
        if stop.wait(SETTLE):
            return
        if number % THOROUGH == 0:
            gc.unfreeze()
        tidy()


def tidy() -> None:
    """Puts aside what stays, and gives back what was freed: of 15,000 nodes, what was read leaves 35 MB behind."""
    gc.collect()
    gc.freeze()
    trim()


def check_settings() -> tuple[Settings, tuple[str, ...]]:
    """Returns the settings and warnings. Raises SettingsError with all problems that keep the daemon from starting."""
    findings = examine()
    refused, doubted = _check_power(findings)
    needed = () if findings.unusable else (*needed_to_run(findings.settings), *strategies.problems(findings.settings))
    problems = (*findings.problems, *needed, *refused)
    hidden = (*REGISTRY.shadowed(), *PRESETS.shadowed())
    warnings = (*findings.warnings, *doubted, *hidden)
    if problems:
        raise SettingsError(*problems, *(f"warning: {warning}" for warning in warnings))
    return findings.settings, warnings


def _check_power(findings: SettingsFindings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Problems and warnings of the power policies. Nothing is imported for them where there are none."""
    if not findings.settings.power.policies and findings.settings.power.mode is not Mode.ON:
        return (), ()
    from ballast.jobs.power import build_power

    given = findings.values.get(("power", "policies"))
    called = "power" if given is None or given.origin != ORIGIN else variable("power", "policies")
    policies = build_power.findings(findings.settings, called, time.time())
    return policies.problems, policies.warnings
