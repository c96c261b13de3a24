"""The report: one HTML file that stands alone, with pictures first and tables after them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
import numpy as np

from ballast.model.sample import Floats
from ballast_lab.rehearse.advice import Candidate, helm_values, tradeoff
from ballast_lab.rehearse.measures import Estimate
from ballast_lab.rehearse.rehearsal import Played, Rehearsal, RunResult
from ballast_lab.rehearse.summary import summarise

POINTS = 400
"""Points of a line, at most."""
HOURS = 24 * 7
"""Bars of evictions, at most."""
FULL = 200
"""The byte that stands for a load of 1 in the picture of nodes; 255 is unknown."""


def render(result: Rehearsal, played: Played, grid: Sequence[Candidate] = ()) -> str:
    """The whole page, with the curve of the `grid`. Nothing is fetched when it is opened."""
    page = files("ballast_lab.rehearse").joinpath("report.html").read_text(encoding="utf-8")
    data = msgspec.json.encode(_pictures(result, played)).decode().replace("<", "\\u003c")
    parts = {
        "title": f"Rehearsal from {result.begin} to {result.end}",
        "summary": "".join(f"<li>{escape(line)}</li>" for line in summarise(result)),
        "tables": "".join((*_advice(result, played, grid), *_tables(result))),
        "data": data,
    }
    for name, text in parts.items():
        page = page.replace("{{" + name + "}}", text)
    return page


def _pictures(result: Rehearsal, played: Played) -> Mapping[str, Any]:
    """What the script of the page draws."""
    span = played.span
    names = [run.name for run in played.runs]
    return {
        "from": span.begin,
        "to": span.end,
        "step": span.step,
        "names": names,
        "hottest": [_thinned(np.array(run.measures.p99)) for run in played.runs],
        "hot": [_summed(np.array(run.measures.hot["0.8"], float) * span.step / 3600) for run in played.runs],
        "evictions": [_summed(np.array(run.measures.by_time, float)) for run in played.runs],
        "nodes": len(played.runs[0].course.history.nodes),
        "loads": [_bytes(played.loads[name]) for name in names],
    }


def _thinned(values: Floats) -> list[float | None]:
    """The highest of each part of the time."""
    parts = np.array_split(values, min(POINTS, len(values)))
    highest = [float(np.nanmax(part)) if np.isfinite(part).any() else None for part in parts]
    return [None if value is None else round(value, 4) for value in highest]


def _summed(values: Floats) -> list[float]:
    return [round(float(part.sum()), 3) for part in np.array_split(values, min(HOURS, len(values)))]


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
    head = ["Evictions a day", "Node-hours above 80 %", "HIGH", "PLANNERS", "RATE"]
    yield _table(head, tradeoff(grid, played.span))


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
    yield _table(["Run", "Workload", "Evictions"], rows)
    yield from _counts("Refusals by check", runs, lambda run: run.refused)
    yield "<h2>What cannot be known</h2>"
    yield _table(["What", "Share"], [[each.what, f"{each.share:.1%}"] for each in result.unknown])


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
