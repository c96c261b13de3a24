"""The whole daemon with other strategies than its own: labels, metrics, page and extender agree."""

import json
import re
from typing import Any

import pytest

from ballast.scoring import crane
from ballast.scoring.strategy import NAMES
from ballast.windows import band
from ballast_lab.harness.waiting import until
from tests.unit.daemon.test_scheduling import ask, chosen, waiting
from tests.worlds.daemons import SCORE, Rig, get, metric

pytestmark = pytest.mark.slow

FOR_LABELS = sorted(set(NAMES) - {"balanced", "dynamic"})


def given(calm: Rig) -> dict[str, str]:
    """What every strategy can do with: the keys that it needs, and all that the world measures."""
    model = {name: {"k0": 100, "k1": 20, "k2": 0.01 + 0.001 * row} for row, name in enumerate(calm.names)}
    return {
        "SCORING__KEYS": json.dumps({"peaks": {"node_power_model": model}}),
        "TELEMETRY__RESOURCES": "cpu,memory,network,disk",
    }


def nodes(daemon: Any) -> dict[str, Any]:
    return {node["name"]: node for node in get(daemon, "/api/v1/nodes").json()["nodes"]}


@pytest.mark.parametrize("name", FOR_LABELS)
def test_labels_metrics_and_page_show_the_scores_of_one_strategy(calm: Rig, name: str) -> None:
    daemon = calm.settled(PUBLISHING__STRATEGY=name, **given(calm))
    shown = nodes(daemon)
    for_labels = daemon.extender.label_scores(name)
    for node in calm.names:
        score = shown[node]["score"]
        assert metric(daemon, f'ballast_node_score{{node="{node}"}}') == score
        assert int(calm.own(node)[SCORE]) == band.label_of(for_labels[node])
        assert shown[node]["published"]["score"] == calm.own(node)[SCORE]
    assert daemon.board.scores == daemon.extender.node_scores(name)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"dynamic"}))
def test_the_extender_goes_by_any_strategy(calm: Rig, name: str) -> None:
    daemon = calm.daemon(EXTENDER__STRATEGY=name, **given(calm))
    best = chosen(ask(daemon, calm.names))
    assert chosen(ask(daemon, calm.names, f"?profile={name}")) == best


def test_a_node_the_strategy_knows_nothing_of_has_no_score_but_a_class(calm: Rig) -> None:
    first = calm.names[0]
    model = {"peaks": {"node_power_model": {name: {"k1": 20, "k2": 0.01} for name in calm.names if name != first}}}
    daemon = calm.settled(PUBLISHING__STRATEGY="peaks", SCORING__KEYS=json.dumps(model))
    assert nodes(daemon)[first]["score"] is None
    assert SCORE not in calm.own(first)
    assert calm.own(first)["ballast.dev/load"] in ("low", "normal", "high")
    assert SCORE in calm.own(calm.names[1])


def test_a_score_that_is_no_longer_known_stays_for_forget_after(calm: Rig) -> None:
    daemon = calm.settled(PUBLISHING__STRATEGY="least-allocated", PUBLISHING__FORGET_AFTER="2m")
    before = calm.published()
    daemon.extender._pods_age = lambda: 1_000.0
    calm.cycle(daemon, 3)
    assert calm.published() == before
    calm.cycle(daemon, 3)
    assert all(SCORE not in own and "ballast.dev/load" in own for own in calm.published().values())


def test_the_scores_of_a_pod_are_those_its_scheduler_gets(calm: Rig) -> None:
    daemon = calm.settled()
    pod = waiting(calm, "asks", "1")
    until(lambda: any(each.uid == pod["metadata"]["uid"] for each in daemon.context.cache.pods()), "the pod is seen")
    found = get(daemon, "/api/v1/pods/default/asks/scores").json()
    assert [each["strategy"] for each in found["strategies"]] == ["load-aware", "load-variation", "dominant-residual"]
    assert sorted(found["strategies"][0]["scores"]) == calm.names
    assert get(daemon, "/api/v1/pods/default/nobody/scores").status_code == 404


def annotations(calm: Rig, node: str) -> dict[str, str]:
    found: dict[str, str] = calm.node(node)["metadata"].get("annotations", {})
    return {key: value for key, value in found.items() if "/" not in key}


def crane_round(calm: Rig, daemon: Any, cycles: int = 1) -> str:
    for _ in range(cycles):
        calm.cycle(daemon)
        calm.seen(daemon)
        sentence: str = daemon.scheduler.run("crane").sentence
    return sentence


def test_crane_s_annotations_are_there_at_once_with_the_past_from_prometheus(calm: Rig) -> None:
    daemon = calm.daemon(PUBLISHING__CRANE="true")
    assert crane_round(calm, daemon).startswith("wrote crane's annotations of 10 of 10 nodes, 0 unknown")
    policy = crane.parse_policy(crane.DEFAULT_POLICY)
    zone = crane.time_zone("Asia/Shanghai")
    loads = nodes(daemon)
    for name in calm.names:
        carried = annotations(calm, name)
        assert set(carried) == set(policy.keys)
        for key, text in carried.items():
            number, _, stamp = text.partition(",")
            assert re.fullmatch(r"\d+" if key == "node_hot_value" else r"\d+\.\d{5}", number)
            assert 0 <= calm.clock.wall() - (crane.unix(stamp, zone) or 0) <= 90, key
        assert float(carried["cpu_usage_max_avg_1d"].partition(",")[0]) >= 0.1 * loads[name]["load"]["cpu"]["mean"]
    assert metric(daemon, 'ballast_writes_total{kind="crane",result="done"}') == 10
    assert crane_round(calm, daemon).startswith("wrote crane's annotations of 0 of 10 nodes")


def test_in_dry_run_crane_is_told_nothing(calm: Rig) -> None:
    daemon = calm.daemon(PUBLISHING__CRANE="true", PUBLISHING__MODE="dry-run")
    assert crane_round(calm, daemon).startswith("would write crane's annotations of 10 of 10 nodes")
    assert crane_round(calm, daemon).startswith("would write crane's annotations of 0 of 10 nodes")
    assert not any(annotations(calm, name) for name in calm.names)


def test_crane_s_annotations_stop_with_the_rest(calm: Rig) -> None:
    daemon = calm.daemon(PUBLISHING__CRANE="true")
    crane_round(calm, daemon, 3)
    calm.faults.prometheus_down()
    calm.faults.metrics_server_missing()
    before = {name: annotations(calm, name) for name in calm.names}
    assert "publishing is frozen" in crane_round(calm, daemon, 20)
    assert {name: annotations(calm, name) for name in calm.names} == before
    calm.lose_lease(daemon)
    assert daemon.scheduler.run("crane").sentence.startswith("standing by")


def test_dynamic_reads_what_was_written_for_crane(calm: Rig) -> None:
    daemon = calm.daemon(PUBLISHING__CRANE="true", EXTENDER__STRATEGY="dynamic", PUBLISHING__STRATEGY="dynamic")
    crane_round(calm, daemon, 3)
    crane_round(calm, daemon, 3)
    shown = nodes(daemon)
    assert all(isinstance(shown[name]["score"], int) and SCORE in calm.own(name) for name in calm.names)
    best = chosen(ask(daemon, calm.names))
    assert shown[best]["score"] == max(shown[name]["score"] for name in calm.names)
