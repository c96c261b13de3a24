"""The part of docs/scoreboard.md about load: how projects order nodes, on public traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ballast.experiments.predictors import RULES
from ballast.experiments.results import markdown
from ballast.experiments.windows import RULE, RULE_GAIN

SOURCES: Mapping[str, str] = {
    "Ballast, mean 15 m": "the mean of the primary window",
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
    """Markdown of the `results.json` of `ballast experiment windows`."""
    values = {(row["table"], row["name"]): row["measured"] for row in document["rows"]}
    traces = list(dict.fromkeys(name.partition(": ")[0] for table, name in values if table == RULE))
    lines = [[rule, *(_cell(values, trace, rule) for trace in traces)] for rule in RULES]
    return markdown(["rule", *traces], lines) + "\n" + "".join(f"* {rule}: {SOURCES[rule]}.\n" for rule in RULES)


def _cell(values: Mapping[tuple[str, str], float], trace: str, rule: str) -> str:
    name = f"{trace}: {rule}"
    order, gain = values.get((RULE, name)), values.get((RULE_GAIN, name))
    if order is None:
        return "–"
    return f"{order:.3f}" if gain is None else f"{order:.3f}; {100 * gain:.0f} %"
