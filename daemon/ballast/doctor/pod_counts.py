"""Of how many pods the use is known: two numbers that Prometheus counts, instead of every series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ballast.base.errors import TelemetryError
from ballast.settings import Settings
from ballast.telemetry import responses as decoding
from ballast.telemetry.exporters.terms import CONTAINERS, Terms
from ballast.telemetry.pods import ages

_POD = "namespace, pod, cluster"


@dataclass(frozen=True)
class PodCounts:
    """`measured` pods have a sample of cpu and one of memory that is not too old; `problems` by resource."""

    measured: int
    problems: Mapping[str, str]


def questions(settings: Settings) -> dict[str, str]:
    """Resource → PromQL that counts the pods that have it, by cluster. The ages are those of memory, as in a cycle."""
    terms = Terms((), settings.prometheus.matchers, "")
    max_age, skew = ages(settings)
    newest = terms.pick("container_memory_working_set_bytes", *CONTAINERS)
    fresh = f"max by ({_POD}) (timestamp({newest})) >= time() - {max_age:g} <= time() + {skew:g}"
    cpu = f"max by ({_POD}) ({terms.pick('container_cpu_usage_seconds_total', *CONTAINERS)})"
    return {"cpu": f"count by (cluster) ({cpu})", "memory": f"count by (cluster) ({fresh})"}


def counted(bodies: Mapping[str, bytes], problems: Mapping[str, str]) -> PodCounts:
    """From the answers to `questions`. Never raises for what a source said."""
    counts: dict[str, int] = {}
    failed = dict(problems)
    for resource, body in bodies.items():
        try:
            table = decoding.instant(body, ("namespace",), "Prometheus")
        except TelemetryError as error:
            failed[resource] = str(error)
            continue
        if len(clusters := table.cluster_names()) > 1:
            failed[resource] = (
                f"the answer mixes the clusters {', '.join(clusters)}; choose one with BALLAST_PROMETHEUS__MATCHERS"
            )
        else:
            counts[resource] = int(np.nansum(table.values[:, 0]))
    return PodCounts(min(counts.values(), default=0), failed)
