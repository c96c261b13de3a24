"""What a tick of a power budget costs, and an allocation."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from fractions import Fraction

from ballast.power.allocation import Target, allocate
from ballast.power.controller import commit, observe
from ballast.power.outcome import Sample
from ballast.power.policy import Policy
from ballast.power.reading import read
from ballast.power.state import State
from tests.bench import emergency
from tests.bench.rows import Row, at_most

TARGETS = 500
REPLICAS = 10_000
ROUNDS = 30
QUICK = {"emergency_targets": 50}


def measure(emergency_targets: int = TARGETS) -> list[Row]:
    """CPU milliseconds of ticks that wait and that act, and of allocations that redistribute; how long an emergency
    takes."""
    return [*_ticks(), *_allocations(), *emergency.measure(emergency_targets)]


def _ticks() -> list[Row]:
    policy = _policy()
    counts = {name: place.member.start for name, place in policy.places.items()}
    steady = observe(policy, State(), Sample.of(0, 10_000.0), counts).state
    waiting = observe(policy, steady, Sample.of(15, 7_000.0), counts).state
    found = []
    for what, state, sample in (
        ("tick inside the dead band", steady, Sample.of(15, 10_100.0)),
        ("tick with an open window", waiting, Sample.of(30, 7_000.0)),
        ("tick that acts: level, allocation, plan", waiting, Sample.of(300, 7_000.0)),
    ):
        spent = _cpu(lambda: observe(policy, state, sample, counts))  # noqa: B023
        found.append(_row(what, f"{TARGETS} targets", spent, 5))
    acted = observe(policy, waiting, Sample.of(300, 7_000.0), counts).state
    found.append(
        _row("state written ahead and read back", f"{TARGETS} targets", _cpu(lambda: State.load(acted.dump())), 5)
    )
    assert commit(acted).reference == 7_000
    return found


def _allocations() -> list[Row]:
    dice = random.Random(1)
    targets = [
        Target(
            f"ns/t{index:03}",
            current=40,
            minimum=1,
            maximum=dice.randint(41, 90),
            group=f"g{index % 50}" if index % 2 else None,
            weight=Fraction(dice.randint(1, 99), 10),
            baseline=dice.randint(20, 60),
        )
        for index in range(TARGETS)
    ]
    down = _cpu(lambda: allocate(targets, -REPLICAS))
    up = _cpu(lambda: allocate(targets, REPLICAS))
    where = f"{REPLICAS:,} replicas over {TARGETS} targets, half of them in groups"
    return [_row("allocation on the way down", where, down, 50), _row("allocation on the way up", where, up, 50)]


def _policy() -> Policy:
    members = [{"ref": f"ns/t{index:03}", "max": 40, "weight": 1 + index % 7} for index in range(TARGETS)]
    groups = [{"name": f"g{index}", "members": members[index::50][5:]} for index in range(50)]
    alone = [member for index in range(50) for member in members[index::50][:5]]
    return read([{"groups": groups, "independents": alone}])[0]


def _row(what: str, where: str, spent: float, limit: float) -> Row:
    return {
        "what": f"power: {what}",
        "at": where,
        "reach": f"≤ {limit:g} ms CPU",
        "measured": f"{spent:.2f} ms CPU",
        "verdict": at_most(spent, limit),
    }


def _cpu(work: Callable[[], object]) -> float:
    work()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return statistics.median(spent) * 1e3
