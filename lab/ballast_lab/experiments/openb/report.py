"""The results of a run as a table and as a chart, beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any
from xml.sax.saxutils import escape

from ballast_lab.experiments import intervals
from ballast_lab.experiments.openb.trace import POLICIES

Document = Mapping[str, Any]
_WIDTH, _BAR, _TOP, _LEFT = 760, 14, 48, 220
_OURS, _THEIRS = "#1f77b4", "#bbbbbb"


def rows(document: Document) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(heads, rows): mean allocated percent of each policy on each workload, and the published one of that name."""
    heads = (
        "WORKLOAD",
        "POLICY",
        "ALLOCATED",
        "95 %",
        "SEEDS",
        "FAILED PODS",
        "PUBLISHED",
        "PUBLISHED FGD",
        "AGAINST FGD",
    )
    found: list[tuple[str, ...]] = []
    for work, policy in dict.fromkeys((row["workload"], row["policy"]) for row in document["rows"]):
        ours = _of(document["rows"], work, policy)
        theirs, fgd = (_of(document["published"], work, name) for name in (policy, "fgd"))
        failed = [row["failed_pods"] for row in document["rows"] if (row["workload"], row["policy"]) == (work, policy)]
        found.append(
            (
                work,
                policy,
                f"{fmean(ours):.2f}",
                intervals.shown(intervals.of_mean(ours), ".2f"),
                f"{len(ours)}",
                f"{fmean(failed):.0f}",
                f"{fmean(theirs):.2f}" if theirs else "-",
                f"{fmean(fgd):.2f}" if fgd else "-",
                f"{fmean(ours) - fmean(fgd):+.2f}" if fgd else "-",
            )
        )
    return heads, found


def table(document: Document) -> str:
    """The table in Markdown."""
    heads, found = rows(document)
    lines = [f"| {' | '.join(each.lower() for each in heads)} |", f"|{'---|' * 2}{'---:|' * (len(heads) - 2)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in found)]) + "\n"


def chart(document: Document) -> str:
    """Bars of the mean allocated percent, by workload: what ran here in blue, what is published in grey."""
    bars: list[tuple[str, float | None, str]] = []
    policies = list(dict.fromkeys(row["policy"] for row in document["rows"]))
    for work in dict.fromkeys(row["workload"] for row in document["rows"]):
        theirs = {policy: _of(document["published"], work, policy) for policy in POLICIES.values()}
        bars += [
            (work, None, ""),
            *((policy, fmean(_of(document["rows"], work, policy)), _OURS) for policy in policies),
            *((f"{policy}, published", fmean(found), _THEIRS) for policy, found in theirs.items() if found),
        ]
    values = [value for _, value, _ in bars if value is not None]
    low, high = 5 * (min(values) // 5), 100.0
    height = _TOP + (_BAR + 4) * len(bars) + 12
    parts = [f'<rect width="{_WIDTH}" height="{height}" fill="white"/>']
    parts.append(_text(16, 24, f"Allocated devices, percent, from {low:g} to {high:g}", 14))
    for number, (name, value, colour) in enumerate(bars):
        top = _TOP + (_BAR + 4) * number
        parts.append(_text(16 if value is None else 32, top + _BAR - 3, name, 12))
        if value is not None:
            length = (_WIDTH - _LEFT - 70) * (value - low) / (high - low)
            parts.append(f'<rect x="{_LEFT}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>')
            parts.append(_text(_LEFT + length + 6, top + _BAR - 3, f"{value:.2f}", 12))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def _of(found: Sequence[Mapping[str, Any]], work: str, policy: str) -> list[float]:
    return [row["allocated_percent"] for row in found if (row["workload"], row["policy"]) == (work, policy)]


def _text(x: float, y: float, text: str, size: int) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}">{escape(text)}</text>'
