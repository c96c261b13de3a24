"""What others write under Ballast's keys: nothing of it stays, none of it is better than the truth, all is named."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ballast.publishing.contention import QUIET
from ballast.publishing.freeze import Freeze
from tests.unit.publishing import test_publisher
from tests.unit.publishing.test_publisher import OURS, THEIRS, Stand
from tests.unit.publishing.worlds import KEYS, snapshot_of

FAR = "2099-01-01T00:00:00Z"


def claiming(by: str, end: str = FAR) -> dict[str, Any]:
    return {"annotations": {KEYS.window: json.dumps({"by": by, "cpu": {"mean": 0.0}, "end": end, "v": 1})}}


BEST = {"labels": {KEYS.score: "24", KEYS.load: "low"}}
SHAPES: Mapping[str, dict[str, Any]] = {
    "score": {"labels": {KEYS.score: "24"}},
    "score out of range": {"labels": {KEYS.score: "1000"}},
    "class": {"labels": {KEYS.load: "low"}},
    "both": BEST,
    "annotation of nobody": {"annotations": {KEYS.window: "[["}},
    "annotation of us": claiming(""),
    "annotation of another": {**BEST, **claiming("kube-system/<img src=x>")},
    "annotation of now": {**BEST, **claiming("ballast/ballast", "2023-11-14T22:20:00Z")},
    "removed": {"labels": {KEYS.score: None, KEYS.load: None}, "annotations": {KEYS.window: None}},
    "no longer overloaded": {"spec": {"taints": [THEIRS]}},
    "all": {**BEST, **claiming("b/ballast"), "spec": {"taints": []}},
}
TRUE_SCORE = 1
LOADED = 0.95


def forge(stand: Stand, shape: dict[str, Any], manager: str) -> None:
    """A patch by this field manager."""
    metadata = {key: value for key, value in shape.items() if key != "spec"}
    body = {"metadata": metadata, **({"spec": shape["spec"]} if "spec" in shape else {})}
    stand.api.request("PATCH", "/api/v1/nodes/a", body=body)
    written = {f"f:{kind}": {f"f:{key}": {} for key in keys} for kind, keys in metadata.items()}
    stand.api.objects["/api/v1/nodes/a"]["metadata"]["managedFields"] = [
        {"manager": manager, "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:metadata": written}}
    ]
    stand.see()


def assert_no_better(stand: Stand, foreign: Mapping[str, Any]) -> None:
    labels = stand.labels("a")
    assert int(labels.get(KEYS.score, 0)) <= TRUE_SCORE
    assert labels.get(KEYS.load, "unknown") in ("high", "unknown")
    assert OURS in stand.taints("a")
    annotations = stand.api.objects["/api/v1/nodes/a"]["metadata"].get("annotations", {})
    theirs = foreign.get("annotations", {}).get(KEYS.window)
    assert theirs is None or annotations.get(KEYS.window) != theirs


@pytest.mark.parametrize("manager", ["kubelet", "kubectl-edit", "ballast"])
@pytest.mark.parametrize("times", [1, 2, 3, 30])
@pytest.mark.parametrize("name", SHAPES)
def test_a_forged_value_is_gone_after_a_cycle_and_named(name: str, times: int, manager: str) -> None:
    stand = Stand("a", "b", taint=True)
    for _ in range(4):
        stand.round(LOADED)
        stand.see()
    assert (stand.labels("a")[KEYS.score], stand.labels("a")[KEYS.load]) == (str(TRUE_SCORE), "high")
    patches = 0
    for _ in range(times):
        before = len(stand.api.writes)
        forge(stand, SHAPES[name], manager)
        stand.round(LOADED)
        patches += len(stand.api.writes) - before - 1
        assert_no_better(stand, SHAPES[name])
        said = stand.publisher.contended() or ""
        assert "taint on a" in said
        assert "b/ballast" not in said
        assert ("another writer (" + manager in said) is (manager != "ballast" and name != "no longer overloaded")
        stand.see()
        assert stand.round(LOADED).failed == 0
        assert_no_better(stand, SHAPES[name])
        stand.see()
    assert patches <= 2 * times, "one of labels and one of taints against each"
    assert stand.labels("b")[KEYS.score] == str(TRUE_SCORE)
    for _ in range(int(QUIET // 30) + 1):
        stand.round(LOADED)
        stand.see()
    assert stand.publisher.contended() is None
    assert stand.labels("a") == stand.labels("b")
    assert OURS in stand.taints("a")


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("name", SHAPES)
def test_nor_does_it_stay_while_nothing_is_published(name: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand("a", "b", taint=True)
    for _ in range(4):
        stand.round(LOADED)
        stand.see()
    frozen = Freeze(max_unknown=0.2, forget_after=3600.0, since=stand.clock.monotonic())
    monkeypatch.setattr(test_publisher, "CALM", frozen)
    for _ in range(times):
        forge(stand, SHAPES[name], "kubelet")
        stand.round(None)
        assert_no_better(stand, SHAPES[name])
        stand.see()
        stand.round(None)
        assert_no_better(stand, SHAPES[name])
        stand.see()
    assert stand.labels("b") == {KEYS.score: str(TRUE_SCORE), KEYS.load: "high"}, "what is not forged stays"


def test_an_unscored_node_keeps_no_forged_score() -> None:
    stand = Stand("a")
    stand.round(LOADED)
    stand.see()
    forge(stand, BEST, "kubelet")
    stand.clock.advance(30.0)
    snapshot = snapshot_of({"a": (LOADED, 0.1)}, at=stand.clock.wall())
    stand.publisher.round(snapshot, {"a": None}, test_publisher.CALM, stand.cached.get)
    assert stand.labels("a") == {KEYS.load: "unknown"}


@pytest.mark.parametrize("manager", ["kubelet", "ballast", "anything"])
@pytest.mark.parametrize("load", [0.1, LOADED])
def test_a_label_that_is_put_back_each_time_stands_on_a_tainted_node_only(load: float, manager: str) -> None:
    """50 ms after each patch, whatever the setting of the taint says."""
    stand = Stand("a", "b")
    stand.round(load)
    stand.see()
    untainted = 0
    for _ in range(20):
        forge(stand, BEST, manager)
        untainted += OURS not in stand.taints("a")
        stand.round(load, later=5.0)
        stand.see()
    assert untainted == 1, "until the first round"
    assert OURS not in stand.taints("b")
    assert "a" in (stand.publisher.contended() or "")
    for _ in range(int(QUIET // 30) - 1):
        stand.round(load)
        stand.see()
        assert OURS in stand.taints("a")
    for _ in range(2):
        stand.round(load)
        stand.see()
    assert OURS not in stand.taints("a")
    assert stand.labels("a") == stand.labels("b")


def test_the_first_foreign_write_is_answered_at_once_and_no_write_of_our_own() -> None:
    stand = Stand("a", "b")
    alarms: list[float] = []
    stand.publisher.alarm = lambda: alarms.append(stand.clock.monotonic())
    for load in (0.1, 0.1, 0.9, 0.2):
        stand.round(load, later=700.0)
        stand.see()
        for node in stand.cached.values():
            stand.publisher.noticed(node)
    assert not alarms
    forge(stand, BEST, "kubelet")
    for _ in range(3):
        stand.publisher.noticed(stand.cached["a"])
    assert len(alarms) == 1
    for _ in range(5):
        stand.round(0.2, later=1.0)
        assert OURS in stand.taints("a")
        stand.see()
        forge(stand, BEST, "kubelet")
        stand.publisher.noticed(stand.cached["a"])
    assert len(alarms) == 1, "the taint is there already"


def test_a_contended_node_that_is_not_known_keeps_the_taint_until_it_is() -> None:
    stand = Stand("a", "b", "c", "d", "e", "f")
    stand.round(0.1)
    stand.see()
    forge(stand, BEST, "kubelet")
    for _ in range(int(QUIET // 30)):
        stand.round(0.1, a=None)
        stand.see()
        assert stand.labels("a") == {KEYS.load: "unknown"}
        assert OURS in stand.taints("a")
    for _ in range(2):
        stand.round(0.1)
        stand.see()
    assert OURS not in stand.taints("a")
