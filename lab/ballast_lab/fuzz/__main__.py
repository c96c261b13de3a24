"""`make fuzz`: tries mutated input on every decoder and parser, and keeps what escapes."""

from __future__ import annotations

import argparse
import sys
import time

from ballast.base import log
from ballast_lab.fuzz.running import escapes
from ballast_lab.fuzz.targets import TARGETS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m ballast_lab.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="cases in all (default 100000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time; it is printed")
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="TARGET")
    given = parser.parse_args()
    log.configure("critical")
    print(f"{given.cases:,} cases for {len(given.only)} targets, --seed {given.seed}")
    began, found = time.monotonic(), 0
    for escape in escapes(given.cases, given.seed, given.only):
        found += 1
        print(f"\n{escape.target}: {escape.keep()}\n{escape.error}")
    print(f"{found} escaped, in {time.monotonic() - began:.0f} s")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
