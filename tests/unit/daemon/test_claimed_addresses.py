"""One kubelet lists addresses and names of others: it is named within two cycles, and no byte of the others changes."""

import numpy as np
import pytest
from msgspec.structs import replace

from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from ballast.jobs.sentences import report_telemetry
from ballast.jobs.telemetry_cycle import TelemetryCycle, TelemetryRules
from ballast.model.node import Node
from ballast.model.node_state import NodeState
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from tests.unit.daemon.test_blast_radius import (
    COUNT,
    CYCLES,
    INTERVAL,
    NODES,
    RESOURCES,
    START,
    Answering,
    expected,
    published,
)
from tests.worlds.clock import FakeClock

LIAR = 3
KINDS = ("InternalIP", "ExternalIP", "Hostname", "InternalDNS", "ExternalDNS")


def lying(kind: str, *, first: bool) -> tuple[Node, ...]:
    own = NODES[LIAR].addresses
    more = tuple((kind, text.format(row)) for row in range(COUNT) for text in ("10.0.0.{0}", "n-{0:02}"))
    liar = replace(NODES[LIAR], addresses=more + own if first else own + more, created=START - 2e6)
    return (*NODES[:LIAR], liar, *NODES[LIAR + 1 :])


def told(fleets: list[tuple[Node, ...]]) -> tuple[list[Snapshot], list[str]]:
    """The snapshots of one cycle after another, and what AddressClaimed says after each."""
    clock, settings = FakeClock(wall=START), load({"BALLAST_PROMETHEUS__URL": "http://prometheus.test"})
    rules = TelemetryRules(RESOURCES, INTERVAL, {"3m": 180.0, "1m": 60.0}, 0.5, 3, weights={"cpu": 1, "disk": 1})
    cycle = TelemetryCycle(Answering(()), None, rules, clock=clock, metrics=Metrics())
    conditions, names = Conditions(clock, Metrics()), NodeNames(())
    snapshots, said = [], []
    for nodes in fleets:
        names = names.following(nodes)
        snapshots.append(cycle.cycle(names))
        report_telemetry(snapshots[-1], cycle, Freeze(0.5, 3600.0), conditions, settings)
        shown = [each.message for each in conditions.list() if each.type == "AddressClaimed" and each.status == "True"]
        said.append(shown[0] if shown else "")
        clock.advance(INTERVAL)
    return snapshots, said


@pytest.mark.parametrize("since", [0, CYCLES // 2])
@pytest.mark.parametrize("kind", KINDS)
def test_no_byte_of_the_others_changes_and_the_claimant_is_named(kind: str, since: int) -> None:
    taken, said = told([lying(kind, first=since > 0) if cycle >= since else NODES for cycle in range(CYCLES)])
    for now, before in zip(published(taken), expected(), strict=True):
        assert now[:LIAR] + now[LIAR + 1 :] == before[:LIAR] + before[LIAR + 1 :]
    name = NODES[LIAR].name
    assert all(name in text and "who keep them" in text for text in said[since + 1 :])
    assert not any(said[: since + 1])

    last = taken[-1].states
    assert np.flatnonzero(last.are(NodeState.DISPUTED)).tolist() == [LIAR]


def test_a_node_that_is_gone_is_down_and_its_heir_known() -> None:
    """A cloud gave its address again, and the old Node is still listed."""
    old = replace(NODES[LIAR], name="gone", uid="gone", created=START - 9e6, ready=False)
    taken, said = told([(old, *NODES)] * CYCLES)
    states = taken[-1].states
    assert states[0] is NodeState.DOWN
    assert states.known[1:].all()
    assert not any(said)
