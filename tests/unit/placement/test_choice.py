from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.placement.choice import NEARLY, apart, choose, keys, worth

SCORES = st.lists(st.floats(0, 100), min_size=1, max_size=40)


@given(SCORES, st.text(max_size=8))
def test_the_best_node_is_chosen_whatever_the_order(scores: list[float], uid: str) -> None:
    names = [f"n{i}" for i in range(len(scores))]
    chosen = choose(np.array(scores), keys(names), uid)
    assert scores[chosen] >= max(scores) - 1e-6
    order = list(reversed(range(len(scores))))
    again = choose(np.array(scores)[order], keys([names[i] for i in order]), uid)
    assert order[again] == chosen


@given(SCORES)
def test_others_get_0_to_9_and_more_for_more(scores: list[float]) -> None:
    points = worth(np.array(scores))
    assert points.min() >= 0
    assert points.max() <= 9
    assert (np.diff(points[np.argsort(scores)]) >= 0).all()


def test_the_whole_scale_is_used() -> None:
    assert worth(np.array([0.0, 50.0, 100.0])).tolist() == [0, 5, 9]


def test_equal_nodes_share_equally_and_one_pod_always_gets_the_same() -> None:
    names, scores = [f"node-{i}" for i in range(10)], np.full(10, 70.0)
    known = keys(names)
    count = Counter(choose(scores, known, f"uid-{i}") for i in range(5_000))
    assert min(count.values()) > 400
    assert max(count.values()) < 600
    assert len({choose(scores, known, "the same") for _ in range(10)}) == 1


def test_noise_of_sums_makes_no_difference() -> None:
    known = keys(["a", "b"])
    winners = {choose(np.array([70.0, 70.0 + 1e-9]), known, f"{i}") for i in range(50)}
    assert winners == {0, 1}


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(0, 3)), min_size=1, max_size=40), st.text(max_size=8))
def test_among_nearly_best_nodes_one_with_the_fewest_siblings_is_chosen(
    drawn: list[tuple[float, int]], uid: str
) -> None:
    scores, siblings = np.array([score for score, _ in drawn]), np.array([count for _, count in drawn])
    chosen = choose(apart(scores, siblings), keys(map(str, range(len(drawn)))), uid)
    near = scores >= scores.max() - NEARLY
    assert near[chosen]
    assert siblings[chosen] == siblings[near].min()
    assert scores[chosen] >= scores[near & (siblings == siblings[chosen])].max() - 1e-6
