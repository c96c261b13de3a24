import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.jobs.sentences import leaving_out
from ballast.model.load_limits import limits, lower, named, shares
from ballast.model.node import Node
from ballast.model.node_state import NodeEvidence, NodeState, NodeStates, node_states, silent_share

NOW = 1_700_000_000.0
OLD = NOW - 1e6
NAN = float("nan")


def states_of(
    node: Node,
    windowed: dict[str, bool],
    newest: dict[str, float],
    *,
    weights: dict[str, float] | None = None,
    seen_for: float = 1e6,
    back_for: float = np.inf,
    was_known: bool = False,
) -> NodeStates:
    """Of one node beside another that has fresh samples."""
    resources = tuple(windowed)
    return node_states(
        [node, Node("other", created=OLD)],
        resources,
        weights or {},
        NodeEvidence(
            at=NOW,
            windowed=np.array([[known, True] for known in windowed.values()]),
            newest=np.array([[newest.get(name, NAN), NOW] for name in resources]),
            seen_for=np.array([seen_for, 1e6]),
            back_for=np.array([back_for, np.inf]),
            was_known=np.array([was_known, True]),
        ),
        window=900.0,
        max_age=np.full(len(resources), 90.0),
        forget_after=3600.0,
    )


BOTH, NEITHER = {"cpu": True, "memory": True}, {"cpu": False, "memory": False}
FRESH = {"cpu": NOW, "memory": NOW}


@pytest.mark.parametrize(
    ("node", "windowed", "newest", "more", "state"),
    [
        (Node("a", created=OLD), BOTH, FRESH, {}, "known"),
        (Node("a", created=OLD, ready=False), BOTH, FRESH, {}, "down"),
        (Node("a", created=OLD, deleting=True), NEITHER, {}, {}, "down"),
        (Node("a", created=NOW - 899), NEITHER, {}, {}, "young"),
        (Node("a", created=NOW - 901), NEITHER, {}, {}, "unmeasured"),
        (Node("a"), NEITHER, {}, {"seen_for": 899.0}, "young"),
        (Node("a", created=OLD), NEITHER, FRESH, {"seen_for": 60.0}, "young"),
        (Node("a", created=OLD), NEITHER, FRESH, {"seen_for": 60.0, "was_known": True}, "silent"),
        (Node("a", created=OLD), {"cpu": False, "memory": True}, {"memory": NOW}, {"seen_for": 60.0}, "unmeasured"),
        (Node("a", created=OLD), {"cpu": False, "memory": True}, {"memory": NOW}, {"was_known": True}, "silent"),
        (Node("a", created=OLD), NEITHER, {"cpu": OLD}, {"back_for": 400.0}, "unmeasured"),
        (Node("a", created=OLD), NEITHER, {"cpu": OLD}, {"back_for": 120.0}, "young"),
        (Node("a", created=OLD), NEITHER, {"cpu": OLD, "memory": OLD}, {"back_for": 400.0}, "silent"),
        (Node("a", created=OLD), {"cpu": True, "memory": False}, FRESH, {}, "silent"),
    ],
)
def test_one_state_holds(
    node: Node, windowed: dict[str, bool], newest: dict[str, float], more: dict[str, object], state: str
) -> None:
    assert states_of(node, windowed, newest, **more)[0] == state  # type: ignore[arg-type]


def test_what_a_node_never_had_is_missing_and_not_lost() -> None:
    states = states_of(Node("a", created=OLD), {"cpu": False, "memory": True}, {"memory": NOW})
    assert states[0] == NodeState.UNMEASURED
    assert states.missing.tolist() == [[True, False], [False, False]]
    assert not states.lost.any()
    assert states.silent_share == 0


def test_what_no_node_ever_had_is_silence() -> None:
    evidence = NodeEvidence(
        NOW,
        np.zeros((2, 2), bool),
        np.array([[NAN, NAN], [NOW, NOW]]),
        np.full(2, 1e6),
        np.full(2, np.inf),
        np.zeros(2, bool),
    )
    nodes = [Node("a", created=OLD), Node("b", created=OLD)]
    states = node_states(
        nodes, ("cpu", "memory"), {}, evidence, window=900.0, max_age=np.full(2, 90.0), forget_after=3600.0
    )
    assert states.counts[NodeState.SILENT] == 2
    assert not states.missing.any()


def test_what_is_lost_is_named_for_the_silent_alone() -> None:
    found = states_of(Node("a", created=OLD), {"cpu": False, "memory": True}, FRESH)
    assert found.lost[:, 0].tolist() == [True, False]
    assert found.lapsed.tolist() == [True, False]
    found = states_of(Node("a", created=NOW), {"cpu": False, "memory": True}, FRESH)
    assert not found.lost.any()


@pytest.mark.parametrize(
    ("newest", "weight", "state"),
    [
        (NOW, 0.5, "silent"),
        (NOW - 3599, 1.0, "silent"),
        (NOW - 3601, 1.0, "known"),
        (NAN, 1.0, "known"),
        (NOW, 0.0, "known"),
    ],
)
def test_another_resource_is_needed_while_it_has_a_weight_and_was_there_lately(
    newest: float, weight: float, state: str
) -> None:
    windowed, times = {**BOTH, "gpu": False}, {**FRESH, "gpu": newest}
    assert states_of(Node("a", created=OLD), windowed, times, weights={"gpu": weight})[0] == state


def test_a_source_that_answers_for_nobody_leaves_nobody_unmeasured() -> None:
    found = node_states(
        [Node("a", created=OLD)],
        ("cpu",),
        {},
        NodeEvidence(
            NOW, *(np.array([[value]]) for value in (False, NAN)), *(np.array([v]) for v in (9.0, np.inf, False))
        ),
        window=900.0,
        max_age=np.array([90.0]),
        forget_after=3600.0,
    )
    assert found[0] == NodeState.SILENT


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_share_is_of_known_and_silent_alone(known: int, silent: int) -> None:
    share = silent_share(known, silent)
    assert 0 <= share <= 1
    assert (share == 0) == (silent == 0)


def test_the_selector_that_leaves_nodes_out() -> None:
    linux = [Node(f"l{i}", labels={"kubernetes.io/os": "linux", "kubernetes.io/hostname": f"l{i}"}) for i in (0, 1)]
    windows = [Node("w", labels={"kubernetes.io/os": "windows", "kubernetes.io/hostname": "w"})]
    assert leaving_out(windows, linux) == "kubernetes.io/os=linux"
    fargate = [Node("f", labels={"eks.amazonaws.com/compute-type": "fargate", "kubernetes.io/os": "linux"})]
    assert leaving_out(fargate, linux) == "eks.amazonaws.com/compute-type!=fargate"
    assert leaving_out(linux[:1], linux[1:]) == "kubernetes.io/hostname notin (l0)"


def test_limits_and_weights_by_resource() -> None:
    names = ("cpu", "memory", "disk")
    assert limits(0.8, names).tolist() == [0.8, 0.8, np.inf]
    assert limits({"disk": 0.5}, names).tolist() == [np.inf, np.inf, 0.5]
    assert lower(0.7, 0.8) == 0.7
    assert lower(0.7, {"cpu": 0.6, "disk": 0.9}) == {"cpu": 0.6, "memory": 0.7, "disk": 0.9}
    assert shares({"cpu": 1.0, "disk": 0.5, "memory": 0.0}, names).tolist() == pytest.approx([2 / 3, 0, 1 / 3])
    assert shares({}, names).tolist() == pytest.approx([1 / 3] * 3)
    assert named({"cpu": 1.0, "disk": 0.5, "gpu": 0.0}, {"network": 0.9}) == ("cpu", "disk", "network")
