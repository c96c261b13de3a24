"""`ballast run` under libfaketime, which answers `time.sleep` with EINVAL once the clock was turned: `select` waits."""

from __future__ import annotations

import runpy
import select
import sys
import time


def _wait(seconds: float) -> None:
    select.select([], [], [], seconds)


if __name__ == "__main__":
    time.sleep = _wait
    sys.argv = ["ballast", "run"]
    runpy.run_module("ballast", run_name="__main__")
