"""Preset `kubelet`: its `/metrics/resource`, else its cadvisor; no exporter is needed, also on Windows.

Both give cores and bytes, which become ratios of the node's capacity as Kubernetes tells it. Its `/metrics` counts
running pods, which become a ratio of the pods that the node may have. Each metric is a question of its own: the
endpoints are scraped by other jobs, with other labels, and what one of them tells says nothing about the others.
"""

from collections.abc import Mapping

from ballast.telemetry.exporters.terms import BYTES, CORES, PODS, Exporter, Terms


def _alone(resource: str, unit: str, metric: str, *matchers: str) -> Exporter:
    """One metric of one endpoint."""

    def read(terms: Terms) -> str:
        # Cores are counted as seconds; bytes and pods are told as they are.
        return (terms.rate if unit == CORES else terms.pick)(metric, *matchers)

    def queries(terms: Terms) -> Mapping[str, str]:
        return {resource: terms.amount(terms.newest(read(terms)), unit)}

    def lowest(terms: Terms) -> str:
        return terms.amount(terms.lowest(read(terms)), unit)

    raw = f"{metric}{{{','.join(matchers)}}}" if matchers else metric
    return Exporter(queries, raw=(raw,), lowest=lowest)


_MACHINE = 'id="/"'
EXPORTERS = (
    _alone("cpu", CORES, "node_cpu_usage_seconds_total"),
    _alone("memory", BYTES, "node_memory_working_set_bytes"),
    _alone("cpu", CORES, "container_cpu_usage_seconds_total", _MACHINE),
    _alone("memory", BYTES, "container_memory_working_set_bytes", _MACHINE),
    _alone("pods", PODS, "kubelet_running_pods"),
)
"""In this order: of a resource the first metric that a node has counts."""
