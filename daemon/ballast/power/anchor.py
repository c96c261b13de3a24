"""How much load (replicas, weighted with their watts) a power budget carries, and what others' changes do to that.

The anchor is one pair of watts W0 and load L0. A budget of W watts carries L(W) = L0 · W / W0. This is absolute: errors
of earlier steps do not add up. When others change replicas, or targets come and go, the anchor moves with them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, lcm

from ballast.power.allocation import AllocationTarget
from ballast.power.controller_state import NOTHING, Anchor, ControllerState, DepartedShare, PowerPlan
from ballast.power.policy import PowerPolicy
from ballast.power.sections import ForeignChanges, Rounding

HALF = Fraction(1, 2)
_PRECISION = 10**30


def targets_of(
    policy: PowerPolicy, replicas: Mapping[str, int], baseline: Mapping[str, int], needed: Mapping[str, int] = NOTHING
) -> list[AllocationTarget]:
    """The members with a count in `replicas`, as targets of an allocation."""
    places = policy.places
    return [
        AllocationTarget(
            name=name,
            current=count,
            minimum=(member := (place := places[name]).member).min,
            maximum=member.max,
            group=place.group,
            weight=member.weight,
            watts=member.watts,
            baseline=baseline.get(name),
            needed=needed.get(name, 0),
            priority=place.priority,
        )
        for name, count in replicas.items()
        if name in places
    ]


def load_of(targets: Sequence[AllocationTarget]) -> Fraction:
    """The sum of replicas · watts per replica over all targets."""
    scale = lcm(*(target.watts.denominator for target in targets))
    whole = (target.current * target.watts.numerator * (scale // target.watts.denominator) for target in targets)
    return Fraction(sum(whole), scale)


def affordable(anchor: Anchor, watts: Fraction) -> Fraction:
    """The load that `watts` carry: L0 · watts / W0."""
    return anchor.load * watts / anchor.watts


def price(anchor: Anchor, load: Fraction) -> Fraction | None:
    """The watts that carry `load`: W0 · load / L0; None where the anchor has no load."""
    return anchor.watts * load / anchor.load if anchor.load else None


def price_of(policy: PowerPolicy, anchor: Anchor, load: Fraction) -> Fraction:
    """The watts that carry `load`, at least the floor."""
    return max(price(anchor, load) or ZERO, policy.floor)


def shifted(anchor: Anchor, before: Fraction, change: Fraction, reference: Fraction, heaviest: Fraction) -> Anchor:
    """The anchor after someone else changed the load of `before` by `change` at `reference` watts R.

    Usually L0' = L0 + change · W0 / R, so that L(R) changes by exactly `change`. Where bounds keep the load further
    from L(R) than rounding to whole replicas (of `heaviest` watts) would, L0' = L0 · (before + change) / before: the
    absolute change would be many times itself at other watts. When all load goes or comes the anchor stays as it is.
    """
    after, carried = before + change, affordable(anchor, reference)
    if anchor.load and (before <= 0 or after <= 0):
        return anchor
    if not anchor.load or (-HALF * heaviest <= carried - before <= heaviest and carried + change > 0):
        moved = max(Fraction(0), anchor.load + change * anchor.watts / reference)
    else:
        moved = anchor.load * after / before
    return Anchor(anchor.watts, moved.limit_denominator(_PRECISION))


def rounded(ideal: Fraction, current: int, rounding: Rounding) -> int:
    """`ideal` replicas as a whole number; NEAREST_AWAY rounds halves away from `current`."""
    if rounding is Rounding.FLOOR:
        return floor(ideal)
    if rounding is Rounding.NEAREST_AWAY and ideal > current:
        return floor(ideal + HALF)
    return ceil(ideal - HALF)


def wanted_change(
    targets: Sequence[AllocationTarget], load: Fraction, rounding: Rounding, after: Callable[[int], Fraction]
) -> int:
    """By how many replicas the total should change to reach `load`; bounds of targets are ignored.

    With equal watts w per replica: round(load / w) − current. Otherwise the largest change whose load, `after(change)`,
    stays within `load`, found by bisection.
    """
    current = sum(target.current for target in targets)
    watts = {target.watts for target in targets}
    if len(watts) == 1:
        return rounded(load / watts.pop(), current, rounding) - current
    lowest = sum(min(0, target.minimum - target.current) for target in targets)
    highest = sum(max(0, target.maximum - target.current) for target in targets)
    if load_of(targets) > load:
        highest = 0
    else:
        lowest = 0
    while lowest < highest:
        middle = -((-lowest - highest) // 2)
        if after(middle) <= load:
            lowest = middle
        else:
            highest = middle - 1
    return lowest


ZERO = Fraction(0)


def without(policy: PowerPolicy, state: ControllerState, gone: Mapping[str, Fraction]) -> ControllerState:
    """The state after targets left the policy; their share of the load leaves the anchor.

    `gone` gives the watts of one replica by namespace/name.
    """
    if state.anchor is not None and state.reference is not None:
        watts = {**{name: place.member.watts for name, place in policy.places.items()}, **gone}
        leaving = {name: -state.last[name] for name in gone if name in state.last}
        state = replace(state, anchor=_shifted(state, leaving, watts))
    away = {name: share for name, share in state.away.items() if name not in gone}

    def rest(counts: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in counts.items() if name not in gone}

    plan = state.plan and replace(state.plan, replicas=rest(state.plan.replicas))
    return replace(
        state, last=rest(state.last), baseline=rest(state.baseline), entitled=rest(state.entitled), away=away, plan=plan
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


def leave_plan(
    policy: PowerPolicy, state: ControllerState, plan: PowerPlan, moved: Mapping[str, int]
) -> ControllerState:
    """The state with these targets out of the open plan: they keep the counts that someone else gave them.

    With an anchor the reference will be the watts that carry what is reached without them.
    """
    if not moved:
        return state
    plan = replace(plan, replicas={**plan.replicas, **moved})
    if state.anchor is not None:
        if policy.on_foreign_change is ForeignChanges.REBASE:
            state = rebased(policy, state, {**state.last, **moved})
        assert state.anchor is not None
        plan = replace(plan, reference=price_of(policy, state.anchor, load_of(targets_of(policy, plan.replicas, {}))))
    return replace(state, plan=plan)


def abandon(policy: PowerPolicy, state: ControllerState, replicas: Mapping[str, int]) -> ControllerState:
    """Drops an open plan that may have been applied in part; the next plan starts from `replicas`."""
    state = replace(state.settled(), plan=None, last=dict(replicas))
    if state.anchor is None or state.reference is None:
        return state
    return replace(
        state, reference=price_of(policy, state.anchor, load_of(targets_of(policy, replicas, state.baseline)))
    )


def _left(state: ControllerState, names: Iterable[str], watts: Mapping[str, Fraction]) -> ControllerState:
    """Targets that no longer take part: their share of the anchor's load is taken off and remembered in `away`."""
    for name in names:
        assert state.anchor is not None
        count, anchor = state.last[name], _shifted(state, {name: -state.last[name]}, watts)
        away = {**state.away, name: DepartedShare(state.anchor.load - anchor.load, count)}
        last = {other: n for other, n in state.last.items() if other != name}
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
    away = {name: share for name, share in state.away.items() if name not in counts}
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
