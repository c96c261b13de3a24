"""Preset `kubelet`: its `/metrics/resource`, else its cadvisor; no exporter is needed, also on Windows.

Both give cores and bytes, which become ratios of the node's capacity as Kubernetes tells it. Its `/metrics` counts
running pods, which become a ratio of the pods that the node may have.
"""

from ballast.telemetry.exporters.terms import BYTES, CORES, PODS, Exporter, Terms

_MACHINE = 'id="/"'


def _queries(terms: Terms) -> dict[str, str]:
    cpu = terms.either(
        terms.newest(terms.rate("node_cpu_usage_seconds_total")),
        terms.newest(terms.rate("container_cpu_usage_seconds_total", _MACHINE)),
    )
    memory = terms.either(
        terms.newest(terms.pick("node_memory_working_set_bytes")),
        terms.newest(terms.pick("container_memory_working_set_bytes", _MACHINE)),
    )
    pods = terms.newest(terms.pick("kubelet_running_pods"))
    return {"cpu": terms.amount(cpu, CORES), "memory": terms.amount(memory, BYTES), "pods": terms.amount(pods, PODS)}


EXPORTER = Exporter(
    _queries,
    raw=("node_memory_working_set_bytes", f"container_memory_working_set_bytes{{{_MACHINE}}}", "kubelet_running_pods"),
)
