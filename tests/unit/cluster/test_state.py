import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import ClusterError, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions, SavedConditions
from ballast.cluster.state import NAME, NAMES, PART, PARTS, StateStore, join_parts, lay_out
from ballast.cluster.state import size as state_size
from ballast.cluster.write import Result
from tests.properties import examples
from tests.worlds.clock import FakeClock
from tests.worlds.writing import WriterRig

PATH = "/api/v1/namespaces/ns/configmaps/ballast-state"


@pytest.fixture
def rig() -> WriterRig:
    return WriterRig(modes={})


@pytest.fixture
def state(rig: WriterRig) -> StateStore:
    return StateStore(rig.api, rig.writer, "ns")


def test_it_is_created_with_a_schema_and_replaced_at_the_version_read(rig: WriterRig, state: StateStore) -> None:
    assert state.read() == {}
    assert state.update(lambda keys: {**keys, "a": "1"}, reason="test").done
    assert state.update(lambda keys: {**keys, "b": "2"}, reason="test").done
    assert state.read() == {"a": "1", "b": "2"}
    assert [method for method, _, _ in rig.api.writes] == ["POST", "PUT"]
    assert rig.api.writes[1][2]["metadata"]["resourceVersion"] == "101"
    assert rig.api.objects[PATH]["data"]["schema"] == "1"
    assert {body["kind"] for _, _, body in rig.api.writes} == {"ConfigMap"}


def test_with_nothing_to_change_nothing_is_sent(rig: WriterRig, state: StateStore) -> None:
    state.update(lambda keys: {"a": "1"}, reason="test")
    assert state.update(lambda keys: {"a": "1"}, reason="test").done
    assert len(rig.api.writes) == 1


def test_a_conflict_is_decided_again_on_what_the_other_wrote(rig: WriterRig, state: StateStore) -> None:
    state.update(lambda keys: {"a": "1"}, reason="test")
    meddled: list[Any] = []

    def meddle(method: str, path: str, body: Any) -> None:
        if method == "PUT" and not meddled:
            meddled.append(body)
            rig.api._store(PATH, {**rig.api.objects[PATH], "data": {"a": "1", "other": "x", "schema": "1"}})

    rig.api.before = meddle
    assert state.update(lambda keys: {**keys, "b": "2"}, reason="test").done
    assert state.read() == {"a": "1", "other": "x", "b": "2"}


def test_a_replica_that_does_not_lead_cannot_write_it(rig: WriterRig, state: StateStore) -> None:
    rig.leads = False
    assert state.update(lambda keys: {"a": "1"}, reason="test").result is Result.REFUSED


def test_a_newer_schema_is_not_touched(rig: WriterRig, state: StateStore) -> None:
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


def test_the_leader_saves_conditions_when_they_change(rig: WriterRig, state: StateStore) -> None:
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


def test_other_words_are_saved_at_most_once_a_minute(rig: WriterRig, state: StateStore) -> None:
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


def test_a_message_has_an_end(rig: WriterRig) -> None:
    conditions = Conditions(rig.clock, rig.metrics)
    conditions.set("PartialAnswers", "Warnings", "x" * 5000)
    assert len(conditions.list()[0].message) == 1000


def test_what_grows_beyond_all_parts_cannot_be_saved_and_the_rest_can(state: StateStore) -> None:
    assert state.update(lambda keys: {"conditions": "[]"}, reason="t").done
    outcome = state.update(lambda keys: {**keys, "power-plan": "x" * (PARTS * PART)}, reason="t")
    assert outcome.result is Result.REFUSED
    assert "power-plan is the largest" in outcome.reason
    assert state.update(lambda keys: {**keys, "conditions": "[1]"}, reason="t").done
    assert state.read() == {"conditions": "[1]"}


LARGE = {"power.plan.sun": "ä" * 700_000, "power.state.sun": "y" * 400_000, "conditions": "[]"}


def sizes(rig: WriterRig) -> dict[str, int]:
    found = {path.rpartition("/")[2]: each["data"] for path, each in rig.api.objects.items() if "configmaps" in path}
    return {name: sum(len(key) + len(text.encode()) for key, text in data.items()) for name, data in found.items()}


def test_a_large_state_lies_in_parts_and_is_read_whole(rig: WriterRig, state: StateStore) -> None:
    assert state.update(lambda keys: LARGE, reason="t").done
    assert state.read() == LARGE
    assert max(sizes(rig).values()) < 1_000_000
    assert len(sizes(rig)) > 1
    assert set(sizes(rig)) <= set(NAMES)
    assert rig.api.writes[-1][2]["metadata"]["name"] == NAME, "the first one is written last"


def test_a_reader_of_one_configmap_is_told_of_parts_and_survives_without(rig: WriterRig, state: StateStore) -> None:
    state.update(lambda keys: {"conditions": "[]"}, reason="t")
    assert rig.api.objects[PATH]["data"] == {"conditions": "[]", "schema": "1", "saves": "1"}
    state.update(lambda keys: LARGE, reason="t")
    assert rig.api.objects[PATH]["data"]["schema"] not in ("1", "2"), "it refuses any schema but its own"
    state.update(lambda keys: {"conditions": "[1]"}, reason="t")
    assert rig.api.objects[PATH]["data"] == {"conditions": "[1]", "schema": "1", "saves": "3"}
    assert sum(sizes(rig).values()) < 100, "the parts are empty again"


def test_a_state_of_one_full_configmap_goes_on_in_parts(rig: WriterRig, state: StateStore) -> None:
    before = {"schema": "1", "power.plan.sun": "x" * 990_000, "conditions": "[]"}
    rig.api._store(PATH, {"metadata": {"name": NAME}, "data": before})
    assert state.read() == {"power.plan.sun": "x" * 990_000, "conditions": "[]"}
    assert state.update(lambda keys: {**keys, "conditions": "[1]"}, reason="t").done
    assert state.read() == {"power.plan.sun": "x" * 990_000, "conditions": "[1]"}
    assert max(sizes(rig).values()) < 1_000_000


def test_what_has_not_changed_is_not_written_again(rig: WriterRig, state: StateStore) -> None:
    state.update(lambda keys: LARGE, reason="t")
    before = len(rig.api.writes)
    assert state.update(lambda keys: {**keys}, reason="t").done
    assert len(rig.api.writes) == before
    assert state.update(lambda keys: {**keys, "conditions": "[1]"}, reason="t").done
    assert len(rig.api.writes) == before + 1


@pytest.mark.parametrize("writes", range(1, 5))
def test_a_writer_that_dies_between_two_writes_leaves_the_state_before_or_after(
    writes: int, rig: WriterRig, state: StateStore
) -> None:
    assert state.update(lambda keys: LARGE, reason="t").done
    done = len(rig.api.writes)
    after = {"power.plan.sun": "b" * 900_000, "power.state.sun": "c" * 900_000, "conditions": "[2]"}

    def die(method: str, path: str, body: Any) -> None:
        if method != "GET" and len(rig.api.writes) >= done + writes:
            raise Unreachable("killed")

    rig.api.before = die
    state.update(lambda keys: after, reason="t")
    rig.api.before = lambda *_: None
    assert state.read() in (LARGE, after)
    assert state.update(lambda keys: after, reason="t").done
    assert state.read() == after


def test_parts_that_are_gone_are_named(rig: WriterRig, state: StateStore) -> None:
    state.update(lambda keys: LARGE, reason="t")
    for path in [path for path in rig.api.objects if path.startswith(f"{PATH}-")]:
        del rig.api.objects[path]
    with pytest.raises(ClusterError, match="names parts that cannot be read"):
        state.read()


@pytest.mark.parametrize(
    "index",
    [
        '{"a": [[1, "x", ' + "[" * 100_000 + "]" * 100_000 + "]]}",
        '{"a": [[99999999999999999999999, "x"]]}',
        '{"a": [[0, "x"]]}',
        '{"a": [[1, "1"], [1, "1"]]}',
        '{"a": 1}',
        "[",
    ],
    ids=["deep", "huge", "zero", "twice", "wrong type", "cut"],
)
def test_an_index_that_was_tampered_with_is_a_sentence(index: str, rig: WriterRig, state: StateStore) -> None:
    rig.api._store(PATH, {"metadata": {"name": NAME}, "data": {"schema": "1+parts", "parts": index}})
    rig.api._store(f"{PATH}-1", {"metadata": {"name": f"{NAME}-1"}, "data": {"1": "x"}})
    with pytest.raises(ClusterError, match="names parts that cannot be read"):
        state.read()


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 700_000), max_size=6), st.data())
@examples(25)
def test_any_layout_gives_back_what_was_laid_out(lengths: dict[str, int], data: st.DataObject) -> None:
    main: Mapping[str, str] = {}
    parts: dict[int, Mapping[str, str]] = {}
    for step in range(3):
        letters = data.draw(st.sampled_from(["x", "é", "\U0001f600"]))
        keys = {key: (letters + str(step)) * (length // 6) for key, length in lengths.items()}
        layout = lay_out(keys, main, parts)
        if layout is None:
            assert state_size(keys) > PART
            return
        before, now = join_parts(main, parts), {**parts, **layout.parts}
        assert join_parts(main, now) == before, "until the first one is written, nothing has changed"
        main, parts = layout.main, now
        assert join_parts(main, parts) == keys
        assert all(state_size(each) <= 1_000_000 for each in (main, *parts.values()))
