import json

import pytest

from tests.worlds.daemons import LOAD, SCORE, WINDOW, Rig, condition, get, metric, snapshot, verbose, watcher

pytestmark = pytest.mark.slow


def test_metrics_server_steps_in_while_prometheus_is_silent_and_steps_back(calm: Rig) -> None:
    daemon = calm.settled(WINDOWS__LENGTHS="5m", WINDOWS__MIN_SAMPLES="3")
    calm.faults.prometheus_empty()
    sentences = [calm.cycle(daemon)[0] for _ in range(8)]
    assert sentences[-1].startswith("know 10 of 10 nodes from metrics-server, 0 unknown")
    assert "gives no series" in sentences[-1]
    assert len(watcher(daemon)) == 10
    assert "from the fallback source" in (condition(daemon, "FallbackInUse") or "")
    assert "from metrics-server" in verbose(daemon)
    calm.faults.clear()
    assert calm.cycle(daemon, 2)[0] == "know 10 of 10 nodes from prometheus, 0 unknown"
    assert condition(daemon, "FallbackInUse") is None


def test_metrics_server_alone(calm: Rig) -> None:
    daemon = calm.daemon(TELEMETRY__SOURCE="metrics-server", WINDOWS__LENGTHS="5m", WINDOWS__MIN_SAMPLES="3")
    told, _ = calm.cycle(daemon, 10)
    assert told.startswith("know 10 of 10 nodes from metrics-server, 0 unknown")
    assert all({SCORE, LOAD, WINDOW} == set(own) for own in calm.published().values())
    assert get(daemon, "/watcher").json()["source"] == "KubernetesMetricsServer"
    assert not any(resource == "prometheus" for _, resource in dict(calm.cluster.requests))


def test_an_exporter_that_sends_nan_makes_its_node_unknown_and_is_counted(calm: Rig) -> None:
    broken = calm.names[2]
    calm.faults.exporter_nan(broken)
    daemon = calm.daemon()
    before = metric(daemon, 'ballast_samples_rejected_total{reason="non_finite"}') or 0
    told, _ = calm.cycle(daemon)
    assert "rejected 2 non_finite" in told
    assert metric(daemon, 'ballast_samples_rejected_total{reason="non_finite"}') == before + 2
    calm.cycle(daemon, 4)
    assert condition(daemon, "NodesUnknown") == f"unknown: {broken}"
    assert calm.own(broken) == {LOAD: "unknown"}
    assert broken not in watcher(daemon)


def test_one_cycle_asks_one_question_a_resource_and_one_for_all_ages(calm: Rig) -> None:
    daemon = calm.settled(TELEMETRY__RESOURCES="cpu,memory,disk,network")
    before = calm.cluster.requests.copy()
    calm.cycle(daemon, 3)
    asked = calm.cluster.requests - before
    assert asked["query", "prometheus"] == 3 * (4 + 1)
    assert asked["query_range", "prometheus"] == 0
    assert asked["list", "metrics/nodes"] <= 2, "the witness is asked seldom"


def test_duplicates_of_a_pair_of_prometheus_replicas_count_once(calm: Rig) -> None:
    calm.faults.prometheus_duplicates(label="prometheus_replica")
    daemon = calm.daemon()
    assert daemon.board.cycles[0].sentence == "know 10 of 10 nodes from prometheus, 0 unknown"
    assert condition(daemon, "SeriesDiffer") is None


@pytest.mark.parametrize(
    ("fault", "values", "label", "mended"),
    [
        ("prometheus_duplicates", {}, "instance", 'instance=~".+:9100"'),
        ("prometheus_clusters", {"label": "k8s_cluster_name"}, "k8s_cluster_name", 'k8s_cluster_name="blue"'),
        ("prometheus_clusters", {"label": "prometheus"}, "prometheus", 'prometheus="green"'),
    ],
)
def test_series_of_different_things_are_never_merged_and_a_line_chooses(
    calm: Rig, fault: str, values: dict[str, str], label: str, mended: str
) -> None:
    calm.faults.metrics_server_missing()
    calm.faults.apply(fault, **values)
    daemon = calm.daemon()
    calm.cycle(daemon, 3)
    assert get(daemon, "/watcher").status_code == 500, "nothing is known"
    said = condition(daemon, "SeriesDiffer") or ""
    assert f"differ in {label}" in said
    lines = said.splitlines()[1:]
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("BALLAST_PROMETHEUS__MATCHERS='")
        assert line.endswith("'")
    line = f"BALLAST_PROMETHEUS__MATCHERS='{mended}'"
    assert line in lines
    if label != "instance":
        again = calm.daemon(leads=False, PROMETHEUS__MATCHERS=mended)
        assert calm.cycle(again)[0].startswith("know 10 of 10 nodes from prometheus, 0 unknown")
        assert condition(again, "SeriesDiffer") is None


def test_metrics_server_is_warm_when_prometheus_falls_silent(calm: Rig) -> None:
    daemon = calm.settled()
    calm.cycle(daemon, 24)
    calm.faults.prometheus_empty()
    told = [calm.cycle(daemon)[0] for _ in range(6)]
    frozen = [each for each in told if not each.startswith("know 10 of 10")]
    assert len(frozen) <= 2, told
    assert told[-1].startswith("know 10 of 10 nodes from metrics-server")


def test_two_sources_that_disagree_are_named(calm: Rig) -> None:
    query = "instance:node_cpu:ratio"
    resources = {"cpu": {"query": query}, "memory": {}}
    daemon = calm.settled(TELEMETRY__RESOURCES=json.dumps(resources))
    calm.cycle(daemon, 20)
    assert condition(daemon, "SourcesDisagree") is None
    calm.faults.prometheus_higher(0.4)
    calm.cycle(daemon, 20)
    said = condition(daemon, "SourcesDisagree") or ""
    assert "cpu of 10 of 10 nodes is" in said
    assert "points or more above metrics-server's" in said
    assert "BALLAST_PROMETHEUS__MATCHERS" in said


def test_a_node_of_which_two_sources_differ_is_disputed_and_causes_nothing(calm: Rig) -> None:
    daemon = calm.settled(EVICTION__MODE="on", EVICTION__PLANNERS="relieve")
    calm.cycle(daemon, 4)
    forged = calm.names[0]
    score = int(calm.own(forged)[SCORE])
    evictions = calm.cluster.requests["create", "pods/eviction"]
    calm.faults.prometheus_higher(0.6, node=0)
    for _ in range(30):
        told = calm.cycle(daemon)
        daemon.scheduler.run("eviction")
        assert int(calm.own(forged).get(SCORE, 0)) <= score, "no better label"
    assert "(1 disputed)" in told[0]
    assert snapshot(daemon).states.counts["disputed"] == 1
    told_of = get(daemon, "/api/v1/nodes").json()["nodes"]
    assert next(node["state"] for node in told_of if node["name"] == forged) == "disputed"
    known = [node for node in told_of if node["state"] == "known"]
    assert {(node["matched_by"], node["guessed"]) for node in known} == {("address", False)}
    assert [node["name"] for node in told_of if node["matched_by"] is None] == [forged]
    said = condition(daemon, "MeasurementsDisputed") or ""
    assert said.startswith(f"cpu above metrics-server's by more than 20 points: {forged}; memory above")
    assert calm.own(forged) == {LOAD: "unknown"}
    assert forged not in watcher(daemon)
    assert calm.cluster.requests["create", "pods/eviction"] == evictions
    calm.faults.clear()
    assert calm.cycle(daemon, 12)[0] == "know 10 of 10 nodes from prometheus, 0 unknown"
    assert condition(daemon, "MeasurementsDisputed") is None


EVIL = {"job": "evil", "namespace": "tenant-a"}


@pytest.mark.parametrize(
    "labels", [EVIL, {"job": "node-exporter", "namespace": "tenant-a"}, {"job": "evil", "zone": "x"}]
)
def test_a_node_that_two_jobs_tell_of_without_labels_of_pods_is_disputed_alone_and_named_within_two_cycles(
    calm: Rig, labels: dict[str, str]
) -> None:
    calm.faults.metrics_server_missing()
    daemon = calm.settled(EVICTION__MODE="on", EVICTION__PLANNERS="relieve")
    calm.cycle(daemon, 4)
    forged = calm.names[0]
    evictions = calm.cluster.requests["create", "pods/eviction"]
    calm.faults.prometheus_forged([0], labels, by=0.6)
    calm.cycle(daemon, 3)
    said = condition(daemon, "SeveralJobs") or ""
    assert said.startswith(f"{forged}: reported by the scrape jobs ")
    matcher = 'namespace!="tenant-a"' if labels["job"] == "node-exporter" else 'job!="evil"'
    assert f"BALLAST_PROMETHEUS__MATCHERS='{matcher}'" in said.splitlines()
    assert f"disputed, since no label tells whose target runs there: {forged}" in said
    for _ in range(30):
        told = calm.cycle(daemon)
        daemon.scheduler.run("eviction")
    assert told[0].startswith("know 9 of 10 nodes from prometheus, 1 unknown")
    assert forged not in watcher(daemon)
    assert calm.cluster.requests["create", "pods/eviction"] == evictions
    again = calm.daemon(leads=False, PROMETHEUS__MATCHERS=matcher)
    calm.cycle(again, 3)
    assert condition(again, "SeveralJobs") is None


def test_a_forged_value_does_not_stand_in_where_the_exporter_falls_silent(calm: Rig) -> None:
    calm.faults.metrics_server_missing()
    daemon = calm.settled()
    forged = calm.names[0]
    calm.faults.prometheus_forged([0], EVIL, by=0.6)
    calm.cycle(daemon, 4)
    calm.faults.prometheus_forged([0], EVIL, by=0.6, alone=True)
    told = calm.cycle(daemon, 30)
    assert "know 9 of 10 nodes" in told[0]
    assert forged not in watcher(daemon)


def test_a_job_that_stands_in_where_another_fell_silent_leaves_its_nodes_disputed(calm: Rig) -> None:
    calm.faults.metrics_server_missing()
    daemon = calm.settled()
    calm.cycle(daemon, 4)
    score = int(calm.own(calm.names[1])[SCORE])
    calm.faults.prometheus_forged([0, 1], EVIL, by=-0.6, alone=True)
    for _ in range(20):
        calm.cycle(daemon)
        assert int(calm.own(calm.names[1]).get(SCORE, 0)) <= score
    assert snapshot(daemon).states.counts["disputed"] == 2
    both = f"{calm.names[0]}, {calm.names[1]}"
    assert f"disputed, since no label tells whose target runs there: {both}" in (condition(daemon, "SeveralJobs") or "")


def test_several_clusters_in_one_answer_are_named_and_nothing_is_guessed(calm: Rig) -> None:
    daemon = calm.settled()
    before = calm.published()
    calm.faults.prometheus_clusters(["blue", "green"])
    calm.faults.metrics_server_missing()
    told, published = calm.cycle(daemon, 5)
    assert "the answer mixes the clusters blue, green; choose one: BALLAST_PROMETHEUS__MATCHERS" in told
    assert "frozen" in published
    assert calm.published() == before
    assert "blue, green" in (condition(daemon, "TelemetryDegraded") or "")


def test_stale_samples_do_not_count_however_fresh_the_answer_looks(calm: Rig) -> None:
    daemon = calm.settled()
    calm.faults.prometheus_stale(age=200.0)
    calm.faults.metrics_server_missing()
    told, published = calm.cycle(daemon, 5)
    assert told.startswith("know 0 of 10 nodes from prometheus, 10 unknown (10 silent); rejected 20 stale")
    assert published.startswith("publishing is frozen")


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
def test_after_a_step_of_the_wall_clock_windows_are_read_again(calm: Rig, seconds: float) -> None:
    daemon = calm.settled()
    calm.clock.step_wall(seconds)
    told, _ = calm.cycle(daemon)
    assert told == "know 10 of 10 nodes from prometheus, 0 unknown"
    assert snapshot(daemon).primary.count.min() == 30
    assert snapshot(daemon).time == pytest.approx(calm.clock.wall(), abs=calm.interval)
    assert calm.cycle(daemon)[1].startswith("labels current on ")


def test_an_outage_leaves_no_gap(calm: Rig) -> None:
    daemon = calm.settled()
    calm.faults.prometheus_down()
    calm.cycle(daemon, 4)
    calm.faults.clear()
    calm.cycle(daemon)
    assert snapshot(daemon).primary.count.min() == 30
