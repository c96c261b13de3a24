"""The whole daemon with other strategies than its own: labels, metrics, page and extender agree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ballast.scoring.strategy import NAMES
from tests.unit.daemon.rig import SCORE, Rig, get, metric, until
from tests.unit.daemon.test_scheduling import ask, chosen, waiting

FOR_LABELS = sorted(set(NAMES) - {"balanced", "dynamic"})


def keys(calm: Rig) -> str:
    model = {name: {"k0": 100, "k1": 20, "k2": 0.01 + 0.001 * row} for row, name in enumerate(calm.names)}
    return json.dumps({"peaks": {"node_power_model": model}})


def nodes(daemon: Any) -> dict[str, Any]:
    return {node["name"]: node for node in get(daemon, "/api/v1/nodes").json()["nodes"]}


@pytest.mark.parametrize("name", FOR_LABELS)
def test_labels_metrics_and_page_show_the_scores_of_one_strategy(calm: Rig, name: str) -> None:
    daemon = calm.settled(PUBLISHING__STRATEGY=name, SCORING__KEYS=keys(calm))
    shown = nodes(daemon)
    for node in calm.names:
        score = shown[node]["score"]
        assert metric(daemon, f'ballast_node_score{{node="{node}"}}') == score
        assert abs(int(calm.own(node)[SCORE]) - score / 10) <= 0.8
    assert daemon.board.scores == daemon.extending.node_scores(name)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"dynamic"}))
def test_the_extender_goes_by_any_strategy(calm: Rig, name: str) -> None:
    daemon = calm.daemon(EXTENDER__STRATEGY=name, SCORING__KEYS=keys(calm))
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
    daemon.extending._pods_age = lambda: 1_000.0
    calm.cycle(daemon, 3)
    assert calm.published() == before
    calm.cycle(daemon, 3)
    assert all(SCORE not in own and "ballast.dev/load" in own for own in calm.published().values())


def test_the_scores_of_a_pod_are_those_its_scheduler_gets(calm: Rig) -> None:
    daemon = calm.settled()
    pod = waiting(calm, "asks", "1")
    until(lambda: any(each.uid == pod["metadata"]["uid"] for each in daemon.cache.pods()), "the pod is seen")
    found = get(daemon, "/api/v1/pods/default/asks/scores").json()
    assert [each["strategy"] for each in found["strategies"]] == ["blend", "dominant-residual", "load-variation"]
    assert sorted(found["strategies"][0]["scores"]) == calm.names
    assert get(daemon, "/api/v1/pods/default/nobody/scores").status_code == 404
