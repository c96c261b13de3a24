import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.eviction.gate_rules import HOUR
from ballast.eviction.recent_evictions import LONGEST_REST, LOOP, MOST, STOP_FOR, PastEviction, RecentEvictions
from ballast.model.duration import DAY

NOW = 1_700_000_000.0
WEB, API = ("shop", "Deployment", "web"), ("shop", "Deployment", "api")

EVICTIONS = st.lists(
    st.builds(
        PastEviction,
        at=st.integers(0, 200_000).map(lambda back: NOW - back),
        uid=st.uuids().map(str),
        node=st.sampled_from(["n1", "n2", "n3"]),
        workload=st.sampled_from([WEB, API, None]),
        planner=st.sampled_from(["", "relieve", "rebalance"]),
    ),
    max_size=30,
    unique_by=lambda each: each.uid,
)


def remembering(*evictions: PastEviction) -> RecentEvictions:
    memory = RecentEvictions()
    for each in evictions:
        memory.add(each)
    return memory


@given(EVICTIONS)
def test_what_is_written_is_read_again(evictions: list[PastEviction]) -> None:
    memory = remembering(*evictions)
    memory.back_off(WEB, NOW)
    memory.note_landing(WEB, "n1", NOW)
    memory.stop("rebalance", "it did nothing", NOW)
    memory.note_restart(WEB, 12.0)
    memory.note_useless("n1", "cpu", "it did not fall", NOW)
    memory.probed = {"default-scheduler": NOW}
    again = RecentEvictions.decode(memory.encode())
    assert again.history(NOW) == memory.history(NOW)
    assert again.encode() == memory.encode()
    assert (again.stopped, again.probed) == (memory.stopped, memory.probed)
    assert all(each.uid in again for each in evictions)


@given(EVICTIONS)
def test_forgetting_changes_no_answer_of_the_last_day(evictions: list[PastEviction]) -> None:
    memory = remembering(*evictions)
    before = memory.history(NOW)
    memory.forget(NOW)
    after = memory.history(NOW)
    assert after.evictions == tuple(at for at in before.evictions if at > NOW - DAY)
    assert after.looping == before.looping


def test_evictions_of_other_steps_of_the_plan_are_left_out() -> None:
    memory = remembering(PastEviction(NOW - 5, "a", "n1", WEB), PastEviction(NOW, "b", "n2", WEB))
    history = memory.history(NOW, without={"b"})
    assert history.node_evictions == {"n1": NOW - 5}
    assert history.node_planners == {("n1", ""): NOW - 5}
    assert history.workload_evictions == {WEB: (NOW - 5,)}


def test_many_moves_of_a_workload_are_no_loop_and_its_way_back_is() -> None:
    memory = remembering(*(PastEviction(NOW - number, f"u{number}", "n1", WEB) for number in range(40)))
    memory.add(PastEviction(NOW - 1.1 * DAY, "old", "n3", WEB))
    memory.add(PastEviction(NOW, "imagined", "n4", WEB, imagined=True))
    for node in ("n2", "n3", "n4"):
        memory.note_landing(WEB, node, NOW)
    memory.note_landing(API, "n1", NOW)
    assert not memory.history(NOW).looping
    assert memory.history(NOW).gave == {(WEB, "n1"): NOW}
    assert memory.history(NOW, without={"u0"}).gave == {(WEB, "n1"): NOW - 1}
    memory.note_landing(WEB, "n1", NOW)
    assert memory.history(NOW + LOOP - 1).looping == {(WEB, "n1"): NOW}
    assert not memory.history(NOW + LOOP).looping


def test_a_planner_is_stopped_for_an_hour() -> None:
    memory = RecentEvictions()
    memory.stop("relieve", "no effect", NOW)
    memory.forget(NOW + STOP_FOR - 1)
    assert memory.stopped["relieve"].why == "no effect"
    memory.forget(NOW + STOP_FOR)
    assert memory.stopped == {}


def test_it_stays_small_enough_for_a_config_map() -> None:
    memory = remembering(
        *(
            PastEviction(
                NOW - number,
                f"12345678-1234-1234-1234-{number:012d}",
                f"node-{number % 5000}",
                ("team", "Deployment", f"workload-{number}"),
            )
            for number in range(2 * MOST)
        )
    )
    memory.forget(NOW)
    assert len(memory.encode()) < 500_000
    assert len(memory.history(NOW).evictions) == MOST


@pytest.mark.parametrize("text", ["", "[", "[]", '{"evictions": [[1, "u", 0, -1, 1]]}', '{"evictions": [["x"]]}'])
def test_what_no_memory_has_written_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        RecentEvictions.decode(text)


def test_what_was_only_imagined_has_rates_of_its_own_and_is_not_written() -> None:
    memory = RecentEvictions()
    memory.add(PastEviction(NOW, "u-1", "n1", None))
    memory.add(PastEviction(NOW, "u-2", "n2", None, imagined=True))
    assert memory.history(NOW).evictions == (NOW,)
    assert memory.history(NOW, imagined=True).evictions == (NOW,)
    assert set(memory.history(NOW, imagined=True).node_evictions) == {"n1", "n2"}
    assert set(memory.history(NOW).node_evictions) == {"n1"}, "a dry run keeps nobody from acting"
    assert ("u-1" in memory, "u-2" in memory) == (True, False)
    assert RecentEvictions.decode(memory.encode()).history(NOW).node_evictions == {"n1": NOW}


def test_a_node_that_moves_did_not_help_is_left_alone_for_that_cause_and_longer_each_time() -> None:
    memory = RecentEvictions()
    for hours in (1, 2, 4):
        memory.note_useless("n1", "cpu", "its cpu did not fall", NOW)
        assert ("n1", "cpu") in memory.history(NOW + hours * HOUR - 1).ineffective
        assert memory.history(NOW + hours * HOUR).ineffective == {}


def test_a_restart_time_follows_what_is_measured() -> None:
    memory = RecentEvictions()
    memory.note_restart(WEB, 10.0)
    memory.note_restart(WEB, 30.0)
    assert memory.history(NOW).restarts == {WEB: 20.0}


def test_a_workload_refused_for_months_only_rests_longest() -> None:
    memory = RecentEvictions()
    rests = {memory.back_off(WEB, NOW) for _ in range(3000)}
    assert max(rests) == LONGEST_REST
    for _ in range(3000):
        memory.note_useless("n1", "cpu", "its cpu did not fall", NOW)
    assert ("n1", "cpu") in memory.history(NOW + DAY - 1).ineffective
    again = RecentEvictions.decode(memory.encode())
    assert again.back_off(WEB, NOW) == LONGEST_REST


def test_several_late_workloads_within_an_hour_are_the_planners_fault() -> None:
    memory, keys = RecentEvictions(), [("shop", "Deployment", name) for name in "abcd"]
    assert not memory.note_late(keys[0], 0.0)
    assert not memory.note_late(keys[0], 10.0), "one workload, however often"
    assert not memory.note_late(keys[1], 20.0)
    assert not memory.note_late(keys[2], 20.0 + STOP_FOR), "the first two were more than an hour ago"
    after = RecentEvictions.decode(memory.encode())
    assert not after.note_late(keys[3], 30.0 + STOP_FOR)
    assert after.note_late(keys[0], 40.0 + STOP_FOR)
    assert set(after.history(50.0 + STOP_FOR).backing_off) == {keys[0], keys[2], keys[3]}


def test_what_counts_against_a_rate_of_its_own_still_does_for_the_next_leader() -> None:
    memory = remembering(
        PastEviction(NOW - 60, "a", "n1", WEB, planner="relieve", own_rate="overloaded"),
        PastEviction(NOW - 50, "b", "n2", WEB, planner="tidy", own_rate="tidy"),
        PastEviction(NOW - 40, "c", "n3", WEB, planner="rebalance"),
    )
    after = RecentEvictions.decode(memory.encode()).history(NOW)
    assert after == memory.history(NOW)
    assert after.of_own_rate == {"overloaded": (NOW - 60,), "tidy": (NOW - 50,)}
    assert (after.evictions, after.by_planner) == ((NOW - 40,), {"rebalance": (NOW - 40,)})
