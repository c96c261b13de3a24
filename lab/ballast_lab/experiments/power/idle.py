"""Idle power: what is drawn once the feed has fallen to a fifth, with all nodes on and with empty nodes switched off.

Ten nodes for 40 replicas each run 200 replicas of 10 W.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ballast.power.controller_state import Sample
from ballast.power.policy_reader import read
from ballast.power.replay import replay
from ballast_lab.experiments.power.contestants import REF

NODES, ROOM, REPLICAS, EACH = 10, 40, 200, 10
IDLE = (50, 100, 200)


def lived(idle: int) -> Mapping[str, tuple[float, float]]:
    """By way: watts drawn at the end as a share of the feed, and replicas that are left."""
    first = NODES * idle + REPLICAS * EACH
    feed = first * 0.2
    found = {"base unknown": _last(0, first, feed), "base declared": _last(NODES * idle, first, feed)}
    drawn = {name: ((NODES * idle + count * EACH) / feed, float(count)) for name, count in found.items()}
    nodes, count = max(
        ((nodes, _last(nodes * idle, first, feed, most=nodes * ROOM)) for nodes in range(NODES + 1)),
        key=lambda each: (each[1], -each[0]),
    )
    return {**drawn, "empty nodes off": ((nodes * idle + count * EACH) / feed, float(count))}


def _last(base: int, first: float, feed: float, most: int = REPLICAS) -> int:
    member = {"ref": REF, "min": 0, "max": max(1, most), "replicas": min(most, REPLICAS), "wattsPerReplica": EACH}
    policy = read([{"independents": [member], "baseWatts": base}])[0]
    watts = [first] * 4 + [max(feed, 0.51 * first)] * 4 + [feed] * 40
    samples = [Sample.of(15 * i, each) for i, each in enumerate(watts)]
    total = replay(policy, samples, {REF: min(most, REPLICAS)}).ticks[-1].total
    return total if most and Fraction(base) < Fraction(feed) else 0
