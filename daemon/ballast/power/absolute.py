"""One tick of an absolute budget: the watts of all replicas stay within the feed.

Σ watts · replicas + base <= feed · (1 - margin), judged at every tick with the newest sample, whoever changed what. A
fall acts at once (or after `decrease.window`); a rise waits until the watts have carried it for `increase.window` by
more than the dead band. No state is needed for that: what ran before does not matter.

A target with an autoscaler counts with its entitlement: the part of the autoscaler's own maximum that the watts carry.
While they carry all of them there are no caps; else every autoscaler has one (see `lend`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from msgspec import structs

from ballast.power.allocation import AllocationTarget
from ballast.power.anchor import targets_of
from ballast.power.autoscaled import NO_AUTOSCALERS, Autoscaled, lend
from ballast.power.controller_state import (
    NOTHING,
    ChangeWindow,
    ControllerMode,
    ControllerResult,
    ControllerState,
    EnergyMeter,
    FeedReading,
    PowerPlan,
    Ramp,
    Reason,
    Sample,
)
from ballast.power.fit import fill, shed, within_bounds
from ballast.power.policy import PowerPolicy
from ballast.power.sections import ForeignChanges, Side

ZERO = Fraction(0)


def observe(
    policy: PowerPolicy,
    state: ControllerState,
    sample: Sample,
    replicas: Mapping[str, int],
    needed: Mapping[str, int] = NOTHING,
    autoscaled: Mapping[str, Autoscaled] = NO_AUTOSCALERS,
) -> ControllerResult:
    """What one valid sample changes. `replicas` are the present counts, of `autoscaled` targets the caps in force."""
    at, watts = sample.at, sample.watts
    assert at is not None
    assert watts is not None
    if state.seen is not None and at - state.seen >= policy.fallback.after:
        state = replace(state.settled(), measured=None)
    before = state.measured
    time = at if sample.time is None else sample.time
    measured = FeedReading(time, watts, watts) if before is None else before.then(time, watts)
    state = replace(state, seen=at, measured=measured)
    bound = sample.bound
    if policy.energy is not None:
        used = state.energy or EnergyMeter(at, ZERO, at, ZERO)
        used = used.until(at, policy.energy.per)
        state = replace(state, energy=used)
        rest = policy.energy.watts(used.used, policy.energy.per - (at - used.since))
        bound = rest if bound is None else min(bound, rest)
    tick = _AbsoluteTick(policy, state, at, replicas, autoscaled, needed, measured is not before, bound)
    return tick.outcome(begins=state.reference is None)


def carried(policy: PowerPolicy, watts: Fraction) -> Fraction:
    """What replicas may draw of `watts` of the feed: max(0, watts · (1 - margin) - base), and 0 below the floor."""
    if watts < policy.floor:
        return ZERO
    return max(ZERO, watts * (1 - policy.margin_in_force) - policy.base_power)


def feed_for(policy: PowerPolicy, load: Fraction) -> Fraction:
    """The watts of the feed, above the base power, that carry a load of replicas."""
    base = policy.base_power
    return max((load + base) / (1 - policy.margin_in_force) - base, policy.floor)


@dataclass(frozen=True, slots=True)
class _AbsoluteTick:
    policy: PowerPolicy
    state: ControllerState
    at: Fraction
    replicas: Mapping[str, int]
    autoscaled: Mapping[str, Autoscaled]
    needed: Mapping[str, int]
    fresh: bool
    """Whether the feed has a new sample."""
    bound: Fraction | None
    """Watts that the feed will not exceed, as known beforehand."""

    def outcome(self, *, begins: bool) -> ControllerResult:
        plain = not self.autoscaled and self.policy.on_foreign_change is not ForeignChanges.ENFORCE
        counts = self.replicas if plain else {name: self._count(name, n) for name, n in self.replicas.items()}
        baseline = self._baseline(counts)
        tick = replace(self, state=replace(self.state, baseline=baseline))
        found = [target for target in targets_of(self.policy, counts, baseline, self.needed) if not target.suspended]
        stepping = [tick._stepping(target) for target in found] if self.policy.stepping else found
        repaired = within_bounds(stepping)
        bounds = any(before.current != after.current for before, after in zip(found, repaired, strict=True))
        result = tick._judged(repaired, Reason.OUT_OF_BOUNDS if bounds else None)
        if begins and result.state.plan is None:
            return replace(result, reason=Reason.BOOTSTRAPPED)
        return result

    def _count(self, name: str, count: int) -> int:
        """The entitlement of an autoscaled target, what was decided with `enforce`, else the replicas."""
        each = self.autoscaled.get(name)
        if each is not None:
            return min(self.state.entitled.get(name, each.cap), each.original)
        decided = self.state.last.get(name)
        if self.policy.on_foreign_change is not ForeignChanges.ENFORCE or not decided or not count:
            return count
        return decided

    def _baseline(self, counts: Mapping[str, int]) -> dict[str, int]:
        kept = {name: self.state.baseline.get(name, count) for name, count in counts.items()}
        return {**self.state.baseline, **kept, **{name: each.original for name, each in self.autoscaled.items()}}

    def _stepping(self, target: AllocationTarget) -> AllocationTarget:
        """The target with the bounds that its own `maxStep` leaves it in this tick."""
        step = self.policy.stepping.get(target.name)
        if step is None or target.name in self.autoscaled or not target.minimum <= target.current <= target.maximum:
            return target
        last = self.state.stepped.get(target.name)
        reach = 0 if last is not None and self.at - last < step.period else step.of(target.current)
        return structs.replace(
            target,
            minimum=max(target.minimum, target.current - reach),
            maximum=min(target.maximum, target.current + reach),
        )

    def _judged(self, targets: list[AllocationTarget], repaired: Reason | None) -> ControllerResult:
        assert self.state.measured is not None
        watts = self.state.measured.confirmed
        usable = carried(self.policy, watts if self.bound is None else min(watts, self.bound))
        present = {target.name: target.current for target in targets}
        load = self.policy.drawn(present)
        if not targets:
            return ControllerResult(self._referring(ZERO).settled(), Reason.INSIDE)
        if load > usable:
            return self._fall(targets, present, usable, repaired)
        if self.state.measured.confirmed != self.state.measured.watts:
            tick = replace(self, state=self._referring(load).settled())
            return tick._planned(targets, present, usable, repaired or Reason.UNCONFIRMED, 0)
        return self._rise(targets, present, usable, load, repaired)

    def _fall(
        self, targets: list[AllocationTarget], present: Mapping[str, int], usable: Fraction, repaired: Reason | None
    ) -> ControllerResult:
        policy, state = self.policy, self.state
        short = policy.drawn({target.name: target.minimum for target in targets}) - usable
        unmet = -ceil(short / self._average(targets)) if short > 0 else 0
        side, window = policy.falls, self._opened(-1, usable)
        if not self._underway(-1) and side.window and self.at - window.since < side.window:
            state = replace(self._referring(policy.drawn(present)), mode=ControllerMode.of(-1), window=window)
            waiting = Reason.DECREASE_DETECTED if window.count == 1 else Reason.WAITING
            return replace(self, state=state)._planned(targets, present, usable, repaired or waiting, unmet)
        level = usable / (1 + policy.deadband) if policy.averaged else usable
        counts = shed(targets, level, restore_first=policy.restore_first)
        if counts == present:
            state = self._referring(policy.drawn(counts)).settled()
            tick = replace(self, state=state)
            return tick._planned(targets, counts, usable, repaired or Reason.AT_LIMIT, unmet)
        return self._stepped(side, targets, present, counts, usable, Reason.SCALED_DOWN, unmet)

    def _rise(
        self,
        targets: list[AllocationTarget],
        present: Mapping[str, int],
        usable: Fraction,
        load: Fraction,
        repaired: Reason | None,
    ) -> ControllerResult:
        state = self.state
        cancelled = state.mode is not ControllerMode.STABLE
        unmet = 0
        spare = usable - load
        watts, unit = self.policy.whole_watts
        room = floor(spare * unit)
        if not any(target.current < target.maximum and watts[target.name] <= room for target in targets):
            full = all(target.current >= target.maximum for target in targets)
            unmet = floor(spare / self._average(targets)) if full else 0
            reason = Reason.AT_LIMIT if full and unmet else Reason.INSIDE if full else Reason.ROUNDS_TO_ZERO
        elif usable >= self._risen(targets, load) or self._uncaps(targets, usable):
            return self._wait(targets, present, usable, repaired)
        else:
            reason = Reason.INSIDE
        state = self._referring(load).settled()
        if cancelled and reason is Reason.INSIDE:
            reason = Reason.CANCELLED
        result = replace(self, state=state)._planned(targets, present, usable, repaired or reason, unmet)
        return replace(result, cancelled=cancelled)

    def _risen(self, targets: list[AllocationTarget], load: Fraction) -> Fraction:
        """The watts from which on a rise is due.

        A feed that is averaged comes to its level in many small steps: a fall goes further by the dead band, so that
        it is done in few, and a rise begins that much later, and a replica, so that it does not take it back.
        """
        if not self.policy.averaged:
            return max(load, self.policy.floor) * (1 + self.policy.deadband)
        return max(load + self._average(targets), self.policy.floor) * (1 + 2 * self.policy.deadband)

    def _uncaps(self, targets: list[AllocationTarget], usable: Fraction) -> bool:
        """Whether the watts carry the originals of all autoscalers, and some have less."""
        short = [target for target in targets if target.name in self.autoscaled and target.current < target.maximum]
        if not short:
            return False
        wanted = fill(targets, usable, restore_first=self.policy.restore_first)
        return all(wanted[target.name] >= target.maximum for target in short)

    def _wait(
        self, targets: list[AllocationTarget], present: Mapping[str, int], usable: Fraction, repaired: Reason | None
    ) -> ControllerResult:
        """A rise is due; it comes when the window has carried it, with what its lowest sample carries."""
        policy = self.policy
        window, load = self._opened(1, usable), policy.drawn(present)
        side = policy.increase
        state = replace(self._referring(load), mode=ControllerMode.of(1), window=window)
        tick = replace(self, state=state)
        short = self.at - window.since < side.window or window.count < 2
        if side.window and short and not self._underway(1):
            reason = Reason.INCREASE_DETECTED if window.count == 1 else Reason.WAITING
            return tick._planned(targets, present, usable, repaired or reason, 0)
        counts = fill(targets, window.low, restore_first=policy.restore_first)
        if counts == present:
            tick = replace(self, state=replace(state, window=ChangeWindow.opened(self.at, usable)))
            return tick._planned(targets, present, usable, repaired or Reason.WAITING, 0)
        return tick._stepped(side, targets, present, counts, usable, Reason.SCALED_UP, 0)

    def _underway(self, sign: int) -> bool:
        """Whether `maxStep` has cut a change in this direction, so that the rest needs no window."""
        return self.state.ramp is not None and self.state.mode.sign == sign

    def _opened(self, sign: int, usable: Fraction) -> ChangeWindow:
        """The window in this direction with the present sample, counted once."""
        window = self.state.window
        if window is None or self.state.mode is not ControllerMode.of(sign):
            return ChangeWindow.opened(self.at, usable)
        return window.add(usable) if self.fresh else window

    def _stepped(
        self,
        side: Side,
        targets: list[AllocationTarget],
        present: Mapping[str, int],
        counts: Mapping[str, int],
        usable: Fraction,
        reason: Reason,
        unmet: int,
    ) -> ControllerResult:
        """The change, cut to the policy's `maxStep` where it has one; the rest follows a period later."""
        step, ramp = side.max_step, None
        if step is not None:
            stepped = self.state.ramp.stepped if self.state.ramp is not None else None
            if stepped is not None and self.at - stepped < step.period:
                return self._planned(targets, present, usable, Reason.RATE_LIMITED, unmet)
            counts, cut = _limited(present, counts, step.of(sum(present.values())))
            ramp = Ramp(usable, self.at) if cut else None
        return self._planned(targets, counts, usable, reason, unmet, ramp=ramp, closes=True)

    def _planned(
        self,
        targets: list[AllocationTarget],
        counts: Mapping[str, int],
        usable: Fraction,
        reason: Reason,
        unmet: int,
        *,
        ramp: Ramp | None = None,
        closes: bool = False,
    ) -> ControllerResult:
        """A plan for these counts with the caps that follow from them; none where all of that holds already."""
        state = self.state
        entitled = {name: counts[name] for name in self.autoscaled if name in counts}
        caps = self._caps(targets, counts, entitled, usable)
        wanted = {**self.replicas, **counts, **caps}
        load = self.policy.drawn(counts)
        if state.energy is not None:
            state = replace(state, energy=replace(state.energy, load=load + self.policy.base_power))
        if wanted == self.replicas:
            return ControllerResult(replace(state, last=dict(self.replicas), entitled=entitled), reason, unmet=unmet)
        moved = {name for name, count in wanted.items() if count != self.replicas[name]}
        if not closes and reason is not Reason.OUT_OF_BOUNDS:
            reason = Reason.CAPS_MOVED if moved <= caps.keys() else Reason.FOREIGN_CHANGE
        stepped = {
            name: self.at if name in moved else state.stepped[name]
            for name in self.policy.stepping
            if name in moved or name in state.stepped
        }
        plan = PowerPlan(
            id=state.sequence + 1,
            at=self.at,
            reason=reason,
            replicas=wanted,
            reference=feed_for(self.policy, load),
            ramp=ramp,
            mode=ControllerMode.STABLE if ramp is None else state.mode,
            closes_window=closes,
            entitled=entitled,
        )
        state = replace(state, plan=plan, stepped=stepped)
        return ControllerResult(state, reason, unmet=unmet)

    def _caps(
        self, targets: list[AllocationTarget], counts: Mapping[str, int], entitled: Mapping[str, int], usable: Fraction
    ) -> dict[str, int]:
        """The caps to set: the originals while the watts carry all of them."""
        own = [structs.replace(t, current=counts[t.name]) for t in targets if t.name in self.autoscaled]
        if not own:
            return {}
        if all(entitled[target.name] >= target.maximum for target in own):
            return {target.name: self.autoscaled[target.name].original for target in own}
        others = self.policy.drawn({name: count for name, count in counts.items() if name not in self.autoscaled})
        least = self.policy.drawn(entitled)
        return lend(own, self.autoscaled, max(usable - others, least))

    def _referring(self, load: Fraction) -> ControllerState:
        return replace(self.state, reference=feed_for(self.policy, load))

    def _average(self, targets: list[AllocationTarget]) -> Fraction:
        """Watts of a replica, on average over the present ones, else over the targets."""
        total = sum(target.current for target in targets)
        present = {target.name: target.current for target in targets}
        return self.policy.drawn(present) / total if total else sum((t.watts for t in targets), ZERO) / len(targets)


def _limited(present: Mapping[str, int], counts: Mapping[str, int], step: int) -> tuple[dict[str, int], bool]:
    """The counts with at most `step` replicas moved, in the order of the names; and whether that cut something."""
    left, found = step, dict(present)
    for name in sorted(counts):
        change = counts[name] - present[name]
        moved = max(-left, min(left, change))
        found[name] += moved
        left -= abs(moved)
    return found, found != counts
