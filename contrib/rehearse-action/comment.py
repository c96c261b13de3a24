"""Rehearses the chart's values of before and of now, and prints what differs as Markdown."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

Run = Mapping[str, Any]
BEFORE, NOW, NOTHING = "before", "now", "as-it-was"
NO_HISTORY = "No history can be read here: neither `prometheus` nor `recording` is given (a fork has no secrets)."


def settings_of(values: Path) -> dict[str, Any]:
    """The settings in a file of the chart's values; what is null is left to its default."""
    parts = (yaml.safe_load(values.read_text()) or {}).get("settings") or {}
    return {
        part: {key: value for key, value in (fields or {}).items() if value is not None}
        for part, fields in parts.items()
    }


def comment(document: Mapping[str, Any]) -> str:
    """A table of the runs of a `rehearsal.json`: as it was, before, now."""
    runs = {run["name"]: run for run in document["runs"]}
    named = {"as it was": runs[NOTHING], "before": runs[BEFORE], "this change": runs[NOW]}
    rows = [
        ("node-hours above 80 %", lambda run: _estimate(run["node_hours_above"]["0.8"])),
        ("pods moved", lambda run: f"{run['evictions']['total']:,}"),
        ("nodes saved, node-hours", lambda run: _estimate(run["node_hours_saved"])),
        ("drawn above the feeds, Wh", lambda run: f"{run['power']['over_watt_hours']:,.0f}" if run["power"] else "-"),
    ]
    lines = [
        f"**Ballast, {document['from']} to {document['to']}, {document['nodes']:,} nodes**",
        "",
        f"| | {' | '.join(named)} |",
        f"|---|{'---|' * len(named)}",
        *(f"| {what} | {' | '.join(show(run) for run in named.values())} |" for what, show in rows),
    ]
    return "\n".join(lines) + "\n"


def _estimate(number: Any) -> str:
    if not isinstance(number, Mapping):
        return "not known" if number is None else f"{number:,.1f}"
    return f"{number['value']:,.1f} ({number['low']:,.1f} to {number['high']:,.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="the chart's values before the change")
    parser.add_argument("now", type=Path, help="the chart's values")
    parser.add_argument("--prometheus", default="", help="whose history is rehearsed")
    parser.add_argument("--recording", default="", help="a folder with a recording instead")
    parser.add_argument("--from", dest="begin", default="2d", help="how long before now the days begin")
    arguments = parser.parse_args()
    if not arguments.prometheus and not arguments.recording:
        sys.stdout.write(f"{NO_HISTORY}\n")
        return
    history = ["--prometheus", arguments.prometheus, "--from", arguments.begin]
    source = ["--recording", arguments.recording] if arguments.recording else history
    with tempfile.TemporaryDirectory() as folder:
        chosen = []
        for name, values in ((BEFORE, arguments.before), (NOW, arguments.now)):
            file = Path(folder) / f"{name}.yaml"
            file.write_text(yaml.safe_dump(settings_of(values)))
            chosen += ["--settings", str(file)]
        command = [sys.executable, "-m", "ballast", "rehearse", *source, *chosen, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.stdout.write(f"The rehearsal failed:\n\n```\n{done.stderr.strip()}\n```\n")
        sys.exit(1)
    sys.stdout.write(comment(json.loads(done.stdout)))


if __name__ == "__main__":
    main()
