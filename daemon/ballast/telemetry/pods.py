"""What pods use, from cadvisor's metrics; asked only when a part needs it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ballast.errors import TelemetryError
from ballast.metrics import Metrics
from ballast.model.sample import Samples
from ballast.settings import Settings
from ballast.telemetry.answers import Table
from ballast.telemetry.freshness import newest_by_label
from ballast.telemetry.intake import accept, allowed_skew, default_max_age
from ballast.telemetry.remarks import Remarks

POD_LABEL = "ballast_pod"


@dataclass(frozen=True)
class PodUsage:
    """Usage at the evaluation time `at`; `rows` of the samples index into `pods`, named namespace/name.

    cpu is in cores, memory in bytes, disk and network in bytes per second. A resource that failed is absent from
    `samples` and has a sentence in `problems`.
    """

    at: float
    pods: tuple[str, ...]
    samples: Mapping[str, Samples]
    problems: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()


def named_by_pod(query: str) -> str:
    """The same series, with namespace/name in one label."""
    return f'label_join({query}, "{POD_LABEL}", "/", "namespace", "pod")'


def pod_usage(
    at: float,
    newest: Table | TelemetryError,
    tables: Mapping[str, Table | TelemetryError],
    settings: Settings,
    metrics: Metrics,
    remarks: Remarks,
) -> PodUsage:
    """Joins the answers per resource with the answer about their age; counts what is rejected."""
    interval = float(settings.telemetry.interval)
    rows: dict[str, int] = {}
    samples, problems, rejected = {}, {}, Counter[str]()
    for resource, table in tables.items():
        if isinstance(table, TelemetryError):
            problems[resource] = str(table)
        elif isinstance(newest, TelemetryError):
            problems[resource] = f"the age of the samples is unknown, so none counts: {newest}"
        elif len(table.cluster_names()) > 1:
            problems[resource] = (
                f"the answer mixes the clusters {', '.join(table.cluster_names())}; choose one with "
                f"BALLAST_PROMETHEUS__MATCHERS"
            )
        else:
            labels, times = newest_by_label(newest)
            found = [labels.get(pod) for pod in table.nodes]
            samples[resource] = accept(
                at,
                np.array([rows.setdefault(pod, len(rows)) for pod in table.nodes], dtype=np.int64),
                table.values[:, 0],
                np.array([np.nan if row is None else times[row, 0] for row in found], dtype=np.float64),
                max_age=float(settings.windows.max_age or default_max_age(interval)),
                skew=allowed_skew(interval),
                largest=math.inf,
                rejected=rejected,
            )
    rejected = +rejected
    for reason, count in rejected.items():
        metrics.samples_rejected.labels(reason).inc(count)
    warnings = remarks.heard(table for table in (newest, *tables.values()) if isinstance(table, Table))
    return PodUsage(at, tuple(rows), samples, problems, rejected, remarks.kept(warnings))
