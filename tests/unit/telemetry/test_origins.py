"""What names a node beside its own name: its provider id, the pod behind a series, a short name that a job confirms."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from responses import RequestsMock

from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Reading
from ballast.settings import load
from ballast.telemetry.node_names import UNMATCHED, NodeNames
from ballast.telemetry.origins import JobNaming, Origins, Told
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast.telemetry.several_jobs import Job
from tests.unit.telemetry.fake_prometheus import URL, FakePrometheus
from tests.unit.telemetry.layouts import NAMES, Exporter, Labels, Layout, nodes

AT = 1_700_000_010.0


@pytest.mark.parametrize(
    ("provider", "value"),
    [
        ("aws:///eu-west-1a/i-0123456789abcdef0", "i-0123456789abcdef0"),
        ("aws:///eu-west-1a/i-0123456789abcdef0", "i-0123456789abcdef0:9100"),
        ("gce://shop-prod/europe-west1-b/gke-pool-1-f3a0", "gke-pool-1-f3a0"),
        ("openstack:///3F9C1B52-aaaa-bbbb-cccc-000000000001", "3f9c1b52-aaaa-bbbb-cccc-000000000001"),
        ("hcloud://48213377", "hcloud://48213377"),
    ],
)
def test_a_node_answers_to_what_its_cloud_calls_the_machine(provider: str, value: str) -> None:
    names = NodeNames([Node(name="a"), Node(name="b", provider_id=provider)])
    assert names.row(value) == 1
    assert names.matched_by(value) == ("provider-id", False)


@pytest.mark.parametrize("provider", ["x://10.0.0.1", "10.0.0.1", "azure:///vmss/virtualMachines/0", "x://a"])
def test_a_provider_id_takes_no_name_or_address_of_another(provider: str) -> None:
    names = NodeNames([Node(name="a", addresses=(("InternalIP", "10.0.0.1"),)), Node(name="b", provider_id=provider)])
    assert [names.row(value) for value in ("10.0.0.1:9100", "a", "0")] == [0, 0, UNMATCHED]


def test_exporters_outside_the_hosts_network_are_known_by_where_their_pods_stand(wire: RequestsMock) -> None:
    reading = _read([_by_pod_address], wire)
    assert _rows(reading) == list(range(6))
    assert set(reading.matched_by.values()) == {("target", False)}


def test_a_pod_that_tells_of_several_machines_stands_for_none(wire: RequestsMock) -> None:
    agent = {"namespace": "monitoring", "pod": "exporter-2"}
    reading = _read([lambda index: {"instance": f"172.16.0.{index}:9100", **agent}], wire)
    assert not _rows(reading)


def test_an_agent_that_names_a_machine_elsewhere_does_not_make_it_its_own_node(wire: RequestsMock) -> None:
    reading = _read([_by_pod_address, _outside("router.lab.example", pod="exporter-3", namespace="lab")], wire)
    assert _rows(reading) == list(range(6))


def test_a_machine_elsewhere_lends_no_node_its_load(wire: RequestsMock) -> None:
    exact = _without(3, lambda index: {"instance": f"10.0.0.{index}:9100", "job": "node-exporter"})
    reading = _read([exact, _outside("node-3.lab.example:9100", job="machines")], wire)
    assert _rows(reading) == [0, 1, 2, 4, 5]
    assert any("like node node-3 in its host name alone" in stranger for stranger in reading.strangers)


def test_a_job_that_tells_of_strangers_names_no_node_by_a_guess(wire: RequestsMock) -> None:
    def all_machines(index: int) -> Mapping[str, str]:
        host = f"node-{index}" if index < 5 else "printer"
        return {"instance": f"{host}.lab.example:9100", "job": "machines"}

    assert not _rows(_read([all_machines], wire))


def test_a_guess_is_marked_until_a_pod_confirms_it(wire: RequestsMock) -> None:
    def by_fqdn(index: int) -> Mapping[str, str]:
        pod = {"namespace": "monitoring", "pod": f"exporter-{index}"} if index else {}
        return {"instance": f"node-{index}.lab.example:9100", "job": "node-exporter", **pod}

    reading = _read([by_fqdn], wire)
    assert _rows(reading) == list(range(6))
    assert reading.matched_by["node-0"] == ("short-name", True)
    assert reading.matched_by["node-1"] == ("short-name", False)


def test_the_series_of_a_node_that_is_gone_take_no_guess_back() -> None:
    naming, job = JobNaming(), Job("", "node")
    guesses = [Told(f"n{row}.lab.example", job, "", f"n{row}", "short-name") for row in range(4)]
    gone = guesses[3]._replace(node="", how="")
    assert naming.judge(AT, guesses, _nowhere) == Origins()
    assert naming.judge(AT + 60, [*guesses[:3], gone], _nowhere) == Origins()
    assert naming.judge(AT + 400, [*guesses[:3], gone], _nowhere).doubted == {each.value for each in guesses[:3]}
    assert naming.judge(AT + 460, guesses, _nowhere) == Origins()


@given(
    series=st.lists(
        st.builds(
            Told,
            value=st.sampled_from(["n1.a", "n1.b", "n2.a", "n3.a", "10.0.0.1:9100", "vm.a"]),
            job=st.sampled_from([Job("", "a"), Job("x", "a"), Job("", "b")]),
            pod=st.sampled_from(["", "x/p1", "x/p2"]),
            node=st.just(""),
            how=st.just(""),
        ),
        max_size=12,
    ),
    places=st.dictionaries(st.sampled_from(["x/p1", "x/p2"]), st.sampled_from(["n1", "n2"])),
)
def test_no_job_of_strangers_is_ever_guessed_at(series: list[Told], places: dict[str, str]) -> None:
    known = {"n1.a": "n1", "n1.b": "n1", "n2.a": "n2", "n3.a": "n3"}
    told = [
        each._replace(node=known.get(each.value, ""), how="short-name" if each.value in known else "")
        for each in series
    ]
    origins = JobNaming().judge(AT, told, places.get)
    strange = {each.job for each in told if not each.how and each.value not in origins.targets}
    for value in {each.value for each in told if each.how} - origins.doubted - origins.confirmed:
        assert any(each.value == value and each.job not in strange for each in told)
    assert set(origins.targets.values()) <= set(places.values())


def _rows(reading: Reading) -> list[int]:
    """The nodes whose cpu was read."""
    return reading.samples["cpu"].rows.tolist() if "cpu" in reading.samples else []


def _nowhere(pod: str) -> None:
    return None


def _by_pod_address(index: int) -> Mapping[str, str]:
    pod = {"namespace": "monitoring", "pod": f"exporter-{index}"}
    return {"instance": f"10.244.{index}.7:9100", "job": "node-exporter", **pod}


def _without(missing: int, labels: Labels) -> Labels:
    return lambda index: labels(index) if index != missing else {**labels(0)}


def _outside(instance: str, **more: str) -> Labels:
    return lambda index: {"instance": instance, **more}


def _read(told: list[Labels], wire: RequestsMock) -> Reading:
    FakePrometheus(Layout([Exporter(labels) for labels in told]).evaluate).serve(wire)
    places = {f"exporter-{index}": NAMES[index] for index in range(6)}
    pods = [
        Pod(namespace=space, name=name, node=node) for space in ("monitoring", "lab") for name, node in places.items()
    ]
    source = PrometheusSource(load({"BALLAST_PROMETHEUS__URL": URL}), Metrics(), lambda: pods)
    reading = source.read(AT, NodeNames(nodes()))
    source.close()
    return reading
