"""What holds for every strategy, whatever the nodes, pods and loads."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.scoring.blend import Blend
from ballast.scoring.strategy import NAMES, strategy
from tests.properties import examples
from tests.unit.scoring.test_dynamic import POLICY, stamp
from tests.unit.scoring.worlds import a_fleet, a_pod, by_node, load, node, pod, scored

FOO = "example.com/foo"
LETTERS = "abcdefgh"
KEYS: dict[str, dict[str, Any]] = {
    "peaks": {"node_power_model": {name: {"k0": 400, "k1": -90, "k2": -0.07} for name in LETTERS[1:]}},
    "dynamic": {"policy": POLICY},
    "requested-to-capacity": {"shape": [[0, 3], [40, 10], [100, 0]], "resources": {"cpu": 2, "memory": 1, FOO: 7}},
}

cores = st.integers(0, 64_000).map(lambda value: f"{value}m")
bytes_ = st.integers(0, 2**40).map(str)
pieces = st.integers(0, 8).map(str)
amounts = st.fixed_dictionaries({}, optional={"cpu": cores, "memory": bytes_, FOO: pieces, "ephemeral-storage": bytes_})
containers = st.lists(
    st.one_of(amounts, st.fixed_dictionaries({"requests": amounts, "limits": amounts})), min_size=1, max_size=3
)
percent = st.floats(0, 150, allow_nan=False)
loads = st.fixed_dictionaries(
    {}, optional={"cpu": percent, "cpu_std": percent, "memory": percent, "memory_std": percent}
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Any], list[Any], Any, Any]:
    names = LETTERS[: draw(st.integers(1, len(LETTERS)))]
    annotation = st.floats(0, 2).map(lambda value: {"cpu_usage_avg_5m": f"{value:.5f},{stamp(0)}"})
    nodes = [node(name, draw(amounts), draw(amounts), draw(st.one_of(st.just({}), annotation))) for name in names]
    where = st.sampled_from([*names, "", "elsewhere"])
    placed = [pod(*draw(containers), name=f"p{i}", on=draw(where)) for i in range(draw(st.integers(0, 5)))]
    known = [name for name in names if draw(st.booleans())]
    return nodes, placed, load(**{name: draw(loads) for name in known}), pod(*draw(containers))


@pytest.mark.parametrize("name", NAMES)
@examples(40)
@given(situation=situations(), in_flight=st.sampled_from(["off", "upstream", "full"]))
def test_scores_are_in_range_and_never_nan(name: str, situation: Any, in_flight: str) -> None:
    nodes, placed, watcher, arriving = situation
    found = scored(a_fleet(nodes, placed, watcher), arriving, name, in_flight=in_flight, **KEYS.get(name, {}))
    assert found.scores.dtype == np.int64
    assert len(found.scores) == len(nodes)
    assert ((found.scores >= 0) & (found.scores <= 100)).all()
    assert np.isfinite(found.exact).all()
    assert not np.isinf(found.raw).any()


@pytest.mark.parametrize("name", NAMES)
@examples(40)
@given(situation=situations(), dice=st.randoms())
def test_scores_do_not_depend_on_the_order_of_nodes_and_pods(name: str, situation: Any, dice: Any) -> None:
    nodes, placed, watcher, arriving = situation
    there = a_fleet(nodes, placed, watcher)
    shuffled = a_fleet(dice.sample(nodes, len(nodes)), dice.sample(placed, len(placed)), watcher)
    keys = KEYS.get(name, {})
    assert by_node(there, scored(there, arriving, name, **keys)) == by_node(
        shuffled, scored(shuffled, arriving, name, **keys)
    )


@given(situation=situations())
def test_a_blend_orders_finely_what_it_scores_roughly(situation: Any) -> None:
    nodes, placed, watcher, arriving = situation
    fleet, blend = a_fleet(nodes, placed, watcher), strategy("blend", {})
    assert isinstance(blend, Blend)
    rough, fine = (score(fleet, a_pod(arriving)) for score in (blend.score, blend.finer))
    assert (abs(rough.exact - fine.exact) <= 0.5).all(), "each part is rounded by a half at most"
    assert fine.unknown.tolist() == rough.unknown.tolist()


@pytest.mark.parametrize("name", NAMES)
@examples(40)
@given(situation=situations())
def test_nodes_are_scored_without_a_pod_too(name: str, situation: Any) -> None:
    nodes, placed, watcher, _ = situation
    found = scored(a_fleet(nodes, placed, watcher), None, name, **KEYS.get(name, {}))
    assert ((found.scores >= 0) & (found.scores <= 100)).all()


@pytest.mark.parametrize(("name", "direction"), [("load-variation", -1), ("low-risk", -1)])
@given(low=st.floats(0, 100), more=st.floats(0, 50), std=st.floats(0, 50))
def test_more_load_never_scores_better(name: str, direction: int, low: float, more: float, std: float) -> None:
    amounts_ = {"cpu": "8", "memory": "16Gi"}
    nodes = [node("a", amounts_), node("b", amounts_)]
    watcher = load(
        a={"cpu": low, "cpu_std": std if name == "load-variation" else 0},
        b={"cpu": low + more, "cpu_std": std if name == "load-variation" else 0},
    )
    calm, busy = scored(a_fleet(nodes, (), watcher), pod({"cpu": "1"}), name).exact
    assert (busy - calm) * direction >= 0


@given(before=st.integers(0, 7000), more=st.integers(0, 2000), asked=st.integers(0, 1000))
def test_what_is_requested_moves_least_and_most_allocated_in_opposite_ways(before: int, more: int, asked: int) -> None:
    nodes = [node("a", {"cpu": "10"}), node("b", {"cpu": "10"})]
    placed = [pod({"cpu": f"{before}m"}, name="p", on="a"), pod({"cpu": f"{before + more}m"}, name="q", on="b")]
    fleet, arriving = a_fleet(nodes, placed), pod({"cpu": f"{asked}m"})
    least, most = (scored(fleet, arriving, name).scores.tolist() for name in ("least-allocated", "most-allocated"))
    assert least[0] >= least[1]
    assert most[0] <= most[1]


@given(low=st.floats(0, 100), more=st.floats(0, 50))
def test_target_load_rises_up_to_the_target_and_falls_above(low: float, more: float) -> None:
    nodes = [node("a", {"cpu": "8"}), node("b", {"cpu": "8"})]
    fleet = a_fleet(nodes, (), load(a={"cpu": low}, b={"cpu": low + more}))
    first, second = scored(fleet, pod({"limits": {"cpu": "0"}}), "target-load").exact
    if low + more <= 40:
        assert second >= first
    elif low > 40:
        assert second <= first
