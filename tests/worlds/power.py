"""Policies, feeds and a daemon in miniature for the tests of the power room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget
from ballast.power.anchor import abandon
from ballast.power.controller import observe, resumed
from ballast.power.controller_state import ControllerResult, ControllerState, Sample
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read
from ballast.power.replay import Replay, replay
from tests import properties

TICK = 15

examples = properties.examples(200)

WINDOW = 60
FLOOR = 1


def policy(**keys: Any) -> PowerPolicy:
    """One target of 1..400, windows of 60 s, tolerances that cannot invert a sign."""
    side = {"window": WINDOW, "tolerance": 0.04}
    given = {"independents": [{"ref": "ns/one", "max": 400}], "increase": side, "decrease": side, **keys}
    return read([given])[0]


def members(*bounds: tuple[int, int], **more: Any) -> dict[str, Any]:
    return {
        "independents": [{"ref": f"ns/t{i}", "min": low, "max": high, **more} for i, (low, high) in enumerate(bounds)]
    }


def samples(watts: Iterable[float | None], tick: float = TICK, start: float = 0) -> list[Sample]:
    return [Sample.of(start + tick * i, value) for i, value in enumerate(watts)]


def follow(one: PowerPolicy, /, watts: Iterable[float | None], tick: float = TICK, **replicas: int) -> Replay:
    """A replay that begins with `replicas` (of ns/<key>), or with all targets at their maximum."""
    counts = {name: place.member.start for name, place in one.places.items()}
    counts.update({f"ns/{name}": count for name, count in replicas.items()})
    return replay(one, samples(watts, tick), counts)


def totals(run: Replay) -> list[int]:
    return [tick.total for tick in run.ticks]


@dataclass
class Rig:
    """A daemon in miniature: it stores before it acts, and can lose what is only in memory."""

    policy: PowerPolicy
    cluster: dict[str, int]
    stored: str = field(default_factory=lambda: ControllerState().dump())
    at: int = 0
    outcomes: list[ControllerResult] = field(default_factory=list)

    @property
    def state(self) -> ControllerState:
        return ControllerState.load(self.stored)

    @property
    def total(self) -> int:
        return sum(self.cluster.values())

    def tick(self, watts: float | None, crash: str = "") -> ControllerResult:
        """`crash` is one of before-plan, after-plan, half, after-patch: what comes later is lost, then a new start."""
        outcome = observe(self.policy, self.state, Sample.of(self.at, watts), self.cluster)
        self.at += TICK
        self.outcomes.append(outcome)
        if crash == "before-plan":
            self.stored = resumed(self.state).dump()
            return outcome
        self.stored = outcome.state.dump()
        plan = outcome.state.plan
        if plan is not None and crash != "after-plan":
            for index, (name, count) in enumerate(plan.replicas.items()):
                if crash != "half" or index % 2:
                    self.cluster[name] = count
            if not crash:
                self.stored = outcome.state.committed().dump()
        if crash:
            self.stored = resumed(self.state).dump()
        return outcome

    def run(self, watts: Iterable[float | None]) -> Rig:
        for value in watts:
            self.tick(value)
        return self

    def scale(self, name: str, count: int) -> None:
        self.cluster[name] = count

    def drop_plan(self) -> None:
        self.stored = abandon(self.policy, self.state, self.cluster).dump()


def rig(one: PowerPolicy, /, **replicas: int) -> Rig:
    counts = {name: place.member.start for name, place in one.places.items()}
    counts.update({f"ns/{name}": count for name, count in replicas.items()})
    return Rig(one, counts)


@st.composite
def targets(draw: st.DrawFn, *, inside: bool = True, watts: bool = False) -> list[AllocationTarget]:
    """Up to eight targets in up to three groups or alone, each between its bounds."""
    made = []
    for index in range(draw(st.integers(1, 8))):
        low = draw(st.integers(0, 6))
        high = low + draw(st.integers(0, 12))
        current = draw(st.integers(low, high) if inside else st.integers(0, 30))
        group = draw(st.sampled_from([None, "g1", "g2"]))
        weight = draw(st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1), Fraction(2), Fraction(7, 2)]))
        each = draw(st.sampled_from([Fraction(1), Fraction(25), Fraction(101, 2)])) if watts else Fraction(1)
        made.append(AllocationTarget(f"ns/t{index}", current, low, high, group, weight, each))
    return [one for one in made if not one.suspended]


power = st.one_of(
    st.integers(0, 3000).map(float), st.floats(0, 3000, allow_subnormal=False).map(lambda value: round(value, 3))
)
"""Watts that a feed may give."""

junk = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.just(-5.0))
"""What a feed may give instead."""


def feeds(most: int = 60) -> st.SearchStrategy[list[float | None]]:
    """Steps, ramps, jitter and rubbish."""
    flat = st.tuples(power, st.integers(1, 12)).map(lambda each: [each[0]] * each[1])
    ramp = st.tuples(power, power, st.integers(2, 12)).map(
        lambda each: [round(each[0] + (each[1] - each[0]) * i / each[2], 3) for i in range(each[2])]
    )
    noise = st.tuples(power, st.lists(st.floats(0.9, 1.1), min_size=1, max_size=12)).map(
        lambda each: [round(each[0] * factor, 3) for factor in each[1]]
    )
    rubbish = st.lists(junk, min_size=1, max_size=3)
    pieces = st.lists(st.one_of(flat, ramp, noise, rubbish), min_size=1, max_size=8)
    return pieces.map(lambda parts: [value for part in parts for value in part][:most])


def shuffled(each: list[AllocationTarget], order: Callable[[list[AllocationTarget]], None]) -> list[AllocationTarget]:
    copy = list(each)
    order(copy)
    return copy


def at(each: Iterable[AllocationTarget], counts: Mapping[str, int]) -> list[AllocationTarget]:
    """The same targets with other replicas and the old ones as baseline."""
    return [
        replace(one, current=counts[one.name], baseline=one.current if one.baseline is None else one.baseline)
        for one in each
    ]
