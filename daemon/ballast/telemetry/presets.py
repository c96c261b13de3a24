"""PromQL of the presets: the queries of resources that the user only names.

Every answer is aggregated by the node labels and `cluster`, so replicas of Prometheus and restarted exporters are no
duplicates, and answers that span clusters can be told apart. What each exporter is asked is in `exporters`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ballast.settings.prometheus import PRESETS, quoted_label
from ballast.telemetry.exporters import dcgm, kube_prometheus, kubelet, node_exporter, psi, windows_exporter
from ballast.telemetry.exporters.terms import Exporter, Terms

if TYPE_CHECKING:
    from ballast.settings import Settings

EXPORTERS: Mapping[str, tuple[Exporter, ...]] = {
    "node-exporter": (node_exporter.EXPORTER,),
    "kube-prometheus": (kube_prometheus.EXPORTER,),
    "kubelet": kubelet.EXPORTERS,
    "windows-exporter": (windows_exporter.EXPORTER,),
    "dcgm": (dcgm.EXPORTER,),
    "psi": (psi.EXPORTER,),
}

_CONTAINERS = ('container!=""', 'container!="POD"')
_COUNTERS = {
    "cpu": ("container_cpu_usage_seconds_total", *_CONTAINERS),
    "disk": ("container_fs_reads_bytes_total", *_CONTAINERS),
    "network": ("container_network_receive_bytes_total", 'interface!="lo"'),
}
"""Of what a rate is asked: a counter that tells since when a series is there, and its matchers."""
_SHORTEST_RATE = 120.0
_STEP = 30.0


@dataclass(frozen=True, eq=False)
class PresetQueries:
    """What one preset asks, or one part of it that has ages and scrape jobs of its own."""

    name: str
    labels: tuple[str, ...]
    """Any of them may name the node."""
    queries: Mapping[str, str]
    """By resource."""
    freshness: str
    """Unix time of the newest sample, per node."""
    raw: str | None
    """The same per series, with all labels and of all jobs; None where only the preset's package knows."""
    own: frozenset[str] = frozenset()
    """Labels by which the exporter tells raw series of one node apart."""
    rules: tuple[str, ...] = ()
    """Recording rules that may be stored without the raw series."""
    lowest: str | None = None
    """Nodes of which series tell several numbers, and the smallest; None where a node has more than one number."""


def chosen(
    settings: Settings,
    label: str | None = None,
    window: str | None = None,
    without: Mapping[str, tuple[str, ...]] | None = None,
) -> list[PresetQueries]:
    """The presets of the settings in their order; each query gives a ratio 0..1 per node, or a marked amount.

    `label` names the nodes (several are separated by commas), by default that of the settings; `window` is the range of
    every `rate`; `without` are further matchers by `PresetQueries.raw`, of jobs that do not count. Raises UsageError
    for a preset of a package that cannot be used.
    """
    configured = label or settings.telemetry.node_label
    labels = tuple(configured.split(",")) if configured else ()
    window = window or rate_window(settings.telemetry.interval)
    return [
        part for name in settings.prometheus.presets for part in _parts(name, labels, settings, window, without or {})
    ]


def queries(settings: Settings, label: str | None = None) -> dict[str, str]:
    """Resource → PromQL of the first preset that measures it."""
    ages: dict[str, str] = {}
    for preset in reversed(chosen(settings, label)):
        ages |= preset.queries
    return ages


def freshness(settings: Settings, label: str | None = None) -> str:
    """PromQL of the first preset whose value per node is the Unix time of its newest sample.

    The raw exporter metric is asked, since recording rules go on for five minutes after an exporter stopped.
    """
    return chosen(settings, label)[0].freshness


def node_label(settings: Settings) -> str:
    """The series labels that name the node, separated by commas."""
    return settings.telemetry.node_label or "instance"


def rate_window(interval: float, scrapes: float = 0.0) -> str:
    """The range of every `rate`: two intervals or four scrapes (seconds apart), at least two minutes."""
    slow = -(-4 * scrapes // _STEP) * _STEP
    return f"{round(max(2 * interval, slow, _SHORTEST_RATE))}s"


def _parts(
    name: str, labels: tuple[str, ...], settings: Settings, window: str, without: Mapping[str, tuple[str, ...]]
) -> list[PresetQueries]:
    matchers = settings.prometheus.matchers
    theirs = PRESETS.get(name)
    if theirs is not None:
        label = ", ".join(labels or ("instance",))
        texts = dict(theirs.queries(label, matchers, window))
        return [PresetQueries(name, labels or ("instance",), texts, theirs.freshness(label, matchers), None)]
    parts = []
    for exporter in EXPORTERS[name]:
        every = Terms(labels or exporter.labels, matchers, window, bool(settings.telemetry.network_speed))
        raw = _times(exporter, every)
        terms = replace(every, matchers=(*matchers, *without.get(raw, ())))
        lowest = exporter.lowest(terms) if exporter.lowest else None
        age, asked = terms.newest(_times(exporter, terms)), exporter.queries(terms)
        parts.append(PresetQueries(name, terms.labels, asked, age, raw, exporter.own, exporter.rules, lowest))
    return parts


def _times(exporter: Exporter, terms: Terms) -> str:
    return " or ".join(f"timestamp({_narrow(metric, terms)})" for metric in exporter.raw)


def _narrow(metric: str, terms: Terms) -> str:
    name, brace, matchers = metric.rstrip("}").partition("{")
    return terms.pick(name, matchers) if brace else terms.pick(name)


def places(settings: Settings) -> tuple[str, ...]:
    """Labels of cadvisor's series that may name the node they come from."""
    return tuple(dict.fromkeys((*node_label(settings).split(","), "node", "instance")))


def _container(settings: Settings) -> str:
    """What tells containers apart, and who reports them."""
    return ", ".join(("namespace", "pod", "container", "id", "cluster", "job", *map(quoted_label, places(settings))))


def pod_queries(settings: Settings, pods: Iterable[str] | None = None) -> dict[str, str]:
    """Resource → PromQL over cadvisor's metrics per container; of these pods, named namespace/name, or of all.

    cpu in cores, memory in bytes, disk and network (of the whole pod) in bytes per second. A pod that moved, or a
    container that came back, has several series for a while, told apart by `places` and `id`; another job may tell of
    it too.
    """
    matchers = (*settings.prometheus.matchers, *_only(pods))
    window, of = rate_window(settings.telemetry.interval), _container(settings)
    terms = Terms((), matchers, window)

    def per_container(expression: str, unit: str) -> str:
        return f"sum by ({of}) (max by ({of}, {unit}) ({expression}))"

    return {
        "cpu": per_container(terms.rate("container_cpu_usage_seconds_total", *_CONTAINERS), "cpu"),
        "memory": f"max by ({of}) ({terms.pick('container_memory_working_set_bytes', *_CONTAINERS)})",
        "disk": per_container(
            terms.rate("container_fs_reads_bytes_total", *_CONTAINERS)
            + " + "
            + terms.rate("container_fs_writes_bytes_total", *_CONTAINERS),
            "device",
        ),
        "network": per_container(
            terms.rate("container_network_receive_bytes_total", 'interface!="lo"')
            + " + "
            + terms.rate("container_network_transmit_bytes_total", 'interface!="lo"'),
            "interface",
        ),
    }


def pod_hour_queries(settings: Settings, pods: Iterable[str] | None = None) -> dict[str, str]:
    """Resource → PromQL: the mean of what `pod_queries` answered over the last hour, of each series while it was there.

    A series that began lately counts from its beginning; `rate` over an hour would take it for lower than it is. So
    would `rate` over a window in which it began, so those do not count.
    """
    window = rate_window(settings.telemetry.interval)
    terms = Terms((), (*settings.prometheus.matchers, *_only(pods)), window)
    hours = {}
    for resource, query in pod_queries(settings, pods).items():
        if resource in _COUNTERS:
            counter, *matchers = _COUNTERS[resource]
            query += f" and max by ({_container(settings)}) ({terms.pick(counter, *matchers)} offset {window})"
        hours[resource] = f"avg_over_time(({query})[3600s:300s])"
    return hours


def pod_freshness(settings: Settings, pods: Iterable[str] | None = None) -> str:
    """PromQL whose value per container is the Unix time of its newest sample."""
    terms = Terms((), (*settings.prometheus.matchers, *_only(pods)), "")
    selector = terms.pick("container_memory_working_set_bytes", *_CONTAINERS)
    return f"max by ({_container(settings)}) (timestamp({selector}))"


def _only(pods: Iterable[str] | None) -> tuple[str, ...]:
    """Matchers that these pass, and pods of the same name in others of their namespaces."""
    if pods is None:
        return ()
    split = [pod.partition("/") for pod in pods]
    namespaces, names = ("|".join(sorted({name[part] for name in split})) for part in (0, 2))
    dot = "[.]"
    return (f'namespace=~"{namespaces.replace(".", dot)}"', f'pod=~"{names.replace(".", dot)}"')
