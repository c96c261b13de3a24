"""One tick of a power policy: from a sample of the feed to a plan, or to the reason why there is none.

The published model (MENRA W. Romial, 2025, §3) with its contradictions decided; `paper.py` is the model as published.

* Watts W are those above the base power. A window opens where W >= R · (1 + deadband) or W <= R · (1 - deadband). The
  reference R moves only with an action.
* The whole window must confirm a change, not only its two ends (§3.1).
* The target is absolute: the anchor (W0, L0) carries L(W) = L0 · W / W0. Equation (1) of §3.2 instead multiplies the
  present count by 1 + (W - R) / R, so that its rounding errors add up.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from msgspec import structs

from ballast.power import absolute, paper
from ballast.power.allocation import AllocationTarget, ReplicaAllocation, allocate
from ballast.power.anchor import abandon, affordable, leave_plan, load_of, price_of, rebased, targets_of, wanted_change
from ballast.power.autoscaled import NO_AUTOSCALERS, Autoscaled
from ballast.power.controller_state import (
    NOTHING,
    Anchor,
    ChangeWindow,
    ControllerMode,
    ControllerResult,
    ControllerState,
    PowerPlan,
    Ramp,
    Reason,
    Sample,
)
from ballast.power.policy import PowerPolicy
from ballast.power.sections import ForeignChanges, Side, Stability, TargetBasis, WhenSilent

ZERO = Fraction(0)


def observe(
    policy: PowerPolicy,
    state: ControllerState,
    sample: Sample,
    replicas: Mapping[str, int],
    needed: Mapping[str, int] = NOTHING,
    autoscaled: Mapping[str, Autoscaled] = NO_AUTOSCALERS,
) -> ControllerResult:
    """What one sample changes. `replicas` are the present counts, by namespace/name, of all targets that take part.

    `needed` are the counts that targets need for their own load: they keep them as long as the others can give.
    `autoscaled` are the targets that an autoscaler scales; with an absolute budget `replicas` has their caps.

    The caller saves, applies and then commits a plan that is open in the resulting state. While a plan is open, nothing
    else happens. Never raises for any sample.
    """
    if state.plan is not None:
        return ControllerResult(state, Reason.PLAN_OPEN)
    at = sample.at
    state = absolute.metered(policy, state, sample, replicas, autoscaled)
    if at is None or sample.watts is None or (state.seen is not None and at <= state.seen):
        if policy.paper or at is None:
            return ControllerResult(state, Reason.INVALID)
        silence = _silence(policy, state, at, replicas)
        return absolute.limit_silence(policy, silence, sample, replicas, needed, autoscaled)
    if policy.paper:
        return paper.observe(policy, replace(state, seen=at), at, sample.watts, replicas)
    if policy.absolute:
        return absolute.observe(policy, state, sample, replicas, needed, autoscaled)
    bounded = sample.watts if sample.bound is None else min(sample.watts, sample.bound)
    watts = max(ZERO, bounded - policy.base_power)
    if state.seen is not None and at - state.seen >= policy.fallback.after:
        state = resumed(state)
    before = state
    state = state.with_sample(at, sample, watts)
    if state.reference is None or state.anchor is None:
        return _begin(policy, state, watts, replicas)
    tick = _AnchorTick(policy, state, at, watts, replicas, needed, autoscaled, fresh=state.has_new_sample(before))
    if replicas == state.last:
        return tick.outcome()
    if policy.on_foreign_change is ForeignChanges.REBASE:
        return replace(tick, state=rebased(policy, state, replicas)).outcome()
    return _enforce(tick)


@dataclass(frozen=True, slots=True)
class PlanReview:
    """What becomes of an open plan, and the state that follows from that."""

    state: ControllerState
    moved: tuple[str, ...] = ()
    """Targets that someone else changed since the plan was made: they have left it."""
    dropped: str | None = None
    """Why the plan is dropped, or None."""


def review_plan(
    policy: PowerPolicy,
    state: ControllerState,
    watts: Fraction | None,
    counts: Mapping[str, int],
    usable: Collection[str],
    *,
    failed: bool,
    outdated: str | None = None,
) -> PlanReview:
    """Whether the open plan still holds at these watts of the feed; the next plan decides about one that does not.

    `counts` are the present ones, of which `usable` can be changed; `failed`: writes of the plan did. `outdated` is
    what else ends the plan.
    """
    plan, last = state.plan, state.last
    assert plan is not None
    moved = tuple(
        n for n, count in counts.items() if n in plan.replicas and count not in (plan.replicas[n], last.get(n))
    )
    dropped = outdated
    if dropped is None and plan.reason != Reason.EMERGENCY and is_emergency(policy, state, watts):
        dropped = "the open plan gives way to an emergency"
    if dropped is None and policy.absolute and watts is not None:
        # What the plan leads to; where its writes failed, what runs now, since more of it may never come.
        ahead = {} if failed else {n: plan.replicas[n] for n in plan.replicas if n in usable and n not in moved}
        if policy.drawn({**counts, **ahead}) > absolute.carried(policy, watts):
            dropped = "the open plan gives way to what the watts carry now"
    if dropped is None:
        return PlanReview(leave_plan(policy, state, plan, {name: counts[name] for name in moved}), moved)
    # Ballast has set the plan's counts where they are reached, else the last ones; the rest are foreign changes.
    own = {n: count if counts.get(n) == count else last.get(n, count) for n, count in {**last, **plan.replicas}.items()}
    return PlanReview(abandon(policy, state, own), dropped=dropped)


def is_emergency(policy: PowerPolicy, state: ControllerState, watts: Fraction | None) -> bool:
    """Whether a sample of the feed is low enough for an emergency: W <= R · (1 - emergencyDrop.relative)."""
    drop, reference = policy.emergency_drop, state.reference
    if drop is None or watts is None or reference is None:
        return False
    return max(watts - policy.base_power, policy.floor) <= reference * (1 - drop.relative)


def resumed(state: ControllerState) -> ControllerState:
    """The state after a restart or a long silence: a window starts again, it is never shortened."""
    return replace(state.interrupted(), alarm=None, seen=None)


def rebaselined(state: ControllerState) -> ControllerState:
    """An empty state that keeps the count of plans and the energy: the next valid sample gives a new anchor."""
    return ControllerState(sequence=state.sequence, energy=state.energy)


@dataclass(frozen=True, slots=True)
class _AnchorTick:
    """One valid sample against a state with an anchor. `watts` are those above the base power."""

    policy: PowerPolicy
    state: ControllerState
    at: Fraction
    watts: Fraction
    replicas: Mapping[str, int]
    needed: Mapping[str, int]
    autoscaled: Mapping[str, Autoscaled]
    fresh: bool
    """Whether the feed has a new sample."""

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
            alarm = self._with_sample(self.state.alarm)
        tick = replace(self, state=replace(self.state, alarm=alarm))
        if drop and alarm and alarm.count >= drop.samples:
            return tick._act(-1, alarm.high, Reason.EMERGENCY, limited=False)
        return tick._ramp() if tick.state.ramp else tick._follow()

    def _follow(self) -> ControllerResult:
        state, sign = self.state, self._direction(self.reference)
        cancelled = state.mode is not ControllerMode.STABLE and state.mode.sign != sign
        if not sign:
            return ControllerResult(
                state.settled(), Reason.CANCELLED if cancelled else Reason.INSIDE, cancelled=cancelled
            )
        mode = ControllerMode.of(sign)
        opened = state.window is None or state.mode is not mode
        window = self._with_sample(None if opened else state.window)
        state = replace(state, mode=mode, window=window)
        length = self._side(sign).window
        if self.at - window.since < length or (length and window.count < 2):
            return ControllerResult(state, Reason.detected(sign) if opened else Reason.WAITING, cancelled=cancelled)
        tick = replace(self, state=state)
        level = tick._level(window, sign)
        if level is None:
            return replace(tick._stay(self.watts, Reason.UNSTABLE), cancelled=True)
        return replace(tick._act(sign, level, Reason.scaled(sign)), cancelled=cancelled)

    def _with_sample(self, window: ChangeWindow | None) -> ChangeWindow:
        """The window with the present sample, which counts once however many ticks see it."""
        if window is None:
            return ChangeWindow.opened(self.at, self.watts)
        return window.add(self.watts) if self.fresh else window

    def _level(self, window: ChangeWindow, sign: int) -> Fraction | None:
        """The watts that the window confirms; None where it confirms nothing.

        With all samples within the tolerance t, high - low <= t · low, the newest; else the most cautious: the lowest
        of an increase, the highest of a decrease. ENDPOINT compares the first and the newest only (§3.1).
        """
        tolerance = self._side(sign).tolerance
        if self.policy.stability is Stability.ENDPOINT:
            first = self._at_least_floor(window.first)
            return self.watts if abs(self._at_least_floor(self.watts) - first) <= tolerance * first else None
        low, high = self._at_least_floor(window.low), self._at_least_floor(window.high)
        if high - low <= tolerance * low:
            return self.watts
        return window.low if sign > 0 else window.high

    def _ramp(self) -> ControllerResult:
        """The next step of a change that a rate limit has cut, unless the watts have come back."""
        ramp, sign = self.state.ramp, self.state.mode.sign
        assert ramp is not None
        beyond = (self._at_least_floor(self.watts) - self.reference) * sign > 0
        if not beyond or self._direction(self._at_least_floor(ramp.level)) == -sign:
            settled = replace(self, state=self.state.settled())
            return replace(settled._follow(), cancelled=True)
        step = self._side(sign).max_step
        if step and self.at - ramp.stepped < step.period:
            return ControllerResult(self.state, Reason.RATE_LIMITED)
        return self._act(sign, ramp.level, Reason.scaled(sign))

    def _act(self, sign: int, level: Fraction, reason: Reason, *, limited: bool = True) -> ControllerResult:
        """A plan for the load L(level) = L0 · level / W0, rounded to whole replicas, within bounds and `maxStep`.

        No plan where the change is 0. A plan that `maxStep` cuts moves the reference only to W0 · L / L0, the price of
        the load L it reaches.
        """
        policy, targets = self.policy, targets_of(self.policy, self.replicas, self.state.baseline, self.needed)
        active = [target for target in targets if not target.suspended]
        current = sum(target.current for target in active)
        anchor = self.anchor if policy.reference is TargetBasis.ANCHOR else Anchor(self.reference, load_of(active))
        change = wanted_change(
            active,
            affordable(anchor, level) if level >= policy.floor else ZERO,
            policy.rounds,
            lambda change: load_of(_after(active, self._split(active, change))),
        )
        lowest, highest = sum(target.minimum for target in active), sum(target.maximum for target in active)
        delta = min(max(current + change, lowest), highest) - current
        unmet = change - delta
        # If the sign flips, others changed the replicas: the reference is reset to the watts of the current load, and a
        # window in the other direction opens.
        if max(delta * sign, change * sign) < 0:
            corrected = replace(self.state.settled(), reference=price_of(policy, anchor, load_of(active)))
            return replace(replace(self, state=corrected)._follow(), cancelled=True)
        if delta * sign <= 0:
            reason = Reason.AT_LIMIT if change * sign > 0 else Reason.ROUNDS_TO_ZERO
            return replace(self._stay(level, reason), unmet=unmet)
        step = self._side(sign).max_step if limited else None
        cut = step is not None and abs(delta) > step.of(current)
        if step and cut:
            delta = sign * step.of(current)
        split = self._split(active, delta)
        counts = {target.name: target.current + split.changes.get(target.name, 0) for target in targets}
        reference, ramp, mode = self._at_least_floor(level), None, ControllerMode.STABLE
        if cut:
            reference = price_of(policy, anchor, load_of(_after(active, split)))
            ramp, mode = Ramp(level, self.at), ControllerMode.of(sign)
        plan = PowerPlan(self.state.sequence + 1, self.at, reason, counts, reference, ramp, mode)
        return ControllerResult(replace(self.state, plan=plan), reason, unmet=unmet)

    def _split(self, targets: list[AllocationTarget], delta: int) -> ReplicaAllocation:
        return allocate(targets, delta, restore_first=self.policy.restore_first)

    def _stay(self, level: Fraction, reason: Reason) -> ControllerResult:
        """No replica changes; the reference moves only with `reference: paper`."""
        state = self.state.settled()
        if self.policy.reference is TargetBasis.PAPER:
            state = replace(state, reference=self._at_least_floor(level))
        return ControllerResult(state, reason)

    def _direction(self, reference: Fraction) -> int:
        """+1 above the dead band around `reference`, −1 below it, 0 inside."""
        watts, deadband = self._at_least_floor(self.watts), self.policy.deadband
        return (watts >= reference * (1 + deadband)) - (watts <= reference * (1 - deadband))

    def _side(self, sign: int) -> Side:
        return self.policy.increase if sign > 0 else self.policy.decrease

    def _at_least_floor(self, watts: Fraction) -> Fraction:
        return max(watts, self.policy.floor)


def _begin(
    policy: PowerPolicy, state: ControllerState, watts: Fraction, replicas: Mapping[str, int]
) -> ControllerResult:
    """The first valid sample, or the policy's `nominal`, becomes the anchor; no replica changes."""
    targets = targets_of(policy, replicas, {})
    load, nominal = load_of(targets), policy.nominal
    if nominal is None:
        if watts < policy.floor:
            return ControllerResult(state, Reason.BELOW_FLOOR)
        anchor, reference = Anchor(watts, load), watts
    else:
        total = sum(target.current for target in targets)
        mean_watts = load / total if total else Fraction(1)
        anchor = Anchor(nominal.watts - policy.base_power, nominal.replicas * mean_watts)
        reference = price_of(policy, anchor, load)
    state = replace(state, anchor=anchor, reference=reference, last=dict(replicas), baseline=dict(replicas))
    return ControllerResult(state, Reason.BOOTSTRAPPED)


def _silence(
    policy: PowerPolicy, state: ControllerState, at: Fraction, replicas: Mapping[str, int]
) -> ControllerResult:
    """No usable sample: nothing changes until `fallback.after` seconds have passed."""
    if state.reference is None:
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
        fixed = policy.fallback.replicas or {}
        counts = {
            target.name: min(max(fixed.get(target.name, target.current), target.minimum), target.maximum)
            for target in targets
        }
    counts = {**replicas, **counts}
    if counts == replicas:
        return ControllerResult(state, Reason.FALLBACK)
    load = load_of(targets_of(policy, counts, {}))
    reference = price_of(policy, state.anchor, load) if state.anchor is not None else absolute.feed_for(policy, load)
    plan = PowerPlan(state.sequence + 1, at, Reason.FALLBACK, counts, reference)
    return ControllerResult(replace(state, plan=plan), Reason.FALLBACK)


def _enforce(tick: _AnchorTick) -> ControllerResult:
    """Someone else changed replicas: the counts decided before are restored, with what this sample asks for.

    What someone stopped stays stopped, what someone started again stays started, and what an autoscaler decides stays.
    """
    policy, state, present = tick.policy, tick.state, tick.replicas
    left_alone = {
        name
        for name, count in present.items()
        if name not in state.last
        or name in tick.autoscaled
        or (policy.places[name].member.min and not (count and state.last[name]))
    }
    decided = {name: count if name in left_alone else state.last[name] for name, count in present.items()}
    state = rebased(policy, state, decided)
    outcome = replace(tick, state=state, replicas=decided).outcome()
    after = outcome.state
    if after.plan is not None or decided == present or after.reference is None:
        return outcome
    undo = PowerPlan(after.sequence + 1, tick.at, Reason.FOREIGN_CHANGE, decided, after.reference, closes_window=False)
    return replace(outcome, state=replace(after, plan=undo), reason=Reason.FOREIGN_CHANGE)


def _after(targets: list[AllocationTarget], split: ReplicaAllocation) -> list[AllocationTarget]:
    return [structs.replace(target, current=target.current + split.changes[target.name]) for target in targets]
