"""Preset `kubelet` knows every node's cpu and memory in the layouts in which kubelets are scraped, as installed."""

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.harness.prometheus import Prometheus, import_past, prometheus
from ballast_lab.harness.tools import Tools
from tests.worlds.examined import assert_each_line_helps, examined

SPAN, STEP = 600, 15
CORES, MEMORY, PODS = 4.0, 16e9, 110.0
COUNT = 5
TRUE = {
    "cpu": [0.15 + 0.1 * row for row in range(COUNT)],
    "memory": [0.3 + 0.05 * row for row in range(COUNT)],
    "pods": [0.2] * COUNT,
}
NODES = [
    Node(
        name=f"n{row}",
        addresses=(("InternalIP", f"10.60.0.{row + 1}"),),
        capacity={"cpu": CORES, "memory": MEMORY},
        allocatable={"pods": PODS},
    )
    for row in range(COUNT)
]

Series = tuple[str, dict[str, str], Callable[[float], float]]
"""Metric, labels, and the value by seconds since the start."""


def _kubelet(
    row: int,
    resource: dict[str, str] | None = None,
    cadvisor: dict[str, str] | None = None,
    own: dict[str, str] | None = None,
) -> Iterator[Series]:
    """What the endpoints of one kubelet tell: those that have labels are scraped."""
    used, held = CORES * TRUE["cpu"][row], MEMORY * TRUE["memory"][row]
    if resource is not None:
        yield "node_cpu_usage_seconds_total", resource, lambda t: 1e5 + used * t
        yield "node_memory_working_set_bytes", resource, lambda _: held
    if cadvisor is not None:
        root = {**cadvisor, "id": "/"}
        yield "container_cpu_usage_seconds_total", {**root, "cpu": "total"}, lambda t: 2e5 + used * t
        yield "container_memory_working_set_bytes", root, lambda _: held
        pod = {**cadvisor, "id": "/kubepods/a", "namespace": "app", "pod": f"web-{row}", "container": "web"}
        yield "container_memory_working_set_bytes", pod, lambda _: 1e8
    if own is not None:
        yield "kubelet_running_pods", own, lambda _: PODS * TRUE["pods"][row]


def _exporter(row: int) -> Iterator[Series]:
    labels = {"job": "node-exporter", "instance": f"10.60.0.{row + 1}:9100", "namespace": "monitoring"}
    for mode, share in (("user", TRUE["cpu"][row]), ("idle", 1 - TRUE["cpu"][row])):
        yield "node_cpu_seconds_total", {**labels, "cpu": "0", "mode": mode}, lambda t, of=share: of * t  # type: ignore[misc]
    yield "node_memory_MemTotal_bytes", labels, lambda _: MEMORY
    yield "node_memory_MemAvailable_bytes", labels, lambda _: MEMORY * (1 - TRUE["memory"][row])


def _operator(row: int, **more: str) -> dict[str, str]:
    """Labels under the Prometheus Operator."""
    instance = {"instance": f"10.60.0.{row + 1}:10250", "node": f"n{row}", "job": "kubelet"}
    return {**instance, "namespace": "kube-system", "service": "kps-kubelet", "endpoint": "https-metrics", **more}


def _paths(row: int, *paths: str, **more: str) -> Iterator[Series]:
    """Some endpoints of one kubelet, told apart by `metrics_path`."""
    of = {path: _operator(row, metrics_path=f"/metrics{path}", **more) for path in ("/resource", "/cadvisor", "")}
    return _kubelet(row, *(of[path] if path in paths else None for path in of))


def _k3s(row: int) -> Iterator[Series]:
    yield from _paths(row, "/cadvisor", "")
    if row < 2:
        for port, job in (("10249", "kube-proxy"), ("10257", "kube-controller-manager"), ("10259", "kube-scheduler")):
            instance = f"10.60.0.{row + 1}:{port}"
            yield from _kubelet(row, own=_operator(row, instance=instance, job=job, endpoint="http-metrics"))


def _repeated(row: int) -> Iterator[Series]:
    """Servers whose every port tells all that the process knows, cadvisor's metrics too."""
    yield from _k3s(row)
    if row < 2:
        yield from _kubelet(row, cadvisor=_operator(row, instance=f"10.60.0.{row + 1}:10249", job="kube-proxy"))


def _rke2(row: int) -> Iterator[Series]:
    """Two releases, whose services of kubelets both are scraped; etcd and ingress beside them."""
    yield from _paths(row, "/cadvisor", "/resource", "")
    yield from _paths(row, "/cadvisor", "", service="rancher-monitoring-kubelet", job="rancher-kubelet")


def _jobs(row: int, resource: str | None, cadvisor: str | None, own: str | None, **more: str) -> Iterator[Series]:
    """An endpoint a job; instances are called by the node."""
    return _kubelet(row, *(job and {"job": job, "instance": f"n{row}", **more} for job in (resource, cadvisor, own)))  # type: ignore[arg-type]


def _google(row: int) -> Iterator[Series]:
    place = {"project_id": "shop", "location": "europe-west1", "cluster": "blue", "node": f"n{row}"}
    jobs = {"cadvisor": "cadvisor", "metrics": "kubelet"}
    cadvisor, own = ({**place, "job": job, "instance": f"n{row}:{port}"} for port, job in jobs.items())
    return _kubelet(row, cadvisor=cadvisor, own=own)


def _pairs(row: int) -> Iterator[Series]:
    for replica in ("prometheus-k8s-0", "prometheus-k8s-1"):
        yield from _paths(row, "/cadvisor", "/resource", "", prometheus_replica=replica)


class Layout(NamedTuple):
    """The series of each node."""

    series: Callable[[int], Iterator[Series]]
    preset: str = "kubelet"
    known: bool = True


LAYOUTS = {
    "operator, three endpoints": Layout(lambda row: _paths(row, "/resource", "/cadvisor", "")),
    "operator, cadvisor and own": Layout(lambda row: _paths(row, "/cadvisor", "")),
    "operator, resource and own": Layout(lambda row: _paths(row, "/resource", "")),
    "operator, resource and cadvisor": Layout(lambda row: _paths(row, "/resource", "/cadvisor")),
    "k3s": Layout(_k3s),
    "the Prometheus chart": Layout(lambda row: _jobs(row, None, "kubernetes-nodes-cadvisor", "kubernetes-nodes")),
    "behind node-exporter": Layout(
        lambda row: (
            _paths(row, "/cadvisor", "") if row == 3 else iter([*_exporter(row), *_paths(row, "/cadvisor", "")])
        ),
        "node-exporter,kubelet",
    ),
    "only the pods are counted": Layout(lambda row: _paths(row, ""), known=False),
    "every port tells all": Layout(_repeated),
    "RKE2, two releases": Layout(_rke2),
    "VictoriaMetrics, a label of paths": Layout(
        lambda row: _kubelet(
            row,
            *(
                {"job": "kubelet", "instance": f"n{row}", "metrics_path": f"/metrics{path}", "topology_zone": f"z{row}"}
                for path in ("/resource", "/cadvisor", "")
            ),
        )
    ),
    "VictoriaMetrics, a job a path": Layout(lambda row: _jobs(row, "resource", "cadvisor", "kubelet", stack="vm")),
    "Google's collection": Layout(_google),
    "only cadvisor": Layout(lambda row: _jobs(row, None, "cadvisor", None)),
    "only resource": Layout(lambda row: _paths(row, "/resource")),
    "a pair of Prometheus": Layout(_pairs),
    "Thanos, replicas merged": Layout(
        lambda row: _paths(row, "/resource", "/cadvisor", "", prometheus="monitoring/k8s", cluster="blue")
    ),
    "an agent on each node": Layout(
        lambda row: _paths(row, "/resource", "/cadvisor", "", agent_hostname=f"n{row}", region="eu")
    ),
    "a tenant's job that agrees": Layout(
        lambda row: iter(
            [
                *_paths(row, "/cadvisor"),
                *_kubelet(row, cadvisor=_operator(row, job="tenant", namespace="t") if row == 1 else None),
            ]
        )
    ),
    "some nodes without resource": Layout(lambda row: _paths(row, "/cadvisor", *(["/resource"] if row % 2 else []))),
}


def _forged(**more: str) -> Layout:
    """Another kubelet tells of the second node what is true of the last one."""

    def series(row: int) -> Iterator[Series]:
        yield from _paths(row, "/cadvisor", "")
        if row == 1:
            yield from _kubelet(4, cadvisor=_operator(1, metrics_path="/metrics/cadvisor", **more))

    return Layout(series)


FORGED = {
    "another job": _forged(job="tenant", namespace="t"),
    "another port": _forged(instance="10.60.0.2:9999", job="tenant", namespace="t"),
    "another port of the same job": _forged(instance="10.60.0.2:9999"),
    "another label": _forged(site="lab"),
}


@pytest.fixture(scope="module")
def scraped(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus that scraped all layouts, told apart by the label `layout`, and the last time."""
    folder = tmp_path_factory.mktemp("kubelets")
    start = math.floor(time.time()) - SPAN
    lines: dict[str, list[str]] = {}
    for layout, (series, *_) in (LAYOUTS | FORGED).items():
        for row in range(COUNT):
            for metric, labels, value in series(row):
                shown = ",".join(f'{name}="{text}"' for name, text in {**labels, "layout": layout}.items())
                lines.setdefault(metric, []).extend(
                    f"{metric}{{{shown}}} {value(passed)!r} {start + passed}" for passed in range(0, SPAN, STEP)
                )
    text = []
    for metric, of in sorted(lines.items()):
        kind = "counter" if metric.endswith("_total") else "gauge"
        text += [f"# TYPE {metric.removesuffix('_total')} {kind}", *of]
    import_past(tools, folder, text)
    with prometheus(tools, folder, []) as server:
        yield server, start + SPAN - STEP


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_node_is_known_as_installed(scraped: tuple[Prometheus, float], layout: str) -> None:
    server, last = scraped
    _, preset, known = LAYOUTS[layout]
    resources = ["cpu", "memory", *(["pods"] if layout in ("k3s", "every port tells all") else [])]
    environment = {
        "BALLAST_PROMETHEUS__URL": server.url,
        "BALLAST_PROMETHEUS__PRESET": preset,
        "BALLAST_PROMETHEUS__MATCHERS": f'layout="{layout}"',
        "BALLAST_TELEMETRY__RESOURCES": ",".join(resources),
    }
    source, names = PrometheusSource(load(environment), Metrics()), NodeNames(NODES)
    readings = [source.read(last - before, names) for before in (60, 30, 0)]
    past = list(source.backfill(last - 120, last - 30, 30, names))
    source.close()
    for reading in (*readings, *past):
        assert not reading.mixtures
        assert reading.several_jobs is None
        if not known:
            assert {problem.reason for problem in reading.failed.values()} == {"empty"}
            continue
        assert not reading.problems
        for resource in resources:
            assert reading.samples[resource].rows.tolist() == list(range(COUNT))
            assert reading.samples[resource].values.tolist() == pytest.approx(TRUE[resource], abs=1e-6)
    if known:
        assert max(reading.queries for reading in readings) <= 1 + (2 + preset.count(",")) * len(resources)


@pytest.mark.parametrize("layout", FORGED)
def test_a_copy_that_tells_another_number_is_left_out_or_disputed(
    scraped: tuple[Prometheus, float], layout: str
) -> None:
    """Whatever is told of one node, the others keep their numbers, and no forged one counts."""
    server, last = scraped
    environment = {
        "BALLAST_PROMETHEUS__URL": server.url,
        "BALLAST_PROMETHEUS__PRESET": "kubelet",
        "BALLAST_PROMETHEUS__MATCHERS": f'layout="{layout}"',
    }
    source, names = PrometheusSource(load(environment), Metrics()), NodeNames(NODES)
    readings = [source.read(last - before, names) for before in (60, 30, 0)]
    source.close()
    for reading in readings:
        assert reading.several_jobs is not None or reading.mixtures or reading.rejected["duplicate"]
        for resource in ("cpu", "memory"):
            samples = reading.samples[resource]
            told = dict(zip(samples.rows.tolist(), samples.values.tolist(), strict=True))
            assert set(told) >= {0, 2, 3, 4}
            assert reading.doubtful <= {NODES[1].name}, "one node is disputed at most"
            told = {row: value for row, value in told.items() if NODES[row].name not in reading.doubtful}
            assert told == pytest.approx({row: TRUE[resource][row] for row in told}, abs=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS | FORGED)
def test_each_line_that_doctor_prints_helps(scraped: tuple[Prometheus, float], layout: str) -> None:
    server, last = scraped
    store = {
        "BALLAST_PROMETHEUS__URL": server.url,
        "BALLAST_PROMETHEUS__PRESET": LAYOUTS[layout].preset if layout in LAYOUTS else "kubelet",
        "BALLAST_PROMETHEUS__MATCHERS": f'layout="{layout}"',
    }
    assert_each_line_helps(lambda more: examined({**store, **more}, NODES, last), COUNT)
