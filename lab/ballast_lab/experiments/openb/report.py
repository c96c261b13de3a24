"""The results of a run as a table and as a chart, beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ballast_lab.experiments import intervals
from ballast_lab.experiments.figures import BLUE, GREY, Sheet
from ballast_lab.experiments.openb.trace import POLICIES

Document = Mapping[str, Any]


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
    bars: list[tuple[str, float, str]] = []
    policies = list(dict.fromkeys(row["policy"] for row in document["rows"]))
    for work in dict.fromkeys(row["workload"] for row in document["rows"]):
        theirs = {policy: _of(document["published"], work, policy) for policy in POLICIES.values()}
        bars += [
            *((f"{work}: {policy}", fmean(_of(document["rows"], work, policy)), BLUE) for policy in policies),
            *((f"{work}: {policy}, published", fmean(found), GREY) for policy, found in theirs.items() if found),
        ]
    names, values, colours = zip(*bars, strict=True)
    sheet = Sheet("Allocated devices, percent", 1.0 + 0.24 * len(bars))
    drawn = sheet.axes.barh(range(len(bars)), values, color=colours)
    sheet.axes.bar_label(drawn, fmt="%.2f", padding=3)
    sheet.axes.set_yticks(range(len(bars)), names)
    sheet.axes.invert_yaxis()
    sheet.axes.set_xlim(5 * (min(values) // 5), 102)
    return sheet.svg()


def _of(found: Sequence[Mapping[str, Any]], work: str, policy: str) -> list[float]:
    return [row["allocated_percent"] for row in found if (row["workload"], row["policy"]) == (work, policy)]
