"""The report: one HTML file that stands alone, with pictures first and tables after them."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from ballast.model.sample import Floats
from ballast_lab.rehearse.advice import SHOWN, Candidate, curve, helm_values, tradeoff
from ballast_lab.rehearse.measures import HOUR, Estimate
from ballast_lab.rehearse.rehearsal import COLUMNS, Played, Rehearsal, RunResult
from ballast_lab.rehearse.summary import summarise

POINTS = 400
"""Points of a line, at most."""
HOURS = 24 * 7
"""Times of which evictions are summed, at most."""
FULL = 200
"""The byte that stands for a load of 1 in the picture of nodes; 255 is unknown."""


def render(result: Rehearsal, played: Played, grid: Sequence[Candidate] = ()) -> str:
    """The whole page, with the curve of the `grid`. Nothing is fetched when it is opened."""
    page = files("ballast_lab.rehearse").joinpath("report.html").read_text(encoding="utf-8")
    data = msgspec.json.encode(_pictures(played, grid)).decode().replace("<", "\\u003c")
    parts = {
        "title": f"Rehearsal, {_minute(result.begin)} to {_minute(result.end)} UTC",
        "summary": "".join(f"<li>{escape(line)}</li>" for line in summarise(result)),
        "tables": "".join((*_advice(result, played, grid), *_tables(result))),
        "data": data,
    }
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def _minute(stamp: str) -> str:
    return stamp[:16].replace("T", " ")


def _pictures(played: Played, grid: Sequence[Candidate]) -> Mapping[str, Any]:
    """What the script of the page draws."""
    span, measures = played.span, [run.measures for run in played.runs]
    hours = math.ceil((span.end - span.begin) / HOUR / HOURS)
    # Times whose sum is one step of the stairs.
    bin_size = max(1, round(hours * HOUR / span.step))
    return {
        "from": span.begin,
        "to": span.end,
        "names": [run.name for run in played.runs],
        "hottest": [_thinned(np.array(each.p99)) for each in measures],
        "hours": hours,
        "bin": bin_size / span.steps,
        "hot": [_summed(np.array(each.hot["0.8"], float) * span.step / HOUR, bin_size) for each in measures],
        "evictions": [_summed(np.array(each.by_time, float), bin_size) for each in measures],
        "nodes": len(played.runs[0].course.history.nodes),
        "every": math.ceil(span.steps / COLUMNS) * span.step,
        "loads": [_bytes(played.loads[run.name]) for run in played.runs],
        "curve": curve(played.runs, grid, span) if grid else (),
    }


def _thinned(values: Floats) -> list[float | None]:
    """The highest of each part of the time."""
    parts = np.array_split(values, min(POINTS, len(values)))
    highest = [float(np.nanmax(part)) if np.isfinite(part).any() else None for part in parts]
    return [None if value is None else round(value, 4) for value in highest]


def _summed(values: Floats, size: int) -> list[float]:
    """Of `size` times each; less than half of that at the end belongs to the last."""
    return [round(float(part.sum()), 3) for part in np.split(values, range(size, len(values) - size // 2, size))]


def _bytes(loads: Sequence[Any]) -> str:
    """Every node's load at each kept time, a byte each."""
    table = np.array(loads, float)
    scaled = np.clip(np.nan_to_num(table) * FULL, 0, 254)
    return base64.b64encode(np.where(np.isfinite(table), scaled, 255).astype(np.uint8).tobytes()).decode()


def _advice(result: Rehearsal, played: Played, grid: Sequence[Candidate]) -> Iterable[str]:
    """The advice as environment variables and as values of the chart, and what the others of the grid did."""
    if result.advice is None:
        return
    advice = result.advice
    yield f"<h2>Advice</h2><p>{escape(advice.why[0].upper() + advice.why[1:])}.</p>"
    if advice.settings:
        variables = "\n".join(f"{name}={value}" for name, value in advice.settings.items())
        yield f"<pre>{escape(variables)}</pre><pre>{escape(helm_values(advice))}</pre>"
    yield (
        '<p class="soft">Evictions a day to the right, node-hours above 80 % upwards: as it was, each settings, and '
        "the grid in the last colour. The line joins what is best with as many evictions.</p>"
        '<svg id="curve" height="240" role="img" aria-label="Node-hours above 80 percent by evictions a day"></svg>'
    )
    yield _table(["Evictions a day", "Node-hours above 80 %", *SHOWN], tradeoff(grid, played.span))


def _tables(result: Rehearsal) -> Iterable[str]:
    runs = result.runs
    yield "<h2>In numbers</h2>"
    yield _table(
        ["", *(run.name for run in runs)],
        [
            ["Node-hours above 80 %", *(_estimate(run.node_hours_above["0.8"]) for run in runs)],
            ["Node-hours above 90 %", *(_estimate(run.node_hours_above["0.9"]) for run in runs)],
            *(
                [f"Deviation of {name}", *(_estimate(run.deviation[name], 4) for run in runs)]
                for name in runs[0].deviation
            ),
            ["99th percentile of node load", *(_estimate(run.load_p99, 3) for run in runs)],
            ["Most pods of one workload on a node", *(str(run.concentration) for run in runs)],
            ["Evictions", *(f"{run.evictions.total:,}" for run in runs)],
            ["Most evictions of one workload", *(f"{run.evictions.most_of_one_workload:,}" for run in runs)],
            ["Label writes", *(f"{run.label_writes:,}" for run in runs)],
            ["Nodes emptied", *(f"{run.nodes_emptied:,}" for run in runs)],
            ["Node-hours saved", *(_estimate(run.node_hours_saved) for run in runs)],
            *_power(runs),
        ],
    )
    yield from _counts("Evictions by planner", runs, lambda run: run.evictions.by_planner)
    yield "<h3>Evictions by workload, the most first</h3>"
    rows = [
        [run.name, workload, f"{count:,}"]
        for run in runs
        for workload, count in list(run.evictions.by_workload.items())[:10]
    ]
    yield f'<div class="words">{_table(["Run", "Workload", "Evictions"], rows)}</div>'
    yield f"<h3>The first {MOVES} moves of each run</h3>"
    yield f'<div class="words">{_table(["Run", *_MOVE], list(_moves(runs)))}</div>'
    yield from _counts("Refusals by check", runs, lambda run: run.refused)
    yield "<h2>What cannot be known</h2>"
    yield _table(["What", "Share"], [[each.what, f"{each.share:.1%}"] for each in result.unknown])


MOVES = 200
"""Moves of each run that the page has; rehearsal.json has all of them."""
_MOVE = ("Time", "Pod", "From", "To", "Planner", "Why")


def _moves(runs: Sequence[RunResult]) -> Iterable[list[str]]:
    for run in runs:
        for move in run.moves[:MOVES]:
            time = datetime.fromtimestamp(move.time, UTC).strftime("%m-%d %H:%M:%S")
            yield [run.name, time, move.pod, move.source, move.target, move.planner, move.reason]


POWER = {
    "over_watt_hours": ("Watt-hours above the power feed", ",.0f"),
    "over_share": ("Time above the power feed", ".1%"),
    "unused_watt_hours": ("Watt-hours unused", ",.0f"),
    "energy_kwh": ("Energy, kWh", ",.1f"),
    "grams": ("Carbon, g", ",.0f"),
}


def _power(runs: Sequence[RunResult]) -> Iterable[list[str]]:
    """Rows of what any run knows; a dash where a run does not."""
    known = [run.power or {} for run in runs]
    for key, (title, form) in POWER.items():
        if any(key in power for power in known):
            yield [title, *(format(power[key], form) if key in power else "–" for power in known)]


def _counts(title: str, runs: Sequence[RunResult], of: Any) -> Iterable[str]:
    keys = sorted({key for run in runs for key in of(run)})
    if keys:
        yield f"<h3>{title}</h3>"
        yield _table(
            ["", *(run.name for run in runs)], [[key, *(f"{of(run).get(key, 0):,}" for run in runs)] for key in keys]
        )


def _estimate(number: Estimate, digits: int = 1) -> str:
    return f"{number.value:,.{digits}f} ({number.low:,.{digits}f} to {number.high:,.{digits}f})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(first)}</th>' + "".join(f"<td>{escape(text)}</td>" for text in rest) + "</tr>"
        for first, *rest in rows
    )
    return f'<div class="wide"><table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table></div>'
