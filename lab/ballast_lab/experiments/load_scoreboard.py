"""The part of measurements/scoreboard.md about load: how projects order nodes, on public traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import fill

from ballast_lab.experiments.predictors import RULES
from ballast_lab.experiments.results import markdown

_LEAD = """\
## Load: ordering nodes

Each rule orders the nodes every 15 minutes of the second half of a trace. A cell has the rank correlation of that order
with the mean load of the next hour, and what the tenth of the nodes that the rule prefers wins over the mean node, as a
share of what the truly least loaded tenth wins. Rules are computed from CPU alone, as the traces have it, and as their
projects ship them. Thresholds that exclude nodes, and estimates for pods that have just been placed, are no part of the
order.

    ballast experiment windows --data DIR --out DIR

"""

SOURCES: Mapping[str, str] = {
    "Ballast, mean 15 m": "the mean of the primary window, which is `load-variation` with `safe_variance_margin` 0",
    "Ballast `load-variation`, Trimaran LoadVariationRiskBalancing": "(μ + σ) / 2 over 15 minutes "
    "(kubernetes-sigs/scheduler-plugins `pkg/trimaran/loadvariationriskbalancing/analysis.go`: margin 1, sensitivity "
    "1). `load-variation` is the same rule",
    "crane-scheduler Dynamic": ".2 of the mean of 5 minutes, .3 of the largest 5-minute mean of an hour, .5 of that of "
    "a day (gocrane/crane-scheduler `deploy/manifests/dynamic/scheduler-configmap.yaml`)",
    "koordinator LoadAwareScheduling, mean 5 m": "the mean of 5 minutes (koordinator-sh/koordinator "
    "`pkg/scheduler/plugins/loadaware`: `aggregateDurationSeconds` 300)",
    "koordinator LoadAwareScheduling, p95 5 m": "likewise, with `scoreAggregationType: p95`",
}
"""By rule of RULES: what it computes, and where that is written."""


def section(tables: str) -> str:
    """The section from the `table.md` of `ballast experiment windows`, whose last two tables are those of the rules."""
    *_, (heads, orders), (_, gains) = _tables(tables)
    lines = [[rule, *map(_cell, orders[rule], gains[rule])] for rule in RULES]
    sources = "".join(f"{_wrapped(f'* {rule}: {SOURCES[rule]}.')}\n" for rule in RULES)
    return f"{_LEAD}{markdown(['rule', *heads], lines)}\n{sources}"


def _tables(text: str) -> Iterator[tuple[list[str], dict[str, list[str]]]]:
    """Of each table in Markdown: the heads of its columns but the first, and the cells by the first of their row."""
    for block in text.split("\n\n"):
        if block.startswith("| "):
            (_, *heads), _, *rows = (line[2:-2].split(" | ") for line in block.splitlines())
            yield heads, {name: [cell.strip("*") for cell in cells] for name, *cells in rows}


def _wrapped(line: str) -> str:
    return fill(line, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _cell(order: str, gain: str) -> str:
    return order if "–" in (order, gain) else f"{order}; {gain}"
