"""PromQL of the presets: the queries of resources that the user only names.

Sources of the expressions: prometheus-operator/kube-prometheus (`instance:node_cpu:ratio`) and node_exporter's mixin
(memory with its fallback, disk devices). Every answer is aggregated by the node label and `cluster`, so replicas of
Prometheus and restarted exporters are no duplicates, and answers that span clusters can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ballast.telemetry.preset import preset_of_package

if TYPE_CHECKING:
    from ballast.settings import Settings

UNIT_LABEL = "ballast_unit"
BYTES = "bytes"
RESOURCES = ("cpu", "memory", "disk", "network")

_DISKS = 'device=~"(/dev/)?(mmcblk.+|nvme.+|rbd.+|sd.+|vd.+|xvd.+|dm-.+|md.+|dasd.+)"'
_VIRTUAL_LINKS = (
    "veth|docker|cni|flannel|cali|cilium|lxc|eni|azv|gke|br|virbr|tun|tap|vxlan|geneve|ovs|ifb|dummy|wg|kube"
)
_PHYSICAL_LINKS = f'device!~"lo|({_VIRTUAL_LINKS}|nodelocaldns).*"'
_SHORTEST_RATE = 120.0


def queries(settings: Settings, label: str | None = None) -> dict[str, str]:
    """Resource → PromQL of the chosen preset, for all of RESOURCES; each gives a ratio 0..1 per node.

    `label` is the series label that names the node, by default that of the settings.
    """
    label, matchers = label or node_label(settings), settings.prometheus.matchers
    window = rate_window(settings.telemetry.interval)
    if (theirs := preset_of_package(settings.prometheus.preset)) is not None:
        return dict(theirs.queries(label, matchers, window))
    if settings.prometheus.preset == "kube-prometheus":
        return _kube_prometheus(label, matchers, bool(settings.telemetry.network_speed))
    return _node_exporter(label, matchers, window, bool(settings.telemetry.network_speed))


def freshness(settings: Settings, label: str | None = None) -> str:
    """PromQL whose value per node is the Unix time of its newest sample; the same for both built-in presets.

    The raw exporter metric is asked, since recording rules go on for five minutes after an exporter stopped.
    """
    label, matchers = label or node_label(settings), settings.prometheus.matchers
    if (theirs := preset_of_package(settings.prometheus.preset)) is not None:
        return theirs.freshness(label, matchers)
    return _newest(label, f"timestamp({_selector('node_memory_MemTotal_bytes', matchers)})")


def pod_queries(settings: Settings, pods: Iterable[str] | None = None) -> dict[str, str]:
    """Resource → PromQL over cadvisor's metrics per (namespace, pod); of these, named namespace/name, or of all.

    cpu in cores, memory in bytes, disk and network in bytes per second.
    """
    matchers = (*settings.prometheus.matchers, *_only(pods))
    window = rate_window(settings.telemetry.interval)
    containers = ('container!=""', 'container!="POD"', *matchers)

    def rate(metric: str, *more: str) -> str:
        return f"rate({_selector(metric, (*more, *matchers))}[{window}])"

    def per_pod(expression: str, unit: str) -> str:
        return f"sum by (namespace, pod, cluster) (max by (namespace, pod, {unit}, cluster) ({expression}))"

    return {
        "cpu": per_pod(f"rate({_selector('container_cpu_usage_seconds_total', containers)}[{window}])", "container"),
        "memory": per_pod(_selector("container_memory_working_set_bytes", containers), "container"),
        "disk": per_pod(
            f"rate({_selector('container_fs_reads_bytes_total', containers)}[{window}])"
            f" + rate({_selector('container_fs_writes_bytes_total', containers)}[{window}])",
            "container, device",
        ),
        "network": per_pod(
            rate("container_network_receive_bytes_total", 'interface!="lo"')
            + " + "
            + rate("container_network_transmit_bytes_total", 'interface!="lo"'),
            "interface",
        ),
    }


def pod_freshness(settings: Settings, pods: Iterable[str] | None = None) -> str:
    """PromQL whose value per (namespace, pod) is the Unix time of its newest sample."""
    matchers = ('container!=""', *settings.prometheus.matchers, *_only(pods))
    selector = _selector("container_memory_working_set_bytes", matchers)
    return f"max by (namespace, pod, cluster) (timestamp({selector}))"


def node_label(settings: Settings) -> str:
    """The series label that names the node."""
    return settings.telemetry.node_label or "instance"


def rate_window(interval: float) -> str:
    """The range of every `rate`: two intervals, at least two minutes so that scrapes a minute apart give a rate."""
    return f"{round(max(2 * interval, _SHORTEST_RATE))}s"


def _node_exporter(label: str, matchers: tuple[str, ...], window: str, speeds: bool) -> dict[str, str]:
    def pick(metric: str, *more: str) -> str:
        return _selector(metric, (*more, *matchers))

    cpu = "node_cpu_seconds_total"
    busy = f"sum without (cpu, mode) (rate({pick(cpu, _BUSY)}[{window}]))"
    cpus = f"count without (cpu, mode) ({pick(cpu, _IDLE)})"
    free = " + ".join(pick(f"node_memory_{part}_bytes") for part in ("Buffers", "Cached", "MemFree", "Slab"))
    available = f"({pick('node_memory_MemAvailable_bytes')} or ({free}))"
    received = f"rate({pick('node_network_receive_bytes_total', _PHYSICAL_LINKS)}[{window}])"
    sent = f"rate({pick('node_network_transmit_bytes_total', _PHYSICAL_LINKS)}[{window}])"
    traffic = f"({received} > {sent} or {sent})"
    link = f"({pick('node_network_speed_bytes', _PHYSICAL_LINKS)} > 0)"
    network = _newest(label, f"{traffic} / {link}")
    return {
        "cpu": _newest(label, f"{busy} / {cpus}"),
        "memory": _newest(label, f"1 - {available} / {pick('node_memory_MemTotal_bytes')}"),
        "disk": _newest(label, f"rate({pick('node_disk_io_time_seconds_total', _DISKS)}[{window}])"),
        "network": _or_bytes(label, network, _newest(label, traffic)) if speeds else network,
    }


def _kube_prometheus(label: str, matchers: tuple[str, ...], speeds: bool) -> dict[str, str]:
    received = _selector("instance:node_network_receive_bytes:rate:sum", matchers)
    sent = _selector("instance:node_network_transmit_bytes:rate:sum", matchers)
    reported = _selector("node_network_speed_bytes", (_PHYSICAL_LINKS, *matchers))
    traffic = f"max by ({label}, cluster) ({received} > {sent} or {sent})"
    network = f"{traffic} / on ({label}) group_left () max by ({label}) ({reported} > 0)"
    return {
        "cpu": _newest(label, _selector("instance:node_cpu:ratio", matchers)),
        "memory": _newest(label, _selector("instance:node_memory_utilisation:ratio", matchers)),
        "disk": _newest(label, _selector("instance_device:node_disk_io_time_seconds:rate5m", matchers)),
        "network": _or_bytes(label, network, traffic) if speeds else network,
    }


_BUSY = 'mode!~"idle|iowait|steal"'
_IDLE = 'mode="idle"'


def _only(pods: Iterable[str] | None) -> tuple[str, ...]:
    """Matchers that these pass, and pods of the same name in others of their namespaces."""
    if pods is None:
        return ()
    split = [pod.partition("/") for pod in pods]
    namespaces, names = ("|".join(sorted({each[part] for each in split})) for part in (0, 2))
    dot = "[.]"
    return (f'namespace=~"{namespaces.replace(".", dot)}"', f'pod=~"{names.replace(".", dot)}"')


def _newest(label: str, expression: str) -> str:
    return f"max by ({label}, cluster) ({expression})"


def _selector(metric: str, matchers: tuple[str, ...]) -> str:
    return f"{metric}{{{','.join(matchers)}}}" if matchers else metric


def _or_bytes(label: str, ratio: str, traffic: str) -> str:
    """Bytes per second, marked, for nodes without a reported link speed; NETWORK_SPEED makes them ratios."""
    return f'{ratio} or on ({label}, cluster) label_replace({traffic}, "{UNIT_LABEL}", "{BYTES}", "", "")'
