"""Writes the dashboards: `python -m dashboards` in the root. With `--check` it only tells whether they are in step.

All replicas export the per-node metrics, so node series are reduced with `max by`, and counters summed over replicas.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts.compact_json import compact_json

from .evictions import evictions
from .extender import extender
from .fleet import fleet
from .node import node
from .power import power

FOLDER = Path(__file__).resolve().parent
DASHBOARDS = {"fleet": fleet, "power": power, "evictions": evictions, "extender": extender, "node": node}


def main() -> None:
    for name, make in DASHBOARDS.items():
        path, text = FOLDER / f"{name}.json", compact_json(make()) + "\n"
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"dashboards/{path.name} is out of step: run .venv/bin/python -m dashboards")


main()
