import pytest
from responses import RequestsMock
from structlog.testing import capture_logs

from ballast.base.errors import SettingsError
from ballast.base.metrics import Metrics
from ballast.settings import ClusterSettings, Settings
from ballast.telemetry.node_names import NodeNames
from tests.unit.telemetry.fake_prometheus import (
    URL,
    FakePrometheus,
    QueryRefused,
    Series,
    by_instance,
    healthy,
    named,
    nodes,
    settings,
    source,
)

AT = 1_700_000_010.0


def counted(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_a_reading_has_values_and_the_times_of_the_raw_samples(wire: RequestsMock) -> None:
    FakePrometheus(healthy).serve(wire)
    reading = source().read(AT, named(3))
    assert reading.source == "prometheus"
    assert reading.at == AT
    assert set(reading.samples) == {"cpu", "memory"}
    assert reading.samples["cpu"].rows.tolist() == [0, 1, 2]
    assert reading.samples["cpu"].values.tolist() == [0.25] * 3
    assert reading.samples["cpu"].times.tolist() == [AT - 5] * 3
    assert not reading.problems
    assert not reading.rejected


@pytest.mark.parametrize("resources", ["cpu", "cpu,memory", "cpu,memory,disk,network"])
def test_m_resources_of_a_preset_cost_m_plus_one_queries(resources: str, wire: RequestsMock) -> None:
    prometheus = FakePrometheus(healthy)
    prometheus.serve(wire)
    metrics = Metrics()
    reading = source(settings({"resources": resources}), metrics).read(AT, named(3))
    assert len(prometheus.queries) == reading.queries == len(resources.split(",")) + 1
    assert sum("timestamp(" in query for query in prometheus.queries) == 1
    assert counted(metrics, "ballast_queries_total", resource="cpu", result="ok") == 1
    assert counted(metrics, "ballast_queries_total", resource="freshness", result="ok") == 1


def test_queries_are_evaluated_at_the_given_time(wire: RequestsMock) -> None:
    prometheus = FakePrometheus(healthy)
    prometheus.serve(wire)
    source().read(AT, named(3))
    assert {form["time"] for form in prometheus.forms} == {"1700000010"}
    assert {form["timeout"] for form in prometheus.forms} == {"10s"}


def test_only_the_wanted_resources_are_asked(wire: RequestsMock) -> None:
    prometheus = FakePrometheus(healthy)
    prometheus.serve(wire)
    reading = source().read(AT, named(3), ["memory"])
    assert set(reading.samples) == {"memory"}
    assert reading.queries == 2


def test_one_failing_query_costs_that_resource_only(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "node_cpu" in query:
            raise QueryRefused(422, "query processing would load too many samples into memory")
        return healthy(query, time)

    FakePrometheus(evaluate).serve(wire)
    metrics = Metrics()
    reading = source(metrics=metrics).read(AT, named(3))
    assert set(reading.samples) == {"memory"}
    assert "too many samples" in reading.problems["cpu"]
    assert "BALLAST_TELEMETRY__RESOURCES" in reading.problems["cpu"]
    assert counted(metrics, "ballast_queries_total", resource="cpu", result="error") == 1


def test_without_freshness_no_resource_has_fresh_data(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "timestamp(" in query:
            raise QueryRefused(500, "storage")
        return healthy(query, time)

    FakePrometheus(evaluate).serve(wire)
    reading = source().read(AT, named(3))
    assert not reading.samples
    assert all("age of the samples is unknown" in reading.problems[resource] for resource in ("cpu", "memory"))


def test_values_without_a_time_are_stale(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return healthy(query, time)[: 2 if "timestamp(" in query else 3]

    FakePrometheus(evaluate).serve(wire)
    reading = source().read(AT, named(3))
    assert reading.samples["cpu"].rows.tolist() == [0, 1]
    assert reading.rejected == {"stale": 2}


def test_an_exporter_that_stopped_is_stale_after_max_age_though_prometheus_still_answers(wire: RequestsMock) -> None:
    stopped = AT - 60

    def evaluate(query: str, time: float) -> list[Series]:
        return by_instance(stopped if "timestamp(" in query else 0.25)

    FakePrometheus(evaluate).serve(wire)
    watcher = source()
    assert len(watcher.read(stopped + 90, named(3)).samples["cpu"].rows) == 3
    reading = watcher.read(stopped + 120, named(3))
    assert not len(reading.samples["cpu"].rows)
    assert reading.rejected == {"stale": 6}


def test_warnings_of_the_answer_are_kept_and_counted(wire: RequestsMock) -> None:
    FakePrometheus(healthy, warnings=("store-1 is not available",)).serve(wire)
    metrics = Metrics()
    reading = source(metrics=metrics).read(AT, named(3))
    assert reading.warnings == ("store-1 is not available",)
    assert counted(metrics, "ballast_query_warnings_total", source="prometheus") == 3


def test_warnings_are_few_short_and_logged_once(wire: RequestsMock) -> None:
    said = tuple(f"store-{index}: {'timeout ' * 100}" for index in range(8))
    FakePrometheus(healthy, warnings=said[::-1]).serve(wire)
    watcher = source()
    with capture_logs() as logs:
        first, second = (watcher.read(AT + shift, named(3)) for shift in (0, 30))
    assert first.warnings == second.warnings
    assert [warning[:8] for warning in first.warnings] == [f"store-{index}:" for index in range(5)]
    assert all(len(warning) == 200 for warning in first.warnings)
    assert [log["warning"][:8] for log in logs if log["log_level"] == "warning"] == [f"store-{i}:" for i in range(8)]


def test_infos_are_logged_once_and_are_no_warnings(wire: RequestsMock) -> None:
    said = 'metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "cpu_seconds" (1:6)'
    FakePrometheus(healthy, infos=(said,)).serve(wire)
    metrics = Metrics()
    watcher = source(metrics=metrics)
    with capture_logs() as logs:
        readings = [watcher.read(AT + shift, named(3)) for shift in (0, 30)]
    assert [reading.warnings for reading in readings] == [(), ()]
    assert [(log["log_level"], log["remark"]) for log in logs] == [("info", said)]
    assert counted(metrics, "ballast_query_warnings_total", source="prometheus") == 0


@pytest.mark.parametrize("resource", ["cpu", "disk"])
@pytest.mark.parametrize("value", [2.5, 42.0])
def test_what_is_said_holds_still_while_numbers_move(resource: str, value: float, wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return healthy(query, time) if "timestamp(" in query else by_instance(value + time % 60 / 100)

    FakePrometheus(evaluate).serve(wire)
    watcher = source(settings({"resources": resource}))
    one, other = (watcher.read(AT + shift, named(3)) for shift in (0, 30))
    assert (one.warnings, one.problems) == (other.warnings, other.problems)
    assert one.warnings or one.problems


def test_what_is_said_does_not_depend_on_the_order_of_an_answer(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        strange: list[Series] = [
            ({"instance": f"other-{index}"}, time if "timestamp(" in query else 0.5) for index in range(9)
        ]
        return strange if time == AT else strange[::-1]

    FakePrometheus(evaluate).serve(wire)
    one, other = (source().read(AT + shift, named(3)) for shift in (0, 30))
    assert one.strangers == other.strangers == tuple(f"instance='other-{index}' is not a node" for index in range(5))
    assert one.problems == other.problems


def test_several_clusters_in_an_answer_make_the_resource_unknown(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "MemAvailable" in query:
            return [*by_instance(0.1, cluster="east"), *by_instance(0.9, cluster="west")]
        return [*healthy(query, time)]

    FakePrometheus(evaluate).serve(wire)
    reading = source().read(AT, named(3))
    assert set(reading.samples) == {"cpu"}
    assert "east, west" in reading.problems["memory"]
    assert "BALLAST_PROMETHEUS__MATCHERS" in reading.problems["memory"]


def test_one_cluster_label_is_no_conflict(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: by_instance(time if "timestamp(" in query else 0.1, cluster="east")).serve(wire)
    assert len(source().read(AT, named(3)).samples["cpu"].rows) == 3


def test_series_that_are_no_node_are_counted_and_named(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return [*healthy(query, time), ({"instance": "192.168.7.7:9100"}, 0.9)]

    FakePrometheus(evaluate).serve(wire)
    reading = source().read(AT, named(3))
    assert reading.rejected == {"unmatched": 2}
    assert reading.strangers == ("instance='192.168.7.7:9100' is not a node",)


@pytest.mark.parametrize(
    ("label", "words"), [("instance", "instance='elsewhere'"), ("node", "a series without the label node")]
)
def test_an_answer_about_other_machines_only_is_a_problem(label: str, words: str, wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: [({"instance": "elsewhere"}, time if "timestamp(" in query else 0.5)]).serve(
        wire
    )
    reading = source(settings({"node_label": label})).read(AT, named(3))
    assert not reading.samples
    assert reading.rejected == {"unmatched": 2}
    assert words in reading.problems["cpu"]
    assert "BALLAST_TELEMETRY__NODE_LABEL" in reading.problems["cpu"]


def test_with_a_node_selector_series_of_other_nodes_are_expected(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        other = ({"instance": "node-0.other.domain:9100"}, time if "timestamp(" in query else 0.9)
        return [*healthy(query, time), other]

    FakePrometheus(evaluate).serve(wire)
    reading = source().read(AT, NodeNames(nodes(1), selecting=True))
    assert reading.samples["cpu"].values.tolist() == [0.25]
    assert not reading.rejected
    assert not reading.strangers
    assert not reading.problems


def test_with_a_node_selector_an_answer_without_any_of_its_nodes_is_a_problem(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: [({"instance": "node-0.x"}, time if "timestamp(" in query else 0.5)]).serve(wire)
    chosen = settings().model_copy(update={"cluster": ClusterSettings(node_selector="pool=gpu")})
    reading = source(chosen).read(AT, NodeNames(nodes(3), selecting=True))
    assert not reading.samples
    assert "BALLAST_TELEMETRY__NODE_REWRITE" in reading.problems["cpu"]


def test_an_empty_answer_is_a_problem_not_a_success(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: healthy(query, time) if "timestamp(" in query else []).serve(wire)
    metrics = Metrics()
    reading = source(metrics=metrics).read(AT, named(3))
    assert "gives no series" in reading.problems["cpu"]
    assert counted(metrics, "ballast_queries_total", resource="cpu", result="empty") == 1


@pytest.mark.parametrize("values", [[42, 42, 42], [3.1, 4.2, 9.0], [0.4, 1.6, 1.7]])
@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_percent_instead_of_ratios_is_refused_as_a_whole(
    values: list[float], resource: str, wire: RequestsMock
) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        rows = healthy(query, time)
        return rows if "timestamp(" in query else [(rows[index][0], value) for index, value in enumerate(values)]

    FakePrometheus(evaluate).serve(wire)
    reading = source(settings({"resources": resource})).read(AT, named(3))
    assert not reading.samples
    assert "look like percent; divide by 100" in reading.problems[resource]


@pytest.mark.parametrize("label", ["prometheus_replica", "replica"])
@pytest.mark.parametrize(
    ("dead", "alive", "counts"),
    [(0.8, 0.2, 0.2), (0.2, 0.8, 0.8), ("NaN", 0.2, 0.2), (42, 0.2, 0.2), (0.8, "NaN", None), (0.8, 1e9, None)],
)
def test_the_newest_replica_counts(
    label: str, dead: object, alive: object, counts: float | None, wire: RequestsMock
) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        fresh = "timestamp(" in query
        return [
            *by_instance(time - 200 if fresh else dead, 3, **{label: "a"}),
            *by_instance(time - 5 if fresh else alive, 3, **{label: "b"}),
        ]

    FakePrometheus(evaluate).serve(wire)
    watcher = source(settings({"resources": "memory"}))
    past = list(watcher.backfill(AT - 60, AT - 30, 30, named(3)))
    for reading in [*past, watcher.read(AT, named(3))]:
        if counts is None:
            assert "memory" not in reading.samples or not reading.samples["memory"].rows.size
        else:
            assert reading.samples["memory"].values.tolist() == [counts] * 3
            assert reading.samples["memory"].times.tolist() == [reading.at - 5] * 3


def test_of_equally_new_replicas_the_largest_counts(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        pairs = (("a", 0.3), ("b", 0.4))
        return [
            one
            for name, value in pairs
            for one in by_instance(time - 5 if "timestamp(" in query else value, 3, replica=name)
        ]

    FakePrometheus(evaluate).serve(wire)
    assert source(settings({"resources": "cpu"})).read(AT, named(3)).samples["cpu"].values.tolist() == [0.4] * 3


@pytest.mark.parametrize("wild", [1.6, 7 / 4, 42.0, 1e9])
@pytest.mark.parametrize(("count", "liars"), [(3, 1), (8, 1), (10, 4), (20, 2)])
def test_a_minority_in_another_unit_is_unreadable_for_itself_alone(
    wild: float, count: int, liars: int, wire: RequestsMock
) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        rows = by_instance(time - 5 if "timestamp(" in query else 0.25, count)
        return rows if "timestamp(" in query else [(rows[row][0], wild) for row in range(liars)] + rows[liars:]

    FakePrometheus(evaluate).serve(wire)
    reading = source(settings({"resources": "cpu"})).read(AT, named(count))
    assert not reading.problems
    assert reading.rejected == {"unreadable": liars}
    assert reading.samples["cpu"].rows.tolist() == list(range(liars, count))
    assert set(reading.samples["cpu"].values.tolist()) == {0.25}


def test_a_little_more_than_everything_counts_and_one_wild_value_does_not(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        rows = by_instance(time - 5 if "timestamp(" in query else 1.02, 20)
        return rows if "timestamp(" in query else [(rows[0][0], 1.06), (rows[1][0], 1.05), *rows[2:]]

    FakePrometheus(evaluate).serve(wire)
    reading = source(settings({"resources": "cpu"})).read(AT, named(20))
    assert reading.rejected == {"unreadable": 1}
    assert sorted(set(reading.samples["cpu"].values.tolist())) == [1.02, 1.05]
    assert reading.impossible == {"node-0": "its cpu would be 1.06, where 0 to 1.05 can be"}
    assert not reading.warnings


def test_other_ratios_above_one_and_a_half_are_warned_about(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: by_instance(time - 5 if "timestamp(" in query else 2.5)).serve(wire)
    reading = source(settings({"resources": "disk"})).read(AT, named(3))
    assert reading.samples["disk"].values.tolist() == [2.5] * 3
    assert reading.warnings == ("disk goes above 1.5; ratios 0..1 are expected, values above 10 do not count",)


def test_histograms_and_nonsense_are_unreadable(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        good = healthy(query, time)
        return good if "timestamp(" in query else [good[0], (good[1][0], "much"), (good[2][0], "NaN")]

    FakePrometheus(evaluate).serve(wire)
    reading = source(settings({"resources": "cpu"})).read(AT, named(3))
    assert reading.samples["cpu"].rows.tolist() == [0]
    assert reading.rejected == {"unreadable": 1, "non_finite": 1}


def gpu(**more: str) -> Settings:
    return settings({"resources": {"gpu": {"query": "gpu_busy", "node_label": "Hostname", **more}, "cpu": {}}})


def test_a_plain_selector_brings_its_own_timestamp(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "gpu_busy" in query and "node_memory" in query:
            return [
                ({"Hostname": "node-0", "ballast_group": "0"}, time - 1),
                *[({**labels, "ballast_group": "1"}, time - 2) for labels, _ in by_instance(0)],
            ]
        return [({"Hostname": "node-0"}, 0.7)] if query == "gpu_busy" else healthy(query, time)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    reading = source(gpu()).read(AT, named(3))
    assert reading.queries == 3
    assert any("timestamp(gpu_busy)" in query and " or " in query for query in prometheus.queries)
    assert reading.samples["gpu"].times.tolist() == [AT - 1]
    assert reading.samples["cpu"].times.tolist() == [AT - 2] * 3


def test_one_bad_freshness_costs_its_resource_only(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "oops(" in query:
            raise QueryRefused(400, "unknown function oops")
        return healthy(query, time)

    FakePrometheus(evaluate).serve(wire)
    reading = source(gpu(freshness="oops(gpu_busy)")).read(AT, named(3))
    assert "unknown function oops" in reading.problems["gpu"]
    assert len(reading.samples["cpu"].rows) == 3


def test_one_common_freshness_is_asked_once(wire: RequestsMock) -> None:
    common = "max by (instance) (timestamp(up))"
    resources = {
        name: {"query": f"sum by (instance) ({name}_busy)", "freshness": common} for name in ("gpu", "cpu", "memory")
    }
    prometheus = FakePrometheus(healthy)
    prometheus.serve(wire)
    reading = source(settings({"resources": resources})).read(AT, named(3))
    assert len(prometheus.queries) == reading.queries == 4
    assert prometheus.queries.count(common) == 1


def test_a_computed_query_without_freshness_is_refused_by_name(wire: RequestsMock) -> None:
    FakePrometheus(healthy).serve(wire)
    reading = source(settings({"resources": {"gpu": {"query": "avg(gpu_busy)"}, "cpu": {}}})).read(AT, named(3))
    assert "BALLAST_TELEMETRY__RESOURCES" in reading.problems["gpu"]
    assert "freshness" in reading.problems["gpu"]
    assert set(reading.samples) == {"cpu"}


def test_a_preset_by_another_label_reads_the_same_nodes(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        group = {"ballast_group": "0"} if "ballast_group" in query else {}
        by_label: list[Series] = [
            ({"nodename": f"node-{index}", **group}, value) for index, (_, value) in enumerate(healthy(query, time))
        ]
        if not group:
            return by_label if "by (nodename" in query else healthy(query, time)
        return [*by_label, *[({**labels, "ballast_group": "1"}, value) for labels, value in healthy(query, time)]]

    FakePrometheus(evaluate).serve(wire)
    resources = {"cpu": {"node_label": "nodename"}, "memory": {}}
    reading = source(settings({"resources": resources})).read(AT, named(3))
    assert not reading.problems
    assert reading.queries == 3
    assert reading.samples["cpu"].times.tolist() == reading.samples["memory"].times.tolist() == [AT - 5] * 3


def test_the_freshness_of_the_same_exporter_counts(wire: RequestsMock) -> None:
    """A kubelet on another port of the node must not hide that node_exporter is silent."""

    def evaluate(query: str, time: float) -> list[Series]:
        if "timestamp(" in query:
            return [({"instance": "10.0.0.0:9100"}, time - 200), ({"instance": "10.0.0.0:10250"}, time)]
        return by_instance(0.25, 1)

    FakePrometheus(evaluate).serve(wire)
    assert source().read(AT, named(3)).rejected == {"stale": 2}


def test_link_speeds_from_the_setting(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "timestamp(" in query:
            return healthy(query, time)
        known, *others = by_instance(25e6)
        return [(known[0], 0.5), *[({**labels, "ballast_unit": "bytes"}, value) for labels, value in others]]

    FakePrometheus(evaluate).serve(wire)
    chosen = settings({"resources": "network", "network_speed": {"node-1": "1Gbit"}})
    samples = source(chosen).read(AT, named(3)).samples["network"]
    assert samples.rows.tolist() == [0, 1]
    assert samples.values.tolist() == [0.5, 0.2]


def test_a_source_without_an_address_says_which_setting_is_missing() -> None:
    with pytest.raises(SettingsError, match="BALLAST_PROMETHEUS__URL"):
        source(settings(prometheus={"url": None}))


def test_a_closed_source_fails_quietly(wire: RequestsMock) -> None:
    FakePrometheus(healthy).serve(wire)
    watcher = source()
    watcher.close()
    reading = watcher.read(AT, named(3))
    assert reading.problems == {"cpu": "stopped", "memory": "stopped"}


def test_a_path_prefix_is_kept(wire: RequestsMock) -> None:
    prometheus = FakePrometheus(healthy)
    wire.add_callback("POST", f"{URL}/select/0/api/v1/query", callback=prometheus._instant)
    reading = source(settings(prometheus={"url": f"{URL}/select/0/"})).read(AT, named(3))
    assert not reading.problems
