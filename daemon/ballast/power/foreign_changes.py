"""What changes of replicas by others, and targets that come and go, do to an anchor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from ballast.power.anchor import shifted
from ballast.power.controller_state import Anchor, ControllerState, DepartedShare
from ballast.power.policy import PowerPolicy

ZERO = Fraction(0)


def without(policy: PowerPolicy, state: ControllerState, gone: Mapping[str, Fraction]) -> ControllerState:
    """The state after targets left the policy; their share of the load leaves the anchor.

    `gone` gives the watts of one replica by namespace/name.
    """
    if state.anchor is not None and state.reference is not None:
        watts = {**{name: place.member.watts for name, place in policy.places.items()}, **gone}
        leaving = {name: -state.last[name] for name in gone if name in state.last}
        state = replace(state, anchor=_shifted(state, leaving, watts))
    away = {name: each for name, each in state.away.items() if name not in gone}

    def rest(counts: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in counts.items() if name not in gone}

    plan = state.plan and replace(state.plan, replicas=rest(state.plan.replicas))
    return replace(
        state,
        last=rest(state.last),
        baseline=rest(state.baseline),
        entitled=rest(state.entitled),
        away=away,
        plan=plan,
    )


def rebased(policy: PowerPolicy, state: ControllerState, replicas: Mapping[str, int]) -> ControllerState:
    """Someone else changed replicas: the anchor moves with them (see `shifted`), so that nothing is undone.

    A target that does not take part for a while gets its share of the load and its baseline back afterwards.
    """
    last, places = state.last, policy.places
    watts = {name: places[name].member.watts for name in {**last, **replicas} if name in places}
    state = _came(state, {name: count for name, count in replicas.items() if name not in last}, watts)
    state = _left(state, [name for name in last if name in watts and name not in replicas], watts)
    changes = {name: replicas[name] - count for name, count in last.items() if name in replicas}
    baseline = {
        name: max(0, state.baseline[name] + changes.get(name, 0)) if name in state.baseline else replicas[name]
        for name in {**state.baseline, **replicas}
    }
    anchor = _shifted(state, changes, watts)
    return replace(state, anchor=anchor, baseline=baseline, last=dict(replicas))


def _left(state: ControllerState, names: Iterable[str], watts: Mapping[str, Fraction]) -> ControllerState:
    """Targets that no longer take part: their share of the anchor's load is taken off and remembered in `away`."""
    for name in names:
        assert state.anchor is not None
        count, anchor = state.last[name], _shifted(state, {name: -state.last[name]}, watts)
        away = {**state.away, name: DepartedShare(state.anchor.load - anchor.load, count)}
        last = {other: each for other, each in state.last.items() if other != name}
        state = replace(state, anchor=anchor, last=last, away=away)
    return state


def _came(state: ControllerState, counts: Mapping[str, int], watts: Mapping[str, Fraction]) -> ControllerState:
    """Targets that take part again, or for the first time: L0 grows by their share.

    L0' = L0 + before.load + (count - before.count) · w · min(1, W0 / R), with `before` as remembered in `away` (0 for
    a new target), w the watts of one replica and R the reference. Below the anchor's watts (R < W0) a new replica
    counts as one at W0, of which R carries only R / W0; above them it counts so that R carries it whole.
    """
    if not counts:
        return state
    assert state.anchor is not None
    assert state.reference is not None
    anchor, price_now = state.anchor, min(Fraction(1), state.anchor.watts / state.reference)
    load = anchor.load
    for name, count in counts.items():
        before = state.away.get(name, DepartedShare(ZERO, 0))
        load += before.load + (count - before.count) * watts[name] * price_now
    away = {name: each for name, each in state.away.items() if name not in counts}
    return replace(state, anchor=Anchor(anchor.watts, max(ZERO, load)), last={**state.last, **counts}, away=away)


def _shifted(state: ControllerState, changes: Mapping[str, int], watts: Mapping[str, Fraction]) -> Anchor:
    """The anchor after these changes of counts; `watts` are those of one replica, by namespace/name."""
    assert state.anchor is not None
    assert state.reference is not None
    change = sum((watts[name] * count for name, count in changes.items()), ZERO)
    if not change:
        return state.anchor
    before = sum((watts[name] * count for name, count in state.last.items() if name in watts), ZERO)
    return shifted(state.anchor, before, change, state.reference, max(watts.values()))
