from __future__ import annotations

import json
from typing import Any

import pytest

from ballast.cluster.conditions import Conditions, SavedConditions
from ballast.cluster.state import LARGEST, StateStore
from ballast.cluster.write import Result
from ballast.errors import ClusterError
from ballast.metrics import Metrics
from tests.fakes import FakeClock
from tests.unit.cluster.fake_api import FakeApi
from tests.unit.cluster.test_writer import Rig

PATH = "/api/v1/namespaces/ns/configmaps/ballast-state"


@pytest.fixture
def rig() -> Rig:
    return Rig(FakeApi())


@pytest.fixture
def state(rig: Rig) -> StateStore:
    return StateStore(rig.api, rig.writer, "ns")


def test_it_is_created_with_a_schema_and_replaced_at_the_version_read(rig: Rig, state: StateStore) -> None:
    assert state.read() == {}
    assert state.update(lambda keys: {**keys, "a": "1"}, reason="test").done
    assert state.update(lambda keys: {**keys, "b": "2"}, reason="test").done
    assert state.read() == {"a": "1", "b": "2"}
    assert [method for method, _, _ in rig.api.writes] == ["POST", "PUT"]
    assert rig.api.writes[1][2]["metadata"]["resourceVersion"] == "101"
    assert rig.api.objects[PATH]["data"]["schema"] == "1"
    assert {body["kind"] for _, _, body in rig.api.writes} == {"ConfigMap"}


def test_with_nothing_to_change_nothing_is_sent(rig: Rig, state: StateStore) -> None:
    state.update(lambda keys: {"a": "1"}, reason="test")
    assert state.update(lambda keys: {"a": "1"}, reason="test").done
    assert len(rig.api.writes) == 1


def test_a_conflict_is_decided_anew_on_what_the_other_wrote(rig: Rig, state: StateStore) -> None:
    state.update(lambda keys: {"a": "1"}, reason="test")
    meddled: list[Any] = []

    def meddle(method: str, path: str, body: Any) -> None:
        if method == "PUT" and not meddled:
            meddled.append(body)
            rig.api._store(PATH, {**rig.api.objects[PATH], "data": {"a": "1", "other": "x", "schema": "1"}})

    rig.api.before = meddle
    assert state.update(lambda keys: {**keys, "b": "2"}, reason="test").done
    assert state.read() == {"a": "1", "other": "x", "b": "2"}


def test_a_replica_that_does_not_lead_cannot_write_it(rig: Rig, state: StateStore) -> None:
    rig.leads = False
    assert state.update(lambda keys: {"a": "1"}, reason="test").result is Result.REFUSED


def test_a_newer_schema_is_not_touched(rig: Rig, state: StateStore) -> None:
    rig.api._store(PATH, {"metadata": {"name": "ballast-state"}, "data": {"schema": "2"}})
    with pytest.raises(ClusterError, match="schema '2'"):
        state.update(lambda keys: {}, reason="test")


def test_conditions_keep_the_moment_their_status_changed() -> None:
    clock, metrics = FakeClock(), Metrics()
    conditions = Conditions(clock, metrics)
    conditions.clear("Stale")
    assert conditions.list() == ()
    conditions.set("Stale", "NoAnswer", "Prometheus is silent")
    since = conditions.list()[0].last_transition_time
    clock.advance(60)
    conditions.set("Stale", "NoAnswer", "Prometheus is still silent")
    assert conditions.list()[0].last_transition_time == since == "2023-11-14T22:13:20Z"
    assert metrics.registry.get_sample_value("ballast_condition", {"type": "Stale"}) == 1
    conditions.clear("Stale")
    assert conditions.list()[0].status == "False"
    assert conditions.list()[0].last_transition_time == "2023-11-14T22:14:20Z"
    assert metrics.registry.get_sample_value("ballast_condition", {"type": "Stale"}) == 0


def test_the_leader_saves_conditions_when_they_change(rig: Rig, state: StateStore) -> None:
    conditions = Conditions(rig.clock, rig.metrics)
    saved = SavedConditions(conditions, state, rig.clock)
    assert saved.save() is None
    conditions.set("Frozen", "TooManyUnknown", "30 % of the nodes are unknown")
    rig.leads = False
    assert saved.save().result is Result.REFUSED
    rig.leads = True
    assert saved.save().done
    assert saved.save() is None
    assert json.loads(state.read()["conditions"]) == [
        {
            "type": "Frozen",
            "status": "True",
            "reason": "TooManyUnknown",
            "message": "30 % of the nodes are unknown",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        }
    ]


def test_other_words_are_saved_at_most_once_a_minute(rig: Rig, state: StateStore) -> None:
    conditions = Conditions(rig.clock, rig.metrics)
    saved = SavedConditions(conditions, state, rig.clock)
    conditions.set("PartialAnswers", "Warnings", "shard 1 of 9 is away")
    assert saved.save().done
    conditions.set("PartialAnswers", "Warnings", "shard 2 of 9 is away")
    assert saved.save() is None
    rig.clock.advance(60)
    assert saved.save().done
    conditions.clear("PartialAnswers")
    assert saved.save().done


def test_a_message_has_an_end(rig: Rig) -> None:
    conditions = Conditions(rig.clock, rig.metrics)
    conditions.set("PartialAnswers", "Warnings", "x" * 5000)
    assert len(conditions.list()[0].message) == 1000


def test_a_part_that_grows_beyond_the_limit_cannot_save_and_others_can(state: StateStore) -> None:
    assert state.update(lambda keys: {"conditions": "[]"}, reason="t").done
    outcome = state.update(lambda keys: {**keys, "power-plan": "x" * LARGEST}, reason="t")
    assert outcome.result is Result.REFUSED
    assert "power-plan is the largest" in outcome.reason
    assert state.update(lambda keys: {**keys, "conditions": "[1]"}, reason="t").done
    assert state.read() == {"conditions": "[1]"}
