import gzip
import math

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from ballast.base.metrics import Metrics
from ballast.model.node_state import NodeState
from ballast.serving.board import Board
from ballast.serving.exposition import Exposition, exported_names
from tests.unit.serving.client import ask
from tests.worlds.board import board_of, serving, snapshot

NAN = float("nan")
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(families: list[Metric]) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def parsed(text: str) -> Series:
    return series(list(text_string_to_metric_families(text)))


def of_nodes(found: Series) -> Series:
    return {key: value for key, value in found.items() if key[0].startswith("ballast_node_")}


def mixed() -> Board:
    taken = snapshot(
        [[0.25, NAN, 1e-9], [0.5, NAN, 0.0]], [[0.125, NAN, 0.0], [0.1, NAN, 0.0]], names=["a", "dark", 'q"\\']
    )
    board = board_of(taken, scores={"a": 70, "dark": None, 'q"\\': 100})
    board.leader = lambda: True
    return board


def test_nodes_are_exposed_by_resource_and_window() -> None:
    with serving(mixed()) as port:
        answer = ask(port, "/metrics")
    found = parsed(answer.body.decode())
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for window in ("15m", "10m", "5m"):
        labels = (("node", "a"), ("resource", "cpu"), ("window", window))
        assert found["ballast_node_load_mean", labels] == 0.25
        assert found["ballast_node_load_stddev", labels] == 0.125
        assert found["ballast_node_load_p95", labels] == 0.5
    assert found["ballast_node_score", (("node", "a"),)] == 70
    assert found["ballast_node_score", (("node", 'q"\\'),)] == 100
    assert sum(found["ballast_nodes", (("state", state),)] for state in NodeState) == 3
    assert found["ballast_nodes_unknown", ()] == 1
    assert found["ballast_snapshot_age_seconds", ()] == 15
    assert found["ballast_leader", ()] == 1


def test_an_unknown_node_has_no_sample() -> None:
    with serving(mixed()) as port:
        found = of_nodes(parsed(ask(port, "/metrics").body.decode()))
    assert not [key for key in found if ("node", "dark") in key[1]]
    assert all(map(math.isfinite, found.values()))


def test_without_a_snapshot_nothing_is_said_about_nodes() -> None:
    with serving(Board()) as port:
        found = parsed(ask(port, "/metrics").body.decode())
    names = {name for name, _ in found}
    assert not names & {"ballast_nodes", "ballast_nodes_unknown", "ballast_snapshot_age_seconds", "ballast_node_score"}
    assert found["ballast_leader", ()] == 0


def test_openmetrics_on_request_says_the_same() -> None:
    with serving(mixed()) as port:
        plain = parsed(ask(port, "/metrics").body.decode())
        answer = ask(port, "/metrics", accept=OPENMETRICS)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    text = answer.body.decode()
    assert text.count("# EOF") == 1
    found = series(list(openmetrics_parser.text_string_to_metric_families(text)))
    assert of_nodes(found) == of_nodes(plain)


def test_gzip_is_taken_where_offered() -> None:
    with serving(mixed()) as port:
        answer = ask(port, "/metrics", accept_encoding="gzip")
        assert "content-encoding" not in ask(port, "/metrics").headers
    assert answer.headers["content-encoding"] == "gzip"
    assert b'ballast_nodes{state="known"} 2.0' in gzip.decompress(answer.body)


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_every_name_that_appears_is_an_exported_name(accept: str) -> None:
    metrics = Metrics()
    metrics.queries.labels("cpu", "ok").inc()
    metrics.cycle_seconds.labels("telemetry").observe(0.2)
    body, _ = Exposition(mixed(), metrics).render(accept)
    parse = openmetrics_parser.text_string_to_metric_families if accept else text_string_to_metric_families
    names = {name for name, _ in series(list(parse(body.decode()))) if not name.endswith("_created")}
    assert names <= exported_names()
    assert {"ballast_queries_total", "ballast_cycle_seconds_bucket", "ballast_node_load_mean"} <= exported_names()


def test_a_follower_and_a_level_decide_what_is_shown_of_nodes() -> None:
    def shown(level: str, *, leads: bool) -> Series:
        board = mixed()
        board.node_metrics, board.leader = level, lambda: leads
        with serving(board) as port:
            return parsed(ask(port, "/metrics").body.decode())

    by_leader = of_nodes(shown("primary", leads=True))
    assert len([key for key in by_leader if ("node", "a") in key[1]]) == 5
    assert {dict(labels).get("window", "15m") for _, labels in by_leader} == {"15m"}
    assert not of_nodes(shown("primary", leads=False))
    assert not of_nodes(shown("off", leads=True))
    assert len([key for key in of_nodes(shown("all", leads=False)) if ("node", "a") in key[1]]) == 19


def test_the_distribution_of_loads_is_shown_by_every_replica() -> None:
    board = mixed()
    board.node_metrics, board.leader = "primary", lambda: False
    with serving(board) as port:
        found = parsed(ask(port, "/metrics").body.decode())
    cumulative = [
        found["ballast_load_bucket", (("le", bound), ("resource", "cpu"))] for bound in ("0.1", "0.2", "0.3", "+Inf")
    ]
    assert cumulative == [1, 1, 2, 2]
    assert found["ballast_load_count", (("resource", "cpu"),)] == 2


def test_two_replicas_of_a_default_install_have_at_most_30_000_series_at_5_000_nodes() -> None:
    nodes, resources = 5_000, 2
    taken = snapshot([[0.25] * nodes] * resources, [[0.1] * nodes] * resources, names=[f"n{i}" for i in range(nodes)])
    sums = 0
    for leads in (True, False):
        board = board_of(taken, scores=dict.fromkeys((node.name for node in taken.nodes), 50))
        board.node_metrics, board.leader = "primary", lambda leads=leads: leads  # type: ignore[misc]
        with serving(board) as port:
            text = ask(port, "/metrics").body.decode()
        sums += sum(bool(line) and not line.startswith("#") for line in text.splitlines())
    assert 5 * nodes < sums <= 30_000
