"""The part of docs/scoreboard.md about load: how projects order nodes, on public traces."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import Any

from ballast_lab.experiments.predictors import RULES
from ballast_lab.experiments.results import markdown
from ballast_lab.experiments.windows import RULE, RULE_GAIN

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


def section(document: Mapping[str, Any]) -> str:
    """The section of the `results.json` of `ballast experiment windows`."""
    values = {(row["table"], row["name"]): row["measured"] for row in document["rows"]}
    traces = list(dict.fromkeys(name.partition(": ")[0] for table, name in values if table == RULE))
    lines = [[rule, *(_cell(values, trace, rule) for trace in traces)] for rule in RULES]
    sources = "".join(f"{_wrapped(f'* {rule}: {SOURCES[rule]}.')}\n" for rule in RULES)
    return f"{_LEAD}{markdown(['rule', *traces], lines)}\n{sources}"


def _wrapped(line: str) -> str:
    return fill(line, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _cell(values: Mapping[tuple[str, str], float], trace: str, rule: str) -> str:
    name = f"{trace}: {rule}"
    order, gain = values.get((RULE, name)), values.get((RULE_GAIN, name))
    if order is None:
        return "–"
    return f"{order:.3f}" if gain is None else f"{order:.3f}; {100 * gain:.0f} %"
