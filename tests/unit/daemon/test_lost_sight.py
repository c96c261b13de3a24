"""A node whose load is not known any more gains nothing from schedulers either."""

import dataclasses

import numpy as np

from ballast.extender.snapshot_state import REMEMBERED, SnapshotState
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot
from ballast.placement.fleet_model import FleetModel
from ballast.placement.live_residual import LiveResidual
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.strategy import strategy
from tests.worlds.snapshots import TIME, snapshot

NAN = float("nan")


def state(taken: Snapshot, before: SnapshotState | None = None) -> SnapshotState:
    model = FleetModel(taken, before.model if before else None)
    plain = strategy("dominant-residual")
    assert isinstance(plain, DominantResidual)
    return SnapshotState.of(model, LiveResidual(model, plain), taken.known, before)


def test_the_last_load_still_filters_while_a_node_is_silent_and_until_it_is_forgotten() -> None:
    seen = state(snapshot([0.95, 0.2], time=TIME))
    gone = state(snapshot([NAN, 0.2], time=TIME + 30), seen)
    assert set(gone.overloaded(0.9, ["n0", "n1"])) == {"n0"}
    later = state(snapshot([NAN, 0.2], time=TIME + REMEMBERED), gone)
    assert set(later.overloaded(0.9, ["n0", "n1"])) == {"n0"}
    forgotten = state(snapshot([NAN, 0.2], time=TIME + 30 + REMEMBERED), later)
    assert forgotten.overloaded(0.9, ["n0", "n1"]) == {}


def test_a_node_that_is_known_again_filters_by_its_load_and_a_new_one_by_none() -> None:
    gone = state(snapshot([NAN, 0.2], time=TIME + 30), state(snapshot([0.95, 0.2], time=TIME)))
    back = state(snapshot([0.4, 0.2], time=TIME + 60), gone)
    assert back.overloaded(0.9, ["n0", "n1"]) == {}
    young = snapshot([NAN, 0.2], time=TIME + 60)
    known = np.array([False, True])
    again = dataclasses.replace(young, states=NodeStates.of(known, ~known))
    assert state(again, gone).overloaded(0.9, ["n0", "n1"]) == {}
