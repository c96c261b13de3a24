import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.telemetry.mixing import exactly
from ballast.telemetry.queries import Query, is_plain_selector, join_queries, questions
from tests.properties import examples
from tests.unit.telemetry.fake_prometheus import settings


@pytest.mark.parametrize(
    "query",
    [
        "up",
        " up ",
        "instance:node_cpu:ratio",
        'up{a="b"}',
        '{__name__="up"}',
        r"""up {a="}\"{", b=~`x{2}`, c!='y'}""",
        "up{}",
    ],
)
def test_plain_selectors(query: str) -> None:
    assert is_plain_selector(query)
    assert isinstance(promql_parser.parse(query), promql_parser.VectorSelector)


@pytest.mark.parametrize(
    "query", ["", "{}", "1", "-up", "up + 1", "sum(up)", "rate(up[5m])", "up[5m]", 'up{a="b"} or x', "(up)"]
)
def test_everything_else_hides_the_time_of_its_samples(query: str) -> None:
    assert not is_plain_selector(query)


def test_several_freshness_expressions_become_one_query() -> None:
    assert join_queries(["a"]) == "a"
    text = join_queries(["timestamp(a)", "max by (x) (timestamp(b))"])
    promql_parser.parse(text)
    assert text == (
        'label_replace(timestamp(a), "ballast_group", "0", "", "") or '
        'label_replace(max by (x) (timestamp(b)), "ballast_group", "1", "", "")'
    )


def test_known_resources_come_from_the_preset_unless_overridden() -> None:
    chosen = settings({"resources": {"cpu": {}, "memory": {"query": "mine", "node_label": "node"}}})
    cpu, memory = questions(chosen).asked
    assert "node_cpu_seconds_total" in cpu.query
    assert cpu.label == "instance"
    assert (memory.query, memory.label, memory.freshness) == ("mine", "node", "timestamp(mine)")


@pytest.mark.parametrize("preset", ["node-exporter", "kube-prometheus"])
def test_the_preset_of_a_resource_may_name_nodes_by_another_label(preset: str) -> None:
    resources = {"cpu": {"node_label": "nodename"}, "memory": {}}
    cpu, memory = questions(settings({"resources": resources}, {"preset": preset})).asked
    assert cpu.label == "nodename"
    assert cpu.query.startswith("max by (nodename, cluster, prometheus_replica, replica) (")
    assert (
        cpu.freshness
        == "max by (nodename, cluster, prometheus_replica, replica) (timestamp(node_memory_MemTotal_bytes))"
    )
    assert memory.query.startswith("max by (instance, cluster, prometheus_replica, replica) (")
    assert (
        memory.freshness
        == "max by (instance, cluster, prometheus_replica, replica) (timestamp(node_memory_MemTotal_bytes))"
    )


def test_the_preset_of_a_resource_may_have_another_freshness() -> None:
    chosen = settings({"resources": {"cpu": {"freshness": "max by (instance) (timestamp(up))"}, "memory": {}}})
    assert questions(chosen).freshness == (
        "max by (instance) (timestamp(up))",
        "max by (instance, cluster, prometheus_replica, replica) (timestamp(node_memory_MemTotal_bytes))",
    )


@pytest.mark.parametrize(
    ("query", "span"),
    [
        ("node_load1", 0.0),
        ('up{job="x[5m]"}', 0.0),
        ("sum(rate(a[90s])) / sum(increase(b[1h30m]))", 5400.0),
        ("max_over_time(rate(a[2m])[10m:30s])", 600.0),
        ("instance:node_cpu:ratio", 300.0),
    ],
)
def test_a_query_tells_how_much_of_the_past_its_values_are_about(query: str, span: float) -> None:
    assert Query("cpu", query, ("instance",), "").span == span


@examples(200)
@given(st.text(max_size=20))
def test_any_value_of_a_label_stands_in_a_matcher_on_one_line(value: str) -> None:
    matcher = exactly("job", value)
    assert len(f"a{matcher}b".splitlines()) == 1
    assert matcher.isprintable()
    [found] = promql_parser.parse(f"up{{{matcher}}}").matchers.matchers
    assert found.value == value


@pytest.mark.parametrize(
    ("value", "matcher"),
    [
        ("a\nb", r'job="a\u000ab"'),
        ('a"\\', r'job="a\"\\"'),
        ("\u202e\U000e0001", r'job="\u202e\U000e0001"'),
        ("\ud800\ufffd", r'job="\ufffd\ufffd"'),
        ("日本 é", 'job="日本 é"'),
    ],
)
def test_what_is_not_printable_is_escaped(value: str, matcher: str) -> None:
    assert exactly("job", value) == matcher
