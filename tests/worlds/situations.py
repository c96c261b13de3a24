"""Stores as operators have them: what exporters of six nodes told, and what is true of each node."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from ballast.model.node import Node
from ballast.model.pod import Pod

SPAN, STEP = 600, 15
COUNT, CORES, MEMORY = 6, 4.0, 16e9
CPU = [0.15 + 0.1 * row for row in range(COUNT)]
USED = [0.3 + 0.05 * row for row in range(COUNT)]
ALL = frozenset(range(COUNT))

Series = tuple[str, Mapping[str, str], Callable[[float], float | None]]
"""Metric, labels, and the value by seconds since the start; None where there is no sample."""
Labels = Callable[[int], Mapping[str, str]]


def node(row: int, name: str = "", **more: object) -> Node:
    addresses = (("InternalIP", f"10.60.0.{row + 1}"), ("Hostname", name or f"n{row}"))
    capacity = {"cpu": CORES, "memory": MEMORY}
    return replace(Node(name=name or f"n{row}", addresses=addresses, capacity=capacity), **more)  # type: ignore[arg-type]


NODES = tuple(map(node, range(COUNT)))


@dataclass(frozen=True)
class Situation:
    """`series` of a store beside `nodes`. Rows of `unknown` may have no number; `said` is found in what doctor says."""

    series: Callable[[], Iterator[Series]]
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[Node, ...] = NODES
    pods: tuple[Pod, ...] = ()
    unknown: frozenset[int] = frozenset()
    said: str = ""
    truth: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Load of cpu and memory of nodes that differ from CPU and USED."""


def mine(row: int, **more: str) -> dict[str, str]:
    """Labels of the exporter of a node."""
    return {"instance": f"10.60.0.{row + 1}:9100", "job": "node-exporter", **more}


def exporter(
    row: int,
    labels: Mapping[str, str] | None = None,
    *,
    by_core: bool = True,
    alive: tuple[float, float] = (0, SPAN),
    shares: Mapping[str, float] | None = None,
    size: float = MEMORY,
    like: int | None = None,
) -> Iterator[Series]:
    """What a node_exporter tells of the load `like`, of this row's own where none is given."""
    of = row if like is None else like
    own = mine(row) if labels is None else labels
    shares = dict.fromkeys(("nice", "irq", "softirq"), 0.0) | dict(
        shares or {"user": 0.7 * CPU[of], "system": 0.3 * CPU[of], "idle": 1 - CPU[of], "iowait": 0, "steal": 0}
    )

    def during(value: Callable[[float], float]) -> Callable[[float], float | None]:
        return lambda t: value(t) if alive[0] <= t < alive[1] else None

    for core in range(2 if by_core else 1):
        for mode, share in shares.items():
            each = share * (1 if by_core else 2)
            named = {**own, "mode": mode, **({"cpu": str(core)} if by_core else {})}
            yield "node_cpu_seconds_total", named, during(lambda t, each=each: 1e5 + each * t)  # type: ignore[misc]
    yield "node_memory_MemTotal_bytes", own, during(lambda _: size)
    yield "node_memory_MemAvailable_bytes", own, during(lambda _: size * (1 - USED[of]))
    yield "node_time_seconds", own, during(lambda t: 1.7e9 + t)


def exporters(labels: Labels = mine, rows: frozenset[int] = ALL, **how: object) -> Iterator[Series]:
    for row in sorted(rows):
        yield from exporter(row, labels(row), **how)  # type: ignore[arg-type]


def changed(
    series: Iterator[Series], chosen: Callable[[str, Mapping[str, str]], bool], value: Callable[[float], float]
) -> Iterator[Series]:
    """The same, with another value where `chosen` says so of metric and labels."""
    for metric, labels, old in series:
        yield metric, labels, value if chosen(metric, labels) else old


def kubelet(
    row: int, cadvisor: Mapping[str, str] | None = None, own: Mapping[str, str] | None = None
) -> Iterator[Series]:
    """What the endpoints of one kubelet tell: those that have labels are scraped."""
    if cadvisor is not None:
        root = {**cadvisor, "id": "/"}
        yield "container_cpu_usage_seconds_total", {**root, "cpu": "total"}, lambda t: 2e5 + CORES * CPU[row] * t
        yield "container_memory_working_set_bytes", root, lambda _: MEMORY * USED[row]
    if own is not None:
        yield "kubelet_running_pods", own, lambda _: 20.0


def paths(row: int, **more: str) -> Iterator[Series]:
    """A kubelet under the Prometheus Operator."""
    labels = {"instance": f"10.60.0.{row + 1}:10250", "node": f"n{row}", "job": "kubelet", **more}
    return kubelet(row, {**labels, "metrics_path": "/metrics/cadvisor"}, {**labels, "metrics_path": "/metrics"})


def _k3s() -> Iterator[Series]:
    for row in range(COUNT):
        yield from paths(row)
        for port, job in (("10249", "kube-proxy"), ("10259", "kube-scheduler")) if row < 2 else ():
            yield from kubelet(row, own={"instance": f"10.60.0.{row + 1}:{port}", "job": job})


def _two_jobs() -> Iterator[Series]:
    for row in range(COUNT):
        jobs = ({"job": f"kubernetes-nodes{tail}", "instance": f"n{row}"} for tail in ("-cadvisor", ""))
        yield from kubelet(row, *jobs)


def _behind() -> Iterator[Series]:
    yield from exporters(rows=ALL - {3})
    for row in range(COUNT):
        yield from paths(row)


def _counter_back() -> Iterator[Series]:
    last = f"10.60.0.{COUNT}:9100"
    return changed(
        exporters(),
        lambda metric, labels: labels["instance"] == last and labels.get("mode") == "iowait" and labels["cpu"] == "0",
        lambda t: 5482.81 if t < SPAN - 60 else 5482.78,
    )


def _outside() -> Iterator[Series]:
    yield from exporters(rows=ALL - {3})
    yield from exporter(5, {"instance": "n3.lab.example:9100", "job": "machines"})


def _own_label() -> Iterator[Series]:
    for row in range(COUNT):
        until = SPAN - 40 if row == 1 else SPAN
        yield from exporter(row, mine(row, ballast_dev_score="61"), alive=(0, until))
        if until < SPAN:
            yield from exporter(row, mine(row, ballast_dev_score="40"), alive=(until, SPAN))


def _twice(**labels: str) -> Callable[[], Iterator[Series]]:
    """All exporters once more, with labels of their own."""
    return lambda: iter([*exporters(), *exporters(lambda row: mine(row, **labels))])


def _gpus() -> Iterator[Series]:
    yield from exporters()
    for row in range(COUNT):
        labels = {"Hostname": f"dcgm-{row}x", "instance": "dcgm", "gpu": "0", "UUID": f"GPU-{row}", "job": "dcgm"}
        yield "DCGM_FI_DEV_GPU_UTIL", labels, lambda _: 50.0


def _huge() -> Iterator[Series]:
    """The last node keeps three quarters of its memory as pages of 1 GiB; its pods use a part of the rest."""
    yield from exporters(rows=ALL - {5})
    for metric, labels, value in exporter(5, size=128 * 2**30):
        if metric == "node_memory_MemAvailable_bytes":
            yield metric, labels, lambda _: (128 - 96 - 8) * 2.0**30
        else:
            yield metric, labels, value


_HUGE = node(
    5,
    capacity={"cpu": CORES, "memory": 128 * 2.0**30, "hugepages-1Gi": 96 * 2.0**30},
    allocatable={"cpu": CORES, "memory": 32 * 2.0**30, "hugepages-1Gi": 96 * 2.0**30},
)


def _fourteen() -> Iterator[Series]:
    yield from exporters()
    for row in range(14):
        yield from exporter(row, {"instance": f"172.16.0.{row}:9100", "job": "machines"}, like=5)


def _reinstalled() -> Iterator[Series]:
    """The last node came back with another address; what was told of the old one ended 120 s ago, without a mark."""
    yield from exporters(rows=ALL - {5})
    yield from exporter(5, mine(7), alive=(0, SPAN - 120), like=0)
    yield from exporter(5, mine(5), alive=(SPAN - 105, SPAN))


def _core_taken_away() -> Iterator[Series]:
    """The first node's second core went offline 90 s ago."""
    for metric, labels, value in exporters():
        if labels["instance"] == mine(0)["instance"] and labels.get("cpu") == "1":
            yield metric, labels, lambda t, value=value: value(t) if t < SPAN - 90 else None  # type: ignore[misc]
        else:
            yield metric, labels, value


def _container(row: int, **more: str) -> dict[str, str]:
    """Labels of an exporter in a network of its own."""
    return {"instance": f"10.244.{row}.7:9100", "job": "ne", "namespace": "monitoring", "pod": f"ne-{row}", **more}


_EXPORTERS = tuple(Pod(namespace="monitoring", name=f"ne-{row}", node=f"n{row}") for row in range(COUNT))


def _windows() -> Iterator[Series]:
    yield from exporters(rows=ALL - {4, 5})
    for row in (4, 5):
        labels = {"instance": f"10.60.0.{row + 1}:9182", "job": "windows"}
        for core in range(2):
            for mode, share in (("idle", 1 - CPU[row]), ("user", 0.8 * CPU[row]), ("privileged", 0.2 * CPU[row])):
                named = {**labels, "core": f"0,{core}", "mode": mode}
                yield "windows_cpu_time_total", named, lambda t, share=share: 1e4 + share * t  # type: ignore[misc]
        yield "windows_memory_available_bytes", labels, lambda _, row=row: MEMORY * (1 - USED[row])  # type: ignore[misc]
        yield "windows_memory_physical_total_bytes", labels, lambda _: MEMORY


def _swapped() -> Iterator[Series]:
    """Two machines exchanged their addresses 200 s ago; the Nodes tell the new ones."""
    yield from exporters(rows=ALL - {0, 1})
    for row, other in ((0, 1), (1, 0)):
        yield from exporter(row, mine(row), alive=(0, SPAN - 200), like=other)
        yield from changed(exporter(row, mine(row), alive=(SPAN - 200, SPAN)), lambda *_: False, lambda _: 0.0)


def _stale_replica() -> Iterator[Series]:
    """One of two replicas of Prometheus stopped 100 s ago; the store still answers with what it told last."""
    yield from exporters(lambda row: mine(row, prometheus_replica="a"))
    yield from exporters(lambda row: mine(row, prometheus_replica="b"), alive=(0, SPAN - 100))


def _containers_of_machines() -> Iterator[Series]:
    """lxcfs tells a container's own memory as the whole, the machine's as available."""
    return changed(
        exporters(),
        lambda metric, labels: metric == "node_memory_MemAvailable_bytes" and labels["instance"] == "10.60.0.3:9100",
        lambda _: 4 * MEMORY,
    )


def _old_kernel() -> Iterator[Series]:
    """No MemAvailable: what is free is the sum of four numbers."""
    parts = {"MemFree": 0.4, "Buffers": 0.1, "Cached": 0.4, "Slab": 0.1}
    for metric, labels, value in exporters():
        if metric != "node_memory_MemAvailable_bytes":
            yield metric, labels, value
            continue
        for part, share in parts.items():
            yield f"node_memory_{part}_bytes", labels, lambda t, v=value, s=share: (v(t) or 0) * s  # type: ignore[misc]


def _agents() -> Iterator[Series]:
    """Agents push what they scrape on their own machine; the store keeps a resource's name as labels."""
    return exporters(lambda row: {"instance": "localhost:9100", "job": "integrations/node", "k8s_node_name": f"n{row}"})


def _renamed(pattern: str, **more: str) -> Callable[[], Iterator[Series]]:
    return lambda: exporters(
        lambda row: {
            "job": "node-exporter",
            "instance": pattern.format(row=row, one=row + 1),
            **{name: text.format(row=row, one=row + 1) for name, text in more.items()},
        }
    )


def _named(pattern: str, **more: object) -> tuple[Node, ...]:
    return tuple(node(row, pattern.format(row=row, one=row + 1), **more) for row in range(COUNT))


_GONE = node(2, "gone", ready=False)
_KUBELET = {"BALLAST_PROMETHEUS__PRESET": "kubelet"}
_IPV6 = tuple(node(row, addresses=(("InternalIP", f"fd00:0:0:0:0:0:0:{row + 1}"),)) for row in range(COUNT))
_CLOUD = tuple(node(row, provider_id=f"aws:///eu-west-1a/i-0abc{row}") for row in range(COUNT))

SITUATIONS: dict[str, Situation] = {
    # Of the public trackers of Prometheus, its exporters, charts and stores.
    "a counter goes back by hundredths of a second": Situation(
        _counter_back, unknown=frozenset({5}), said="n5.*(counter|rest|time)"
    ),
    "cores are summed away": Situation(lambda: exporters(by_core=False), unknown=ALL, said="do not add up"),
    "kubelets under the Prometheus Operator": Situation(
        lambda: (each for row in range(COUNT) for each in paths(row)), _KUBELET
    ),
    "k3s": Situation(_k3s, _KUBELET),
    "the Prometheus chart's two jobs": Situation(_two_jobs, _KUBELET),
    "kubelet behind node-exporter": Situation(_behind, {"BALLAST_PROMETHEUS__PRESET": "node-exporter,kubelet"}),
    "only the pods are counted": Situation(
        lambda: (each for row in range(COUNT) for each in kubelet(row, own=mine(row))),
        _KUBELET,
        unknown=ALL,
        said="no series",
    ),
    "huge pages": Situation(_huge, nodes=(*NODES[:5], _HUGE), truth={5: (CPU[5], 8 / 128)}),
    "a Node that is gone has the address": Situation(exporters, nodes=(_GONE, *NODES)),
    "a machine elsewhere has the short name": Situation(_outside, unknown=frozenset({3}), said="n3"),
    "the score is a label of series": Situation(_own_label, said="ballast_dev_score"),
    "GPUs named by their pods": Situation(
        _gpus,
        {"BALLAST_PROMETHEUS__PRESET": "node-exporter,dcgm", "BALLAST_TELEMETRY__RESOURCES": "cpu,memory,gpu"},
        said="target_label: node|gpu",
    ),
    "nodes without metrics beside four": Situation(
        lambda: exporters(rows=frozenset(range(4))), unknown=frozenset({4, 5}), said="n4"
    ),
    "fourteen machines outside": Situation(_fourteen),
    "replicas told apart by an odd label": Situation(
        lambda: iter([*exporters(lambda row: mine(row, shard_x="a")), *exporters(lambda row: mine(row, shard_x="b"))]),
        unknown=ALL,
        said="shard_x",
    ),
    "rules without one for cpu": Situation(
        lambda: (
            ("instance:node_memory_utilisation:ratio", mine(row), lambda _, row=row: USED[row])  # type: ignore[misc]
            for row in range(COUNT)
        ),
        {"BALLAST_PROMETHEUS__PRESET": "kube-prometheus"},
        unknown=ALL,
        said="cpu",
    ),
    # Their siblings.
    "IPv6 in another spelling": Situation(_renamed("[fd00::{one}]:9100"), nodes=_IPV6),
    "behind kube-rbac-proxy, by node": Situation(_renamed("n{row}:9796")),
    "named ports": Situation(_renamed("10.60.0.{one}:metrics")),
    "private DNS names": Situation(
        _renamed("ip-10-60-0-{one}.ec2.internal:9100"), nodes=_named("ip-10-60-0-{one}.ec2.internal")
    ),
    "cloud ids": Situation(_renamed("i-0abc{row}"), nodes=_CLOUD),
    "scraped twice, by Service and by pod": Situation(
        _twice(job="podmonitor", endpoint="metrics"), unknown=ALL, said="job!="
    ),
    "two clusters with the same node names": Situation(
        lambda: iter(
            [
                *exporters(lambda row: {"instance": f"n{row}", "job": "ne", "cluster": "blue"}),
                *exporters(lambda row: {"instance": f"n{row}", "job": "ne", "cluster": "green"}, like=0),
            ]
        ),
        unknown=ALL,
        said="cluster",
    ),
    "exporters in a network of their own": Situation(lambda: exporters(_container), pods=_EXPORTERS),
    "exporters in a network of their own, without pods": Situation(
        lambda: exporters(lambda row: {"instance": f"10.244.{row}.7:9100", "job": "ne"}), unknown=ALL, said="node"
    ),
    "Windows nodes": Situation(_windows, {"BALLAST_PROMETHEUS__PRESET": "node-exporter,windows-exporter"}),
    "a node that came back with another address": Situation(_reinstalled),
    "two machines exchanged addresses": Situation(_swapped),
    "a core was taken away": Situation(_core_taken_away),
    "one replica of Prometheus stopped": Situation(_stale_replica),
    "more memory available than there is": Situation(_containers_of_machines, unknown=frozenset({2}), said="n2"),
    "a kernel without MemAvailable": Situation(_old_kernel),
    "agents that push": Situation(_agents, unknown=ALL, said="NODE_LABEL=k8s_node_name"),
    "federated": Situation(
        lambda: exporters(
            lambda row: {
                "instance": "prometheus:9090",
                "job": "federate",
                "exported_instance": f"10.60.0.{row + 1}:9100",
            }
        ),
        unknown=ALL,
        said="NODE_LABEL=exported_instance",
    ),
    "a hypervisor that steals": Situation(
        lambda: (
            each
            for row in range(COUNT)
            for each in exporter(
                row,
                shares={"user": 0.6 * CPU[row], "system": 0.0, "idle": 0.6 * (1 - CPU[row]), "iowait": 0, "steal": 0.4},
            )
        )
    ),
    "an exporter's clock runs an hour ahead": Situation(
        lambda: changed(
            exporters(),
            lambda metric, labels: metric == "node_time_seconds" and labels["instance"] == "10.60.0.2:9100",
            lambda t: 1.7e9 + 3600 + t,
        )
    ),
    "an exporter stopped four minutes ago": Situation(
        lambda: iter([*exporters(rows=ALL - {1}), *exporter(1, alive=(0, SPAN - 240))]),
        unknown=frozenset({1}),
        said="n1",
    ),
    "a tenant's exporter tells of a node": Situation(
        lambda: iter(
            [
                *exporters(lambda row: mine(row, namespace="monitoring", pod=f"ne-{row}")),
                *exporter(1, mine(1, namespace="tenant", pod="web-0", job="tenant"), like=5),
            ]
        ),
        pods=(*_EXPORTERS, Pod(namespace="tenant", name="web-0", node="n3")),
    ),
    "node names behind NAT": Situation(
        _renamed("203.0.113.9:2{row}100"),
        nodes=tuple(replace(each, addresses=(*each.addresses, ("ExternalIP", "203.0.113.9"))) for each in NODES),
        unknown=ALL,
        said="several nodes|node",
    ),
    "percent where shares are meant": Situation(
        lambda: iter(
            [
                *(each for each in exporters() if each[0].startswith("node_mem")),
                *(
                    ("instance:node_cpu:ratio", mine(row), lambda _, row=row: 100 * CPU[row])  # type: ignore[misc]
                    for row in range(COUNT)
                ),
                *(
                    ("instance:node_memory_utilisation:ratio", mine(row), lambda _, row=row: USED[row])  # type: ignore[misc]
                    for row in range(COUNT)
                ),
            ]
        ),
        {"BALLAST_PROMETHEUS__PRESET": "kube-prometheus"},
        unknown=ALL,
        said="cpu",
    ),
}
