"""Each layout works as installed, or names a line that makes it work when copied; no number is ever wrong."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

import pytest
from responses import RequestsMock

from ballast.base.metrics import Metrics
from ballast.model.sample import Reading
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from tests.unit.telemetry.fake_prometheus import URL, FakePrometheus
from tests.unit.telemetry.layouts import CORES, MEMORY, NAMES, TRUTH, Exporter, Labels, Layout, nodes

AT = 1_700_000_010.0
KUBELET = "node_cpu_usage_seconds_total|node_memory_working_set_bytes"
RULES = "instance:node_cpu:ratio|instance:node_memory_utilisation:ratio"


def address(index: int) -> dict[str, str]:
    return {"instance": f"10.0.0.{index}:9100", "job": "node-exporter"}


def by(label: str, pattern: str, **more: str) -> Labels:
    return lambda index: {label: pattern.format(node=NAMES[index], index=index), **more}


def also(**more: str) -> Labels:
    return lambda index: {**address(index), **more}


def pod_address(index: int) -> dict[str, str]:
    return {"instance": f"10.244.{index}.7:9100", "job": "node-exporter", "pod": f"exporter-{index}z"}


KPS = also(namespace="monitoring", pod="exporter-x", container="node-exporter", endpoint="http", service="exporter")

WORKING = {
    "kube-prometheus-stack": Layout([Exporter(KPS)]),
    "kube-prometheus, instance=node": Layout([Exporter(by("instance", "{node}"))]),
    "kubernetes_sd role node": Layout([Exporter(by("instance", "{node}:9100", kubernetes_io_hostname="x"))]),
    "Alloy k8s-monitoring": Layout(
        [Exporter(by("instance", "{node}", cluster="prod", job="integrations/node_exporter"))]
    ),
    "FQDN": Layout([Exporter(by("instance", "{node}.example.com:9100"))]),
    "arm labels": Layout([Exporter(also(kubernetes_io_arch="arm64"))]),
    "rules and raw": Layout(
        [Exporter(address), Exporter(address, metrics=RULES)], {"BALLAST_PROMETHEUS__PRESET": "kube-prometheus"}
    ),
    "Google Managed Prometheus, named port": Layout([Exporter(by("instance", "{node}:metrics", location="eu"))]),
    "external addresses": Layout([Exporter(by("instance", "52.0.0.{index}:9100"))]),
    "two jobs, same instance": Layout([Exporter(address), Exporter(also(job="other"))]),
    "two replicas": Layout([Exporter(also(prometheus_replica="a")), Exporter(also(prometheus_replica="b"))]),
    "restarted exporter without staleness": Layout(
        [
            Exporter(lambda index: {**pod_address(index), "node": NAMES[index]}),
            Exporter(lambda index: {"node": NAMES[index], "instance": f"10.244.{index}.9:9100"}, more=0.4, age=80),
        ],
        {"BALLAST_TELEMETRY__NODE_LABEL": "node,instance"},
    ),
    "external machines beside": Layout([Exporter(address), Exporter(by("instance", "vm-{index}.dc:9100"), more=0.3)]),
    "labels of OpenTelemetry": Layout(
        [Exporter(by("k8s.node.name", "{node}", **{"k8s.cluster.name": "prod"}))],
        {"BALLAST_TELEMETRY__NODE_LABEL": "k8s.node.name", "BALLAST_PROMETHEUS__MATCHERS": '"k8s.cluster.name"="prod"'},
    ),
    "kubelet alone": Layout(
        [Exporter(by("instance", "{node}", metrics_path="/metrics/resource"), metrics=KUBELET, scale=CORES)],
        {"BALLAST_PROMETHEUS__PRESET": "kubelet", "BALLAST_TELEMETRY__RESOURCES": "cpu"},
    ),
    "Windows nodes beside": Layout(
        [
            Exporter(lambda index: address(index) if index < 4 else {"instance": f"other-{index}"}),
            Exporter(
                lambda index: address(index) if index >= 4 else {"instance": f"win-{index}"}, metrics="windows_\\w+"
            ),
        ],
        {"BALLAST_PROMETHEUS__PRESET": "node-exporter,windows-exporter"},
    ),
    "the first preset that knows a node counts": Layout(
        [
            Exporter(lambda index: address(index) if index != 3 else {"instance": "nobody"}),
            Exporter(
                lambda index: by("instance", "{node}")(index) if index == 3 else {"instance": f"{NAMES[index]}"},
                metrics=KUBELET,
                scale=CORES,
            ),
        ],
        {"BALLAST_PROMETHEUS__PRESET": "node-exporter,kubelet", "BALLAST_TELEMETRY__RESOURCES": "cpu"},
    ),
}

MENDED = {
    "pod addresses": (
        Layout([Exporter(lambda index: {**pod_address(index), "node": NAMES[index]})]),
        "BALLAST_TELEMETRY__NODE_LABEL=node",
    ),
    "instance = pod name": (
        Layout([Exporter(lambda index: {"instance": f"exporter-x{index}", "nodename": NAMES[index]})]),
        "BALLAST_TELEMETRY__NODE_LABEL=nodename",
    ),
    "names with more": (Layout([Exporter(by("instance", "{node}-metal:9100"))]), "BALLAST_TELEMETRY__NODE_REWRITE"),
    "several values of cluster": (
        Layout([Exporter(also(cluster="east")), Exporter(also(cluster="west"), more=0.3)]),
        "BALLAST_PROMETHEUS__MATCHERS='cluster=\"east\"'",
    ),
    "clusters by another label": (
        Layout([Exporter(also(k8s_cluster_name="east")), Exporter(also(k8s_cluster_name="west"), more=0.3)]),
        "BALLAST_PROMETHEUS__MATCHERS='k8s_cluster_name=\"east\"'",
    ),
    "clusters by an unheard-of label": (
        Layout([Exporter(also(__tenant_id__="7")), Exporter(also(__tenant_id__="8"), more=0.3)]),
        "BALLAST_PROMETHEUS__MATCHERS='__tenant_id__=\"7\"'",
    ),
    "two Prometheus in one Thanos": (
        Layout([Exporter(also(prometheus="a/k8s")), Exporter(also(prometheus="b/k8s"), more=0.3)]),
        "BALLAST_PROMETHEUS__MATCHERS='prometheus=\"a/k8s\"'",
    ),
    "half of the series with cluster": (
        Layout([Exporter(also(cluster="prod")), Exporter(address, more=0.05)]),
        "BALLAST_PROMETHEUS__MATCHERS='cluster=\"prod\"'",
    ),
    "two exporters on two ports": (
        Layout([Exporter(address), Exporter(by("instance", "10.0.0.{index}:9796", job="node-exporter"), more=0.05)]),
        "BALLAST_PROMETHEUS__MATCHERS='instance=~\".+:9100\"'",
    ),
    "two exporters of two jobs": (
        Layout([Exporter(address), Exporter(by("instance", "10.0.0.{index}:9796", job="rancher"), more=0.05)]),
        "BALLAST_PROMETHEUS__MATCHERS='job=\"node-exporter\"'",
    ),
    "one exporter by address and by name": (
        Layout([Exporter(address), Exporter(by("instance", "{node}:9100", job="node-exporter"), more=0.05)]),
        "BALLAST_PROMETHEUS__MATCHERS='instance=~\"([0-9.]+|\\\\[[0-9a-fA-F:.]+\\\\])(:.+)?\"'",
    ),
    "UTF-8 label of the cluster": (
        Layout([Exporter(also(**{"k8s.cluster.name": "e"})), Exporter(also(**{"k8s.cluster.name": "w"}), more=0.3)]),
        'BALLAST_PROMETHEUS__MATCHERS=\'"k8s.cluster.name"="e"\'',
    ),
    "other matchers stay": (
        Layout(
            [Exporter(also(region="e")), Exporter(also(region="w"), more=0.3)],
            {"BALLAST_PROMETHEUS__MATCHERS": 'job="node-exporter"'},
        ),
        'BALLAST_PROMETHEUS__MATCHERS=\'job="node-exporter",region="e"\'',
    ),
    "only recording rules stored": (
        Layout(
            [Exporter(address, metrics=RULES), Exporter(address, unaged=True, metrics=RULES)],
            {"BALLAST_PROMETHEUS__PRESET": "kube-prometheus"},
        ),
        "BALLAST_TELEMETRY__RESOURCES",
    ),
    "late samples, or a clock that is ahead": (Layout([Exporter(address, age=125)]), "BALLAST_TELEMETRY__OFFSET=150s"),
}


@pytest.mark.parametrize("layout", [pytest.param(layout, id=name) for name, layout in WORKING.items()])
def test_it_works_as_installed(layout: Layout, wire: RequestsMock) -> None:
    reading = _read(layout, {}, wire)
    assert not reading.problems
    assert not reading.differing
    assert _known(reading) == set(NAMES)


@pytest.mark.parametrize(("layout", "line"), [pytest.param(*each, id=name) for name, each in MENDED.items()])
def test_a_line_to_copy_mends_it(layout: Layout, line: str, wire: RequestsMock) -> None:
    before = _read(layout, {}, wire)
    assert _known(before) == set()
    said = "\n".join((before.differing, *before.problems.values()))
    assert line in said
    fixes = (*(each.fix for each in before.mixtures), *(each.fix for each in before.failed.values()))
    assert all(each in said for fix in fixes for each in fix)
    (copied,) = {each for fix in fixes for each in fix if each.startswith(line)}
    name, _, value = shlex.split(copied)[0].partition("=")
    if name.endswith("OFFSET"):
        layout = Layout([replace(each, age=5) for each in layout.exporters])
    wire.reset()
    after = _read(layout, {name: value}, wire)
    assert not after.problems
    assert not after.differing
    assert _known(after) == set(NAMES)


def test_where_no_label_names_a_node_it_says_how_to_add_one(wire: RequestsMock) -> None:
    reading = _read(Layout([Exporter(by("instance", "exporter-x{index}", pod="p"))]), {}, wire)
    assert _known(reading) == set()
    said = reading.problems["cpu"]
    assert "no label names a node (labels: pod)" in said
    assert "source_labels: [__meta_kubernetes_pod_node_name]" in said


def test_only_the_nodes_that_differ_are_unknown(wire: RequestsMock) -> None:
    twice = Exporter(
        lambda index: also(k8s_cluster_name="west")(index) if index < 2 else {"instance": f"w-{index}"}, more=0.3
    )
    reading = _read(Layout([Exporter(also(k8s_cluster_name="east")), twice]), {}, wire)
    assert _known(reading) == set(NAMES[2:])
    assert "of node-0, node-1 are not known" in reading.differing
    assert "'east', 'west'" in reading.differing


@pytest.mark.parametrize(
    ("scale", "resource", "words"),
    [
        (CORES, "cpu", "look like cores"),
        (100.0, "cpu", "look like percent; divide by 100"),
        (CORES * 1e3, "cpu", "thousandths of cores"),
        (MEMORY, "memory", "look like bytes"),
        (100.0, "memory", "look like percent; divide by 100"),
        (1.25e8, "network", "look like bytes per second"),
        (100.0, "disk", "look like percent; divide by 100"),
    ],
)
def test_the_unit_of_a_query_is_recognised(scale: float, resource: str, words: str, wire: RequestsMock) -> None:
    layout = Layout([Exporter(by("k8s_node_name", "{node}"), metrics="mine", scale=scale)])
    text = f'{{"{resource}": {{"query": "mine", "node_label": "k8s_node_name"}}}}'
    reading = _read(layout, {"BALLAST_TELEMETRY__RESOURCES": text}, wire)
    assert words in reading.problems[resource]
    assert ("divide by 100" in reading.problems[resource]) is ("percent" in words)


def _read(layout: Layout, more: Mapping[str, str], wire: RequestsMock) -> Reading:
    """One reading; every number in it is the truth of its node."""
    FakePrometheus(layout.evaluate).serve(wire)
    settings = load({"BALLAST_PROMETHEUS__URL": URL, **layout.settings, **more})
    names = NodeNames(nodes(), rewrite=settings.telemetry.node_rewrite)
    source = PrometheusSource(settings, Metrics())
    reading = source.read(AT, names)
    source.close()
    for samples in reading.samples.values():
        for row, value in zip(samples.rows.tolist(), samples.values.tolist(), strict=True):
            assert value == pytest.approx(TRUTH[row])
    return reading


def _known(reading: Reading) -> set[str]:
    """The nodes of which every resource was read."""
    rows = [set(samples.rows.tolist()) for samples in reading.samples.values()]
    return {NAMES[row] for row in set.intersection(*rows)} if rows and not reading.problems else set()


def test_twenty_layouts_and_more_work_as_installed_or_with_a_line() -> None:
    assert len(WORKING) + len(MENDED) >= 20
