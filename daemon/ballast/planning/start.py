"""Entry point of the planning process; lowers its CPU priority before it imports numpy, unless told `ordinary`.

Run as a module. Nice everywhere; on Linux it also makes way at once for whatever else of Ballast wants the processor.
"""

import os
import sys
from contextlib import suppress

NICE = 10


def lower_priority() -> None:
    os.nice(NICE)
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    if "ordinary" not in sys.argv:
        lower_priority()
    from ballast.planning.worker import main

    main()
