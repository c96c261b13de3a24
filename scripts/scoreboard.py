"""Writes docs/scoreboard.md from docs/scoreboard.json. With `--check` it only tells whether they are in step.

`scoreboard.py EXPERIMENT RESULTS.json` takes the results of a run of `ballast experiment EXPERIMENT` first; rows of the
same workload, policy and seed replace those that are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ballast.experiments.scoreboard import SECTIONS, page

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULTS, PAGE = DOCS / "scoreboard.json", DOCS / "scoreboard.md"
KEYS = ("workload", "policy", "seed", "table", "name")


def main(arguments: list[str]) -> int:
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments == ["--check"]:
        in_step = PAGE.exists() and PAGE.read_text() == page(results)
        sys.stdout.write("in step\n" if in_step else "docs/scoreboard.md: run scripts/scoreboard.py\n")
        return 0 if in_step else 1
    if arguments and (len(arguments) != 2 or arguments[0] not in SECTIONS):
        sys.stderr.write(f"usage: scoreboard.py [--check | {'|'.join(SECTIONS)} RESULTS.json]\n")
        return 2
    if arguments:
        name, new = arguments[0], json.loads(Path(arguments[1]).read_text())
        results[name] = {key: _merged(results.get(name, {}).get(key, []), rows) for key, rows in new.items()}
        RESULTS.write_text(_written(results))
    PAGE.write_text(page(results))
    return 0


def _merged(there: Any, new: Any) -> Any:
    if not isinstance(new, list):
        return new
    found = {tuple(row.get(key) for key in KEYS): row for row in [*there, *new]}
    return [found[key] for key in sorted(found, key=str)]


def _written(results: dict[str, Any]) -> str:
    """One row a line."""

    def value(of: Any) -> str:
        return "[\n" + ",\n".join(map(json.dumps, of)) + "\n]" if isinstance(of, list) else json.dumps(of)

    parts = [
        f"{json.dumps(name)}: {{\n" + ",\n".join(f"{json.dumps(key)}: {value(of)}" for key, of in each.items()) + "\n}"
        for name, each in results.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
