import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.jobs.witnesses import CYCLES, DISPUTED_BY, Disputes, paired_gap, unexplained
from ballast.model.node_state import NodeState, NodeStates
from ballast.windows.ring import Ring

NAN = float("nan")
KEYS = [(name, "uid") for name in ("a", "b", "c", "d")]
RESOURCES = ("cpu", "memory")


def gap(**cpu: float) -> np.ndarray:
    """[resource, node]: memory agrees."""
    return np.array([[cpu.get(name, 0.0) for name, _ in KEYS], [0.0] * len(KEYS)])


def disputed(disputes: Disputes) -> list[str]:
    return [key[0] for key, is_disputed in zip(KEYS, disputes.disputed(KEYS).tolist(), strict=True) if is_disputed]


def compare(disputes: Disputes, *gaps: np.ndarray, since: float = 0.0) -> None:
    for number, one in enumerate(gaps):
        disputes.compare(since + 30.0 * number, KEYS, RESOURCES, one)


def test_three_comparisons_in_a_row_dispute_a_node_and_one_that_agrees_ends_it() -> None:
    disputes = Disputes(3600.0)
    compare(disputes, gap(a=0.21, b=-0.3), gap(a=0.21, b=-0.3))
    assert disputes.suspects
    assert disputed(disputes) == []
    compare(disputes, gap(a=0.21, b=-0.3, c=0.2), since=60.0)
    assert disputed(disputes) == ["a", "b"]
    assert disputes.sides() == {"cpu above": ["a"], "cpu below": ["b"]}
    compare(disputes, gap(b=-0.3), since=90.0)
    assert disputed(disputes) == ["b"]


def test_what_cannot_be_compared_stays_disputed_for_a_while() -> None:
    disputes = Disputes(3600.0)
    compare(disputes, *[gap(a=0.5)] * 3)
    compare(disputes, gap(a=NAN) * NAN, since=3659.0)
    assert disputed(disputes) == ["a"]
    compare(disputes, gap(a=NAN) * NAN, since=3660.0)
    assert not disputes.suspects


def test_memory_differs_only_where_no_way_of_measuring_explains_it() -> None:
    """A working set holds active page cache that the kernel counts as available: on some nodes much, on others none."""
    gap = np.array([-0.45, -0.1, -0.45, 0.3, -0.4, NAN])
    sets = np.array([0.01, 0.5, -0.3, 0.3, NAN, NAN])
    assert unexplained(gap, sets).tolist()[:4] == [0.0, 0.0, -0.3, 0.3]
    assert np.isnan(unexplained(gap, sets)[4:]).all(), "less than a working set says nothing of one node"
    assert unexplained(gap, sets, below=True)[4] == -0.4
    assert unexplained(np.array([0.25]), np.array([NAN])).tolist() == [0.25], "more than a working set cannot be"
    disputes = Disputes(3600.0)
    seen = np.array([[0.0] * 4, unexplained(gap, sets)[:4]])
    compare(disputes, seen, seen, seen)
    assert disputed(disputes) == ["c", "d"]


@given(st.lists(st.floats(-1, 1) | st.just(NAN), min_size=4, max_size=4), st.integers(1, 5))
def test_only_cpu_beyond_the_limit_disputes_and_never_sooner(values: list[float], times: int) -> None:
    disputes = Disputes(3600.0)
    one = np.array([values, [0.0] * 4])
    compare(disputes, *[one] * times)
    beyond = [name for (name, _), value in zip(KEYS, values, strict=True) if abs(value) > DISPUTED_BY]
    assert disputed(disputes) == (beyond if times >= CYCLES else [])


def test_samples_are_compared_where_both_have_one() -> None:
    ours, theirs = (Ring(("cpu",), 30.0, 900.0) for _ in range(2))
    for slot in range(20):
        rows = np.arange(2)
        columns = ours.columns(KEYS[:2])
        ours.write("cpu", 30.0 * slot, columns[rows], np.array([0.9, slot / 100]), np.full(2, 30.0 * slot))
        if slot % 2 == 0:
            columns = theirs.columns(KEYS[:2])
            theirs.write("cpu", 30.0 * slot, columns[:1], np.array([0.4]), np.full(1, 30.0 * slot))
    seen = paired_gap(ours, theirs, KEYS[:2], 570.0)
    assert np.isclose(seen[0, 0], 0.5)
    assert np.isnan(seen[0, 1])


@given(st.lists(st.sampled_from(NodeState), min_size=1, max_size=6), st.data())
def test_only_known_nodes_become_disputed_and_what_they_score_lapses(
    states: list[NodeState], data: st.DataObject
) -> None:
    codes = np.array([list(NodeState).index(state) for state in states], np.int8)
    nothing = np.zeros((1, len(states)), bool)
    before = NodeStates(codes, nothing, nothing[0], nothing)
    doubts = np.array(data.draw(st.lists(st.booleans(), min_size=len(states), max_size=len(states))))
    after = before.dispute(doubts)
    for row, state in enumerate(states):
        changed = bool(doubts[row]) and state == NodeState.KNOWN
        assert after[row] == (NodeState.DISPUTED if changed else state)
        assert bool(after.lapsed[row]) == changed
    assert not (after.known & doubts).any()
