"""Many lost nodes looked at together: the same answers as one after the other."""

import random

import numpy as np
import pytest

from ballast.model.template import HostPort, Template
from ballast.planners import reserve
from ballast.planners.reserve import Reserve, RoomLeft
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, standing_of

WORLDS = 150


def _world(seed: int) -> tuple[RoomLeft, Reserve]:
    dice = random.Random(seed)
    nodes = [a_node(f"n{n}", cpu=dice.choice((4, 8)), memory=dice.choice((4, 8))) for n in range(dice.randint(2, 8))]
    free = {node.name: min(node.allocatable["cpu"], node.allocatable["memory"]) for node in nodes}
    pods = []
    for number in range(dice.randint(2, 25)):
        cpu, memory, on = dice.choice((0.5, 1, 2)), dice.choice((0.5, 1, 2)), dice.choice(nodes).name
        if free[on] >= max(cpu, memory):
            free[on] -= max(cpu, memory)
            port = Template(host_ports=(HostPort(80),)) if dice.random() < 0.05 else Template()
            pods.append(a_pod(f"p{number:02}", cpu, memory, on=on, template=port))
    arranged = a_layout(nodes, pods)
    placement = standing_of(arranged, ceiling=dice.choice((0.7, 0.9)))
    some = np.random.default_rng(seed).random(len(pods)) < 0.9
    peak = np.maximum(placement.load * dice.choice((1.0, 1.3)), placement.load)
    return RoomLeft.of(placement, some, peak), Reserve(placement, some, 1)


@pytest.mark.slow
@pytest.mark.parametrize("near", [2, 64])
def test_lost_nodes_hold_as_if_each_was_looked_at_alone(near: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserve, "NEAR", near)
    held = 0
    for seed in range(WORLDS):
        room, reserve_ = _world(seed)
        rows = np.arange(len(room.load))
        together = set(reserve_._spread(room, rows).holds().tolist())
        for row in rows.tolist():
            pods = reserve_.on([row]).tolist()
            if not pods or not all(reserve_._is_plain(pod) for pod in pods):
                assert row not in together
                continue
            rest = rows[rows != row]
            best = rest[np.argsort(-reserve._headroom(room)[rest], kind="stable")[:near]]
            assert (row in together) == reserve_._placed(room.copy(), best, pods, False), (seed, row)
            held += row in together
    assert held > WORLDS / 3


def test_the_reserve_stands_as_if_each_node_was_looked_at_alone() -> None:
    stood = 0
    for seed in range(WORLDS):
        room, reserve_ = _world(seed)
        rows = np.arange(len(room.load))
        alone = reserve_._in_sum(room, rows) and all(reserve_._without(room, rows, (row,)) for row in rows.tolist())
        assert reserve_.stands(room, every_node(room.placement.layout)) == alone, seed
        stood += alone
    assert 0 < stood < WORLDS


@pytest.mark.parametrize(
    ("now", "peak", "fits"), [(0.5, 0.6, True), (0.6, 0.5, True), (0.5, 0.7, False), (0.7, 0.5, False)]
)
def test_room_has_to_be_there_now_and_at_the_peak_of_the_day(now: float, peak: float, fits: bool) -> None:
    """A pod that takes a tenth of a node, below a ceiling of 0.75."""
    arranged = a_layout([a_node("n1"), a_node("n2")], [a_pod("p", 1, 1, on="n1")], load=np.full((2, 2), now))
    room = RoomLeft.of(standing_of(arranged, ceiling=0.75), np.ones(1, bool), np.full((2, 2), peak))
    room.peak[:], room.used[:], room.at_peak[:] = peak, 1.0, 1.0
    assert room.open_among(0, np.array([1])).tolist() == [fits]
