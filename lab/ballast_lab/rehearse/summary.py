"""The rehearsal in at most ten lines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ballast_lab.rehearse.measures import Estimate
from ballast_lab.rehearse.rehearsal import Rehearsal, RunResult

MOST = 10


def summarise(result: Rehearsal) -> list[str]:
    """What a person wants to know first."""
    before, others = result.runs[0], result.runs[1:]
    lines = [
        f"{_long(result)}, {result.nodes:,} nodes, {result.pods:,} pods, from {result.begin} to {result.end}.",
        f"As it was, {_hours(before)} were above 80 % and {before.node_hours_above['0.9'].value:.1f} above 90 %; "
        f"deviation {_deviations(before)}{_power(before)}.",
    ]
    shown = others[: MOST - 5]
    lines += [_run(run) for run in shown]
    if len(others) > len(shown):
        lines.append(f"{len(others) - len(shown)} more runs are in rehearsal.json.")
    refused = _refused(others[1:])
    if refused:
        lines.append(refused)
    if result.advice is not None:
        settings = " ".join(f"{name}={value}" for name, value in result.advice.settings.items())
        lines.append(f"Advice: {settings or 'keep the settings'} ({result.advice.why})")
    if result.unknown:
        largest = max(result.unknown, key=lambda each: each.share)
        lines.append(f"Not known: {len(result.unknown)} things, above all {largest.what} ({largest.share:.0%}).")
    return lines


def _long(result: Rehearsal) -> str:
    seconds = (datetime.fromisoformat(result.end) - datetime.fromisoformat(result.begin)).total_seconds()
    for unit, name in ((86_400.0, "days"), (3600.0, "hours")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / 60:.1f} minutes"


def _hours(run: RunResult) -> str:
    return f"{run.node_hours_above['0.8'].value:.1f} node-hours"


def _interval(number: Estimate) -> str:
    return f"{number.value:.1f} ({number.low:.1f} to {number.high:.1f})"


def _deviations(run: RunResult) -> str:
    return ", ".join(f"{name} {number.value:.3f}" for name, number in run.deviation.items())


def _run(run: RunResult) -> str:
    most = run.evictions.most_of_one_workload
    writes = f", {run.label_writes:,} label writes" if run.label_writes else ""
    return (
        f"{run.name} would have left {_interval(run.node_hours_above['0.8'])} node-hours above 80 % with "
        f"{run.evictions.total:,} evictions, at most {most:,} of one workload{writes}; "
        f"deviation {_deviations(run)}{_power(run)}."
    )


def _power(run: RunResult) -> str:
    return "" if run.power is None else f"; {run.power['over_watt_hours']:,.0f} Wh above the power feed"


def _refused(runs: Sequence[RunResult]) -> str:
    """Which checks refused most."""
    if not runs or not runs[0].refused:
        return ""
    ordered = sorted(runs[0].refused.items(), key=lambda item: (-item[1], item[0]))[:3]
    return f"Refusals of {runs[0].name} by check: " + ", ".join(f"{name} {count:,}" for name, count in ordered) + "."
