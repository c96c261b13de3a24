"""One tick of a budget: from a sample of the feed to a plan, or to the reason why there is none.

The published model (MENRA W. Romial, 2025) with its contradictions decided: the reference moves with an action alone,
the whole window confirms a change, and the target is absolute. `paper.py` is the model as it was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from ballast.power import paper
from ballast.power.allocation import ReplicaAllocation, Target, allocate
from ballast.power.anchor import affordable, load_of, price, shifted, wanted_change
from ballast.power.controller_result import NOTHING, ControllerResult, Reason, Sample, after_plan, targets_of
from ballast.power.controller_state import Anchor, Away, ChangeWindow, ControllerMode, ControllerState, PowerPlan, Ramp
from ballast.power.policy import Basis, Foreign, PowerPolicy, Side, Stability, WhenSilent

ZERO = Fraction(0)


def observe(
    policy: PowerPolicy,
    state: ControllerState,
    sample: Sample,
    replicas: Mapping[str, int],
    needed: Mapping[str, int] = NOTHING,
) -> ControllerResult:
    """What one sample changes. `replicas` are those there are now, of every target that takes part.

    `needed` are those a target asks for by its own load: it keeps them as long as the others can give.

    An open plan in the state of the answer is to be stored, applied and then committed; as long as it is open nothing
    else happens. Never raises for any sample.
    """
    if state.plan is not None:
        return ControllerResult(state, Reason.PLAN_OPEN)
    at = sample.at
    if at is None or sample.watts is None or (state.seen is not None and at <= state.seen):
        return (
            ControllerResult(state, Reason.INVALID)
            if policy.paper or at is None
            else _silence(policy, state, at, replicas)
        )
    if policy.paper:
        return paper.observe(policy, replace(state, seen=at), at, sample.watts, replicas)
    watts = max(ZERO, sample.watts - policy.base_power)
    if state.seen is not None and at - state.seen >= policy.fallback.after:
        state = resumed(state)
    state = replace(state, seen=at)
    if state.reference is None or state.anchor is None:
        return _begin(policy, state, watts, replicas)
    tick = _Tick(policy, state, at, watts, replicas, needed)
    if replicas == state.last:
        return tick.outcome()
    if policy.on_foreign_change is Foreign.REBASE:
        return replace(tick, state=_rebased(policy, state, replicas)).outcome()
    return _enforced(tick)


def commit(state: ControllerState) -> ControllerState:
    """After the open plan was applied: it is closed, the reference moves."""
    return after_plan(state)


def abandon(policy: PowerPolicy, state: ControllerState, replicas: Mapping[str, int]) -> ControllerState:
    """Drops an open plan that may have been applied in part: what is there now is where the next one begins."""
    if state.anchor is None or state.reference is None:
        return replace(state.settled(), plan=None, last=dict(replicas))
    reference = _price(policy, state.anchor, load_of(targets_of(policy, replicas, state.baseline)))
    return replace(state.settled(), plan=None, last=dict(replicas), reference=reference)


def resumed(state: ControllerState) -> ControllerState:
    """After a restart or a long silence: a window begins anew, it is never shortened."""
    return replace(state.settled(), alarm=None, seen=None)


def rebaselined(state: ControllerState) -> ControllerState:
    """Everything forgotten but the count of plans: the next valid sample is the new beginning."""
    return ControllerState(sequence=state.sequence)


def without(policy: PowerPolicy, state: ControllerState, gone: Mapping[str, Fraction]) -> ControllerState:
    """After targets have left the policy, given with the watts of one replica: they take their share along."""
    if state.anchor is not None and state.reference is not None:
        watts = {**{name: place.member.watts for name, place in policy.places.items()}, **gone}
        leaving = {name: -state.last[name] for name in gone if name in state.last}
        state = replace(state, anchor=_shifted(state, leaving, watts))
    away = {name: each for name, each in state.away.items() if name not in gone}

    def rest(counts: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in counts.items() if name not in gone}

    plan = state.plan and replace(state.plan, replicas=rest(state.plan.replicas))
    return replace(state, last=rest(state.last), baseline=rest(state.baseline), away=away, plan=plan)


@dataclass(frozen=True, slots=True)
class _Tick:
    policy: PowerPolicy
    state: ControllerState
    at: Fraction
    watts: Fraction
    replicas: Mapping[str, int]
    needed: Mapping[str, int]

    @property
    def reference(self) -> Fraction:
        assert self.state.reference is not None
        return self.state.reference

    @property
    def anchor(self) -> Anchor:
        assert self.state.anchor is not None
        return self.state.anchor

    def outcome(self) -> ControllerResult:
        drop = self.policy.emergency_drop
        alarm = None
        if drop and self._at_least_floor(self.watts) <= self.reference * (1 - drop.relative):
            alarm = self.state.alarm.add(self.watts) if self.state.alarm else ChangeWindow.opened(self.at, self.watts)
        tick = replace(self, state=replace(self.state, alarm=alarm))
        if drop and alarm and alarm.count >= drop.samples:
            return tick._act(-1, alarm.high, Reason.EMERGENCY, limited=False)
        return tick._ramp() if tick.state.ramp else tick._follow()

    def _follow(self) -> ControllerResult:
        state, sign = self.state, self._direction(self.reference)
        left = state.mode is not ControllerMode.STABLE and state.mode.sign != sign
        if not sign:
            return ControllerResult(state.settled(), Reason.CANCELLED if left else Reason.INSIDE, cancelled=left)
        mode = ControllerMode.of(sign)
        window = state.window.add(self.watts) if state.window and state.mode is mode else None
        opened = window is None
        window = window or ChangeWindow.opened(self.at, self.watts)
        state = replace(state, mode=mode, window=window)
        if self.at - window.since < self._side(sign).window:
            return ControllerResult(state, Reason.detected(sign) if opened else Reason.WAITING, cancelled=left)
        tick = replace(self, state=state)
        level = tick._level(window, sign)
        if level is None:
            return replace(tick._stay(self.watts, Reason.UNSTABLE), cancelled=True)
        return replace(tick._act(sign, level, Reason.scaled(sign)), cancelled=left)

    def _level(self, window: ChangeWindow, sign: int) -> Fraction | None:
        """The watts that the window confirms; None where it confirms nothing."""
        tolerance = self._side(sign).tolerance
        if self.policy.stability is Stability.ENDPOINT:
            first = self._at_least_floor(window.first)
            return self.watts if abs(self._at_least_floor(self.watts) - first) <= tolerance * first else None
        low, high = self._at_least_floor(window.low), self._at_least_floor(window.high)
        if high - low <= tolerance * low:
            return self.watts
        return window.low if sign > 0 else window.high

    def _ramp(self) -> ControllerResult:
        """The next step of a change that was cut, unless the feed says the contrary or came to the reference."""
        ramp, sign = self.state.ramp, self.state.mode.sign
        assert ramp is not None
        beyond = (self._at_least_floor(self.watts) - self.reference) * sign > 0
        if not beyond or self._direction(self._at_least_floor(ramp.level)) == -sign:
            calm = replace(self, state=self.state.settled())
            return replace(calm._follow(), cancelled=True)
        step = self._side(sign).max_step
        if step and self.at - ramp.stepped < step.period:
            return ControllerResult(self.state, Reason.RATE_LIMITED)
        return self._act(sign, ramp.level, Reason.scaled(sign))

    def _act(self, sign: int, level: Fraction, reason: Reason, *, limited: bool = True) -> ControllerResult:
        policy, targets = self.policy, targets_of(self.policy, self.replicas, self.state.baseline, self.needed)
        active = [target for target in targets if not target.suspended]
        current = sum(target.current for target in active)
        anchor = self.anchor if policy.reference is Basis.ANCHOR else Anchor(self.reference, load_of(active))
        wanted = wanted_change(
            active,
            affordable(anchor, level) if level >= policy.floor else ZERO,
            policy.rounds,
            lambda change: load_of(_after(active, self._split(active, change))),
        )
        lowest, highest = sum(target.minimum for target in active), sum(target.maximum for target in active)
        delta = min(max(current + wanted, lowest), highest) - current
        unmet = wanted - delta
        if delta * sign <= 0:
            none = Reason.AT_LIMIT if wanted * sign > 0 else Reason.ROUNDS_TO_ZERO
            return replace(self._stay(level, none), unmet=unmet)
        step = self._side(sign).max_step if limited else None
        cut = step is not None and abs(delta) > step.of(current)
        if step and cut:
            delta = sign * step.of(current)
        split = self._split(active, delta)
        counts = {target.name: target.current + split.changes.get(target.name, 0) for target in targets}
        reference, ramp, mode = self._at_least_floor(level), None, ControllerMode.STABLE
        if cut:
            reference = _price(policy, anchor, load_of(_after(active, split)))
            ramp, mode = Ramp(level, self.at), ControllerMode.of(sign)
        plan = PowerPlan(self.state.sequence + 1, self.at, reason, counts, reference, ramp, mode)
        return ControllerResult(replace(self.state, plan=plan), reason, unmet=unmet)

    def _split(self, targets: list[Target], delta: int) -> ReplicaAllocation:
        return allocate(targets, delta, restore_first=self.policy.restore_first)

    def _stay(self, level: Fraction, reason: Reason) -> ControllerResult:
        """Nothing to do after all; only in the published reading does the reference move."""
        state = self.state.settled()
        if self.policy.reference is Basis.PAPER:
            state = replace(state, reference=self._at_least_floor(level))
        return ControllerResult(state, reason)

    def _direction(self, reference: Fraction) -> int:
        watts, deadband = self._at_least_floor(self.watts), self.policy.deadband
        return (watts >= reference * (1 + deadband)) - (watts <= reference * (1 - deadband))

    def _side(self, sign: int) -> Side:
        return self.policy.increase if sign > 0 else self.policy.decrease

    def _at_least_floor(self, watts: Fraction) -> Fraction:
        return max(watts, self.policy.floor)


def _begin(
    policy: PowerPolicy, state: ControllerState, watts: Fraction, replicas: Mapping[str, int]
) -> ControllerResult:
    """The first valid sample, or what the policy calls nominal, becomes the anchor; nothing is done yet."""
    targets = targets_of(policy, replicas, {})
    load, nominal = load_of(targets), policy.nominal
    if nominal is None:
        if watts < policy.floor:
            return ControllerResult(state, Reason.BELOW_FLOOR)
        anchor, reference = Anchor(watts, load), watts
    else:
        total = sum(target.current for target in targets)
        each = load / total if total else Fraction(1)
        anchor = Anchor(nominal.watts - policy.base_power, nominal.replicas * each)
        reference = _price(policy, anchor, load)
    state = replace(state, anchor=anchor, reference=reference, last=dict(replicas), baseline=dict(replicas))
    return ControllerResult(state, Reason.BOOTSTRAPPED)


def _silence(
    policy: PowerPolicy, state: ControllerState, at: Fraction, replicas: Mapping[str, int]
) -> ControllerResult:
    """No usable sample: everything stays, until the fallback is due."""
    if state.anchor is None:
        return ControllerResult(state, Reason.INVALID)
    if state.seen is None:
        return ControllerResult(replace(state, seen=at), Reason.INVALID)
    if at - state.seen < policy.fallback.after:
        return ControllerResult(state, Reason.INVALID)
    if policy.fallback.policy is WhenSilent.HOLD:
        return ControllerResult(state, Reason.FALLBACK)
    targets = [target for target in targets_of(policy, replicas, state.baseline) if not target.suspended]
    if policy.fallback.policy is WhenSilent.FLOOR:
        counts = {target.name: target.minimum for target in targets}
    else:
        said = policy.fallback.replicas or {}
        counts = {
            target.name: min(max(said.get(target.name, target.current), target.minimum), target.maximum)
            for target in targets
        }
    counts = {**replicas, **counts}
    if counts == replicas:
        return ControllerResult(state, Reason.FALLBACK)
    reference = _price(policy, state.anchor, load_of(targets_of(policy, counts, {})))
    plan = PowerPlan(state.sequence + 1, at, Reason.FALLBACK, counts, reference)
    return ControllerResult(replace(state, plan=plan), Reason.FALLBACK)


def _rebased(policy: PowerPolicy, state: ControllerState, replicas: Mapping[str, int]) -> ControllerState:
    """Someone else changed replicas: the anchor moves with them, so that they are neither undone nor amplified.

    Who does not take part for a while has its share of the load and its baseline again afterwards.
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
    """Their share of the load goes with them, and is remembered."""
    for name in names:
        assert state.anchor is not None
        count, anchor = state.last[name], _shifted(state, {name: -state.last[name]}, watts)
        away = {**state.away, name: Away(state.anchor.load - anchor.load, count)}
        last = {other: each for other, each in state.last.items() if other != name}
        state = replace(state, anchor=anchor, last=last, away=away)
    return state


def _came(state: ControllerState, counts: Mapping[str, int], watts: Mapping[str, Fraction]) -> ControllerState:
    """They bring the share they had; replicas that are new count as they would at the anchor's watts, or at more."""
    if not counts:
        return state
    assert state.anchor is not None
    assert state.reference is not None
    anchor, price_now = state.anchor, min(Fraction(1), state.anchor.watts / state.reference)
    load = anchor.load
    for name, count in counts.items():
        before = state.away.get(name, Away(ZERO, 0))
        load += before.load + (count - before.count) * watts[name] * price_now
    away = {name: each for name, each in state.away.items() if name not in counts}
    return replace(state, anchor=Anchor(anchor.watts, max(ZERO, load)), last={**state.last, **counts}, away=away)


def _shifted(state: ControllerState, changes: Mapping[str, int], watts: Mapping[str, Fraction]) -> Anchor:
    """The anchor after these changes; `watts` are those of one replica of everyone concerned."""
    assert state.anchor is not None
    assert state.reference is not None
    change = sum((watts[name] * count for name, count in changes.items()), ZERO)
    if not change:
        return state.anchor
    before = sum((watts[name] * count for name, count in state.last.items() if name in watts), ZERO)
    return shifted(state.anchor, before, change, state.reference, max(watts.values()))


def _enforced(tick: _Tick) -> ControllerResult:
    """Someone else changed replicas: what was decided before comes back, with what this sample asks for."""
    policy, state, found = tick.policy, tick.state, tick.replicas
    left_alone = {
        name
        for name, count in found.items()
        if name not in state.last or (not count and policy.places[name].member.min)
    }
    decided = {name: count if name in left_alone else state.last[name] for name, count in found.items()}
    state = _rebased(policy, state, decided)
    outcome = replace(tick, state=state, replicas=decided).outcome()
    after = outcome.state
    if after.plan is not None or decided == found or after.reference is None:
        return outcome
    undo = PowerPlan(after.sequence + 1, tick.at, Reason.FOREIGN_CHANGE, decided, after.reference, closes_window=False)
    return replace(outcome, state=replace(after, plan=undo), reason=Reason.FOREIGN_CHANGE)


def _price(policy: PowerPolicy, anchor: Anchor, load: Fraction) -> Fraction:
    return max(price(anchor, load) or ZERO, policy.floor)


def _after(targets: list[Target], split: ReplicaAllocation) -> list[Target]:
    return [replace(target, current=target.current + split.changes[target.name]) for target in targets]
