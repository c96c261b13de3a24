"""What each metric says of itself, as exported."""

from __future__ import annotations

from functools import cache

from prometheus_client import CollectorRegistry

from ballast.base.metrics import Metrics
from ballast.jobs.power.power_metrics import PowerMetrics
from ballast.serving.exposition import GAUGES
from ballast.serving.rendering import LOADS, SCORE, SPREAD


@cache
def helps() -> dict[str, str]:
    """{name without _total: text}."""
    power = CollectorRegistry()
    PowerMetrics(power)
    PowerMetrics(power, potential=True)
    found = {family.name: family.documentation for each in (Metrics().registry, power) for family in each.collect()}
    nodes = {name: text for name, (_, text) in LOADS.items()}
    return found | GAUGES | nodes | dict((SPREAD, SCORE))
