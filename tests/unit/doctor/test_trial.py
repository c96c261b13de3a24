"""Doctor prints a line only where it makes some node more known and none less."""

from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from responses import RequestsMock

from ballast.cluster.client import KubeApi
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, KnownNodes
from ballast.doctor.trial import tried
from ballast.settings import load
from tests.unit.telemetry.fake_prometheus import URL, FakePrometheus, QueryRefused, Series
from tests.unit.telemetry.layouts import COUNT, NAMES, Exporter, Labels, Layout, nodes
from tests.unit.telemetry.test_layouts import KUBELET, MENDED, also, by
from tests.worlds.clock import FakeClock
from tests.worlds.examined import Known, assert_each_line_helps, examined

AT = 1_700_000_010.0
GPU = "DCGM_FI_DEV_GPU_UTIL"
PODS = "kubelet_running_pods"
CADVISOR = "container_\\w+"


def kubelet(metrics: str, **labels: str) -> Exporter:
    return Exporter(also(job="kubelet", **labels), metrics=metrics, scale=0.1)


FIELD = {
    "paths of kubelets": Layout(
        [
            kubelet(KUBELET, metrics_path="/metrics/resource"),
            kubelet(CADVISOR, metrics_path="/metrics/cadvisor", id="/"),
            kubelet(PODS, metrics_path="/metrics"),
        ],
        {"BALLAST_PROMETHEUS__PRESET": "kubelet"},
    ),
    "two jobs of kubelets": Layout(
        [
            Exporter(by("instance", "{node}", job="nodes-cadvisor", id="/"), metrics=CADVISOR, scale=0.1),
            Exporter(by("instance", "{node}", job="nodes"), metrics=PODS),
        ],
        {"BALLAST_PROMETHEUS__PRESET": "kubelet"},
    ),
    "only pods of kubelets": Layout([kubelet(PODS)], {"BALLAST_PROMETHEUS__PRESET": "kubelet"}),
    "scores as labels": Layout([Exporter(also(ballast_dev_score="61")), Exporter(also(ballast_dev_score="40"))]),
    "GPUs by pods": Layout(
        [Exporter(also()), Exporter(by("Hostname", "dcgm-{index}x", instance="dcgm"), metrics=GPU)],
        {"BALLAST_PROMETHEUS__PRESET": "node-exporter,dcgm", "BALLAST_TELEMETRY__RESOURCES": "cpu,memory,gpu"},
    ),
    "clusters of unequal size": Layout(
        [
            Exporter(also(region="e")),
            Exporter(lambda i: also(region="w")(i) if i < 2 else {"instance": f"w{i}"}, more=0.2),
        ]
    ),
    **{name: layout for name, (layout, _) in MENDED.items()},
}


def examine(layout: Layout, more: Mapping[str, str] | None = None) -> tuple[list[Finding], Known]:
    return examined({"BALLAST_PROMETHEUS__URL": URL, **layout.settings, **(more or {})}, nodes(), AT)


def assert_lines_help(layout: Layout) -> int:
    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        FakePrometheus(layout.evaluate).serve(wire)
        return assert_each_line_helps(lambda more: examine(layout, more), COUNT)


@pytest.mark.parametrize("name", FIELD)
def test_every_line_of_a_layout_of_the_field_helps(name: str) -> None:
    assert_lines_help(FIELD[name])


LABELS = st.dictionaries(
    st.sampled_from(("cluster", "region", "job", "namespace", "metrics_path", "node", "pod", "ballast_dev_score")),
    st.sampled_from(("a", "b", "{node}", "x-{index}")),
    max_size=3,
)
INSTANCES = st.sampled_from(
    ("10.0.0.{index}:9100", "10.0.0.{index}:9796", "{node}", "{node}-metal", "exporter-{index}")
)
PRESETS = st.sampled_from(
    ("node-exporter", "kubelet", "node-exporter,kubelet", "kube-prometheus", "node-exporter,dcgm")
)


def drawn(labels: Mapping[str, str], instance: str, most: int) -> Labels:
    patterns = {"instance": instance, **labels}
    return lambda index: {
        name: (pattern if index < most else f"other-{index}").format(node=NAMES[index], index=index)
        for name, pattern in patterns.items()
    }


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    exporters = [
        Exporter(
            drawn(draw(LABELS), draw(INSTANCES), draw(st.integers(1, COUNT))),
            more=draw(st.sampled_from((0.0, 0.2))),
            metrics=draw(st.sampled_from((f"{KUBELET}|node_memory_Mem\\w+|node_cpu_seconds_total", CADVISOR, PODS))),
            scale=0.5,
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return Layout(exporters, {"BALLAST_PROMETHEUS__PRESET": draw(PRESETS)})


@given(layouts())
def test_every_line_of_any_layout_helps(layout: Layout) -> None:
    assert_lines_help(layout)


def test_lines_are_tried_at_all() -> None:
    assert sum(map(assert_lines_help, FIELD.values())) >= 15


def test_the_line_that_helps_most_comes_first() -> None:
    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        FakePrometheus(FIELD["clusters of unequal size"].evaluate).serve(wire)
        (finding, *_), _ = examine(FIELD["clusters of unequal size"])
    assert finding.fix[0] == "BALLAST_PROMETHEUS__MATCHERS='region=\"e\"'"
    assert finding.tried[0] == KnownNodes(COUNT, COUNT)


def test_a_line_costs_three_queries_however_often_it_is_proposed() -> None:
    layout = FIELD["clusters of unequal size"]
    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        store = FakePrometheus(layout.evaluate)
        store.serve(wire)
        (finding, *_), _ = examine(layout)
        settings = load({"BALLAST_PROMETHEUS__URL": URL})
        evidence = Evidence(settings, cast(KubeApi, None), FakeClock(wall=AT))
        vars(evidence).update({"nodes": tuple(nodes()), "pods": ()})
        assert evidence.answer is None
        assert evidence.reading.failed == {}
        before = len(store.queries)
        lines = replace(finding, fix=finding.fix[:1], tried=())
        assert tried(evidence, lines) == tried(evidence, lines)
        evidence.close()
    assert len(store.queries) - before == 3


def test_a_line_that_would_take_other_resources_is_not_printed() -> None:
    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        FakePrometheus(FIELD["GPUs by pods"].evaluate).serve(wire)
        found, _ = examine(FIELD["GPUs by pods"])
    (finding,) = [each for each in found if each.check == "node-label"]
    assert "BALLAST_TELEMETRY__NODE_LABEL=" not in f"{finding.message} {finding.fix}"
    assert "target_label: node" in finding.fix[0]


@pytest.mark.parametrize(
    ("label", "settings", "pattern"),
    [
        ("ballast_dev_score", {}, "ballast_dev_.+"),
        ("exported_ballast_dev_score", {}, "exported_ballast_dev_.+"),
        ("label_ballast_dev_load", {}, "label_ballast_dev_.+"),
        ("annotation_ballast_dev_window", {}, "annotation_ballast_dev_.+"),
        ("ballast.dev/score", {}, r"ballast\.dev/.+"),
        ("k8s.node.label.ballast.dev/score", {}, r"k8s\.node\.label\.ballast\.dev/.+"),
        ("load_example_score", {"BALLAST_PUBLISHING__PREFIX": "load.example"}, "load_example_.+"),
        (
            "ballast_node_restriction_kubernetes_io_score",
            {"BALLAST_PUBLISHING__LABEL_PREFIX": "ballast.node-restriction.kubernetes.io"},
            "ballast_node_restriction_kubernetes_io_.+",
        ),
    ],
)
def test_own_labels_are_no_difference_and_a_labeldrop_line(label: str, settings: dict[str, str], pattern: str) -> None:
    twice = [Exporter(also(**{label: score})) for score in ("61", "40")]
    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        FakePrometheus(Layout(twice).evaluate).serve(wire)
        found, known = examine(Layout(twice), settings)
    assert len(known) == 2 * COUNT
    (finding,) = found
    assert (finding.check, finding.status) == ("copied-labels", "warn")
    assert label in finding.message
    assert finding.fix == (f"- {{action: labeldrop, regex: {pattern}}}",)


@pytest.mark.parametrize("label", ["ballast_dev_", "my_ballast_dev_score", "ballast_device", "score", "xballast_dev_a"])
def test_labels_of_others_still_tell_things_apart(label: str) -> None:
    twice = [Exporter(also(**{label: score})) for score in ("61", "40")]
    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        FakePrometheus(Layout(twice).evaluate).serve(wire)
        found, known = examine(Layout(twice))
    assert not known
    assert {finding.check for finding in found} == {"clusters-mixed"}


def test_a_store_that_refuses_what_is_tried_leaves_the_line_untried() -> None:
    layout = FIELD["clusters of unequal size"]

    def evaluate(query: str, time: float) -> list[Series]:
        if 'region="' in query:
            raise QueryRefused(422, "too many samples")
        return layout.evaluate(query, time)

    with RequestsMock(assert_all_requests_are_fired=False) as wire:
        FakePrometheus(evaluate).serve(wire)
        (finding, *_), _ = examine(layout)
    assert any('region="e"' in line for line in finding.fix)
    assert set(finding.tried) == {None}
