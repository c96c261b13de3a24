"""One tick of an absolute budget: the watts of all replicas stay within the feed.

Σ watts · replicas + base <= feed · (1 - margin), judged at every tick with the newest sample, whoever changed what. A
fall acts at once (or after `decrease.window`); a rise waits until the watts have carried it for `increase.window` by
more than the dead band. No state is needed for that: what ran before does not matter.

A target with an autoscaler counts with its entitlement: the part of the autoscaler's own maximum that the watts carry.
While they carry all of them there are no caps; else every autoscaler has one (see `lend`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    FeedHistory,
    FeedReading,
    PowerPlan,
    Ramp,
    Reason,
    Sample,
)
from ballast.power.energy import Reach, plan
from ballast.power.policy import PowerPolicy
from ballast.power.sections import ForeignChanges, Side, WhenSilent
from ballast.power.within_budget import claimed, fill, restored, shed, within_bounds

ZERO = Fraction(0)

REFINED = 4
"""Attempts to find counts whose watts are certain."""

STEADY = Fraction(600)
"""Seconds after which the dead band ends: what the feed carried for so long is used."""


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
        state = state.interrupted()
    before = state
    running = {name: autoscaled[name].running if name in autoscaled else count for name, count in replicas.items()}
    state = state.with_sample(at, sample, watts, policy.confirm.below, feed_for(policy, policy.drawn(running)))
    tick = _AbsoluteTick(policy, state, at, replicas, autoscaled, needed, state.has_new_sample(before), sample)
    return tick.outcome(begins=state.reference is None)


def limit_silence(
    policy: PowerPolicy,
    silence: ControllerResult,
    sample: Sample,
    replicas: Mapping[str, int],
    needed: Mapping[str, int] = NOTHING,
    autoscaled: Mapping[str, Autoscaled] = NO_AUTOSCALERS,
) -> ControllerResult:
    """What `silence` decided without a usable sample, within the bound and, while no fallback replaces it, within the
    last valid sample: what draws more falls.
    """
    state, plan = silence.state, silence.state.plan
    replaced = silence.reason is Reason.FALLBACK and policy.fallback.policy is not WhenSilent.HOLD
    last = None if state.measured is None or replaced else state.measured.confirmed
    watts = sample.bound if last is None else last
    if not policy.absolute or watts is None or sample.at is None:
        return silence
    counts = replicas if plan is None else plan.replicas
    held = replace(state, plan=None, measured=FeedReading(sample.at, watts, watts))
    tick = _AbsoluteTick(policy, held, sample.at, counts, autoscaled, needed, False, sample)
    fall = tick.outcome(begins=False)
    due = fall.state.plan
    if due is None or policy.drawn(due.replicas) >= policy.drawn(counts):
        return silence
    if due.replicas == replicas:
        return replace(silence, state=replace(state, plan=None))
    return replace(fall, state=replace(fall.state, measured=state.measured))


def may_rise(policy: PowerPolicy, drawn: Fraction | None, *levels: Fraction | None) -> bool:
    """Nothing rises, whatever is believed of replicas, while the meter shows more than what is allowed: the least of
    `levels`. Those that are not known count for nothing.
    """
    allowed = min((level for level in levels if level is not None), default=None)
    return not policy.absolute or allowed is None or drawn is None or drawn <= allowed


def without_rise(policy: PowerPolicy, result: ControllerResult, counts: Mapping[str, int]) -> ControllerResult:
    """What was decided, but for a rise: a fall is carried out all the same."""
    plan = result.state.plan
    if plan is None or policy.drawn({**counts, **plan.replicas}) <= policy.drawn(counts):
        return result
    return replace(result, state=replace(result.state, plan=None), reason=Reason.INSIDE)


def metered(
    policy: PowerPolicy,
    state: ControllerState,
    sample: Sample,
    replicas: Mapping[str, int],
    autoscaled: Mapping[str, Autoscaled] = NO_AUTOSCALERS,
) -> ControllerState:
    """The state with the energy that was used until this sample: as measured, else by what runs."""
    if policy.energy is None or sample.at is None:
        return state
    drawn = sample.drawn
    if drawn is None:
        counts = {name: autoscaled[name].running if name in autoscaled else n for name, n in replicas.items()}
        idle = policy.drawn({name: min(count, counts.get(name, 0)) for name, count in sample.unbound.items()})
        drawn = policy.drawn(counts) - idle + sample.leaving + policy.base_power
    return replace(state, energy=policy.energy.metered(state.energy, sample.at, drawn))


def carried(policy: PowerPolicy, watts: Fraction) -> Fraction:
    """What replicas may draw of `watts` of the feed: max(0, watts · (1 - margin) - base), and 0 below the floor.

    Of a limit that others share the margin is a part of what they leave.
    """
    if watts < policy.floor:
        return ZERO
    if policy.shares_limit:
        return max(ZERO, (watts - policy.base_power) * (1 - policy.margin_in_force))
    return max(ZERO, watts * (1 - policy.margin_in_force) - policy.base_power)


def feed_for(policy: PowerPolicy, load: Fraction) -> Fraction:
    """The watts of the feed, above the base power, that carry a load of replicas."""
    base = policy.base_power
    if policy.shares_limit:
        return max(load / (1 - policy.margin_in_force), policy.floor)
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
    sample: Sample

    targets: Sequence[AllocationTarget] = ()
    """Those that take part, brought within their bounds."""
    present: Mapping[str, int] = field(default_factory=dict)
    """Their counts, by namespace/name."""
    load: Fraction = ZERO
    """What these draw, without the base power."""
    usable: Fraction = ZERO
    """What the feed lets them draw."""
    repaired: Reason | None = None
    """OUT_OF_BOUNDS where targets had to be brought within their bounds; that goes before other reasons."""

    def outcome(self, *, begins: bool) -> ControllerResult:
        plain = (
            not self.autoscaled
            and not self.sample.unbound
            and self.policy.on_foreign_change is not ForeignChanges.ENFORCE
        )
        counts = self.replicas if plain else {name: self._count(name, n) for name, n in self.replicas.items()}
        baseline = self._baseline(counts)
        tick = replace(self, state=replace(self.state, baseline=baseline))
        known = map(self._bound_to_nodes, targets_of(self.policy, counts, baseline, self.needed))
        active = [target for target in known if not target.suspended]
        stepping = [tick._within_step(target) for target in active] if self.policy.stepping else active
        targets = within_bounds(stepping)
        moved = any(before.current != after.current for before, after in zip(active, targets, strict=True))
        result = tick._with_energy(active)._follow(targets, Reason.OUT_OF_BOUNDS if moved else None)
        if begins and result.state.plan is None:
            return replace(result, reason=Reason.BOOTSTRAPPED)
        return result

    def _count(self, name: str, count: int) -> int:
        """The entitlement of an autoscaled target, what was decided with `enforce`, else the replicas."""
        scaled = self.autoscaled.get(name)
        if scaled is not None:
            return min(self.state.entitled.get(name, scaled.cap), scaled.original)
        count -= min(count, self.sample.unbound.get(name, 0))
        decided = self.state.last.get(name)
        if self.policy.on_foreign_change is not ForeignChanges.ENFORCE or not decided or not count:
            return count
        return decided

    def _bound_to_nodes(self, target: AllocationTarget) -> AllocationTarget:
        """A target some of whose replicas no node takes gets no more than run; the others may use their watts."""
        if target.name not in self.sample.unbound or target.name in self.autoscaled:
            return target
        return structs.replace(target, minimum=min(target.minimum, target.current), maximum=target.current)

    def _baseline(self, counts: Mapping[str, int]) -> dict[str, int]:
        kept = {name: self.state.baseline.get(name, count) for name, count in counts.items()}
        return {**self.state.baseline, **kept, **{name: scaled.original for name, scaled in self.autoscaled.items()}}

    def _within_step(self, target: AllocationTarget) -> AllocationTarget:
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

    def _with_energy(self, targets: Sequence[AllocationTarget]) -> _AbsoluteTick:
        """The tick with the watts that the energy of the period leaves for now."""
        spec, meter, measured = self.policy.energy, self.state.energy, self.state.measured
        if spec is None or meter is None or not targets or not spec.undecided(meter):
            return self
        assert measured is not None
        lowest = [structs.replace(t, current=t.minimum, maximum=max(t.minimum, self._useful(t))) for t in targets]
        counts = fill(lowest, self._carried(measured.confirmed), restore_first=self.policy.restore_first)
        kinds = {target.name: target.minimum for target in targets}, counts, {t.name: t.maximum for t in targets}
        least, now, most = (self.policy.drawn(kind) + self.policy.base_power for kind in kinds)
        # Under a cap an autoscaler does not show its demand: what was drawn when nothing was short stands for it.
        enough = min(meter.watts or ZERO, self._carried(measured.confirmed) + self.policy.base_power)
        room = max(target.watts for target in targets)
        if meter.drawn + room < enough:
            meter = replace(meter, wanted=meter.drawn)
        elif meter.drawn + room < (meter.watts or ZERO):
            meter = replace(meter, wanted=None)
        if meter.wanted is not None and any(scaled.demand is None for scaled in self.autoscaled.values()):
            now = min(now, max(least, meter.wanted))
        reach = Reach(least, now, most, 1 - self.policy.margin_in_force)
        return replace(self, state=replace(self.state, energy=plan(spec, meter, reach, self.sample.forecast)))

    def _useful(self, target: AllocationTarget) -> int:
        """The replicas that it would have if the watts were no matter."""
        scaled = self.autoscaled.get(target.name)
        wanted = None if scaled is None else scaled.demand
        return target.maximum if wanted is None else min(target.maximum, wanted)

    def _follow(self, targets: Sequence[AllocationTarget], repaired: Reason | None) -> ControllerResult:
        """Compares what the targets draw with what the feed carries."""
        measured = self.state.measured
        assert measured is not None
        if not targets:
            return ControllerResult(self._refer(ZERO).settled(), Reason.INSIDE)
        watts = measured.confirmed
        usable = self._carried(watts)
        if self._rationed is not None:
            usable = min(usable, self._rationed)
        present = {target.name: target.current for target in targets}
        load = self.policy.drawn(present)
        state = replace(self.state, history=self._history(self._carried(measured.watts)))
        tick = replace(self, state=state, targets=targets, present=present, load=load, usable=usable, repaired=repaired)
        if load > usable:
            return tick._fall()
        # The newest sample is far below the one before. That may be one bad sample, so only a part of the fall counts
        # until a second one confirms it; until then nothing rises either.
        if measured.confirmed != measured.watts:
            return tick._stay(Reason.UNCONFIRMED)
        # Pods that are ending still draw their watts; a fall cannot end them sooner, a rise waits for them.
        return replace(tick, usable=usable - self.sample.leaving)._rise()

    def _carried(self, watts: Fraction) -> Fraction:
        bound = self.sample.bound
        return carried(self.policy, watts if bound is None else min(watts, bound))

    @property
    def _rationed(self) -> Fraction | None:
        """What the energy of the period lets replicas draw; None without one."""
        energy = self.state.energy
        return None if energy is None or energy.watts is None else max(ZERO, energy.watts - self.policy.base_power)

    @property
    def _is_rationed(self) -> bool:
        """Whether replicas draw no more than the energy lets them because of that, not of the feed."""
        assert self.state.measured is not None
        return self._rationed is not None and self._rationed <= self._carried(self.state.measured.confirmed)

    def _history(self, usable: Fraction) -> FeedHistory:
        """What the feed carried lately, with this tick."""
        past = self.state.history
        if past is None:
            return FeedHistory.begun(self.at, usable)
        return past.add(self.at, usable, fresh=self.fresh, keep=max(STEADY, self.policy.increase.window))

    def _low(self, length: Fraction) -> Fraction | None:
        """The least that the feed carried in the last `length` seconds; None where that is not known."""
        assert self.state.history is not None
        if not length:
            return self.usable
        low = self.state.history.low(self.at, length)
        # What the energy leaves is planned, not measured: it needs no window.
        return None if low is None else min(low - self.sample.leaving, self.usable)

    def _fall(self) -> ControllerResult:
        """The load is above the watts: as many replicas go as have to, at once unless `decrease` has a window."""
        policy, side, window = self.policy, self.policy.falls, self._window(-1)
        # Even the minima may draw too much. That is reported, in replicas of average watts, and nothing else follows.
        short = policy.drawn({target.name: target.minimum for target in self.targets}) - self.usable
        unmet = -ceil(short / self._average()) if short > 0 else 0
        # The rest of a fall that `maxStep` has cut is confirmed already, and what the energy leaves is planned: neither
        # needs a window of its own.
        waits = not self._underway(-1) and not self._is_rationed
        if waits and side.window and self.at - window.since < side.window:
            waiting = Reason.DECREASE_DETECTED if window.count == 1 else Reason.WAITING
            return self._pending(-1, window)._plan(self.present, self.repaired or waiting, unmet)
        # An averaged feed drifts to its level in many small samples. A fall overshoots by the dead band, so that it is
        # done in few steps instead of one for each sample.
        level = self.usable / (1 + policy.deadband) if policy.averaged else self.usable
        counts = self._certain(shed, level)
        if counts == self.present:
            return self._stay(Reason.AT_LIMIT, unmet)
        # Rises look at what the feed carries from here on: else what the fall left over would come back at once.
        assert self.state.history is not None
        fallen = replace(self, state=replace(self.state, history=replace(self.state.history, since=self.at)))
        return fallen._step(side, counts, Reason.SCALED_DOWN, unmet)

    def _rise(self) -> ControllerResult:
        """The watts carry the load: a rise begins to wait once they carry enough more."""
        spare = self.usable - self.load
        if all(target.current >= target.maximum for target in self.targets):
            unmet = floor(spare / self._average())
            return self._cancel(Reason.AT_LIMIT if unmet else Reason.INSIDE, unmet)
        if self._due(self.usable) or self._uncaps():
            return self._wait()
        steady = None if self._is_rationed else self._low(STEADY)
        if steady is not None and self._fits(steady):
            return self._raise(steady)
        return self._cancel(Reason.INSIDE if self._fits(self.usable) else Reason.ROUNDS_TO_ZERO)

    def _fits(self, level: Fraction) -> bool:
        """Whether a replica more fits into these watts, in the place of lower priorities where need be."""
        # Whole numbers, since this is asked of thousands of targets in every tick.
        watts, unit = self.policy.whole_watts
        room = floor((level - self.load) * unit)
        if any(target.current < target.maximum and watts[target.name] <= room for target in self.targets):
            return True
        claim = self._claim()
        return claim is not None and claim <= level

    def _claim(self) -> Fraction | None:
        """The watts from which on a higher priority gets back what a lower one has."""
        if len({target.priority for target in self.targets}) < 2:
            return None
        return claimed(self.targets, restore_first=self.policy.restore_first)

    def _due(self, level: Fraction) -> bool:
        """Whether these watts are enough for a rise: the dead band holds it back.

        So it does where a higher priority gets back what lower ones have.
        """
        if not self._fits(level):
            return False
        if level >= self._rises_from():
            return True
        claim = self._claim()
        return claim is not None and claim * (1 + self.policy.deadband) <= level

    def _rises_from(self) -> Fraction:
        """The watts from which on a rise is due.

        An averaged feed drifts to its level. To avoid reversing, a fall overshoots by the dead band, and a rise waits
        for two dead bands plus one replica.
        """
        if not self.policy.averaged:
            return max(self.load, self.policy.floor) * (1 + self.policy.deadband)
        return max(self.load + self._average(), self.policy.floor) * (1 + 2 * self.policy.deadband)

    def _uncaps(self, level: Fraction | None = None) -> bool:
        """Whether the watts (`level`; None: the present ones) carry the originals of all autoscalers, and some lack.

        Then the shortage is over: waiting for the dead band too could leave the last caps in force for ever.
        """
        short = [t for t in self.targets if t.name in self.autoscaled and t.current < t.maximum]
        if not short:
            return False
        counts = fill(self.targets, self.usable if level is None else level, restore_first=self.policy.restore_first)
        return all(counts[target.name] >= target.maximum for target in short)

    def _wait(self) -> ControllerResult:
        """A rise is due; it comes when the window has carried it, with what its lowest sample carries."""
        side, window = self.policy.increase, self._window(1)
        if self._underway(1):
            return self._raise(self.usable)
        level = self._low(side.window)
        if level is not None and (level == self.usable or self._due(level) or self._uncaps(level)):
            return self._raise(level)
        reason = Reason.INCREASE_DETECTED if window.count == 1 else Reason.WAITING
        return self._pending(1, window)._plan(self.present, self.repaired or reason)

    def _raise(self, level: Fraction) -> ControllerResult:
        """The rise to what these watts carry. Where lower priorities have to give way, they do so first."""
        tick = self._pending(1, self._window(1))
        counts = self._certain(restored, level)
        if counts == self.present:
            return tick._plan(self.present, self.repaired or Reason.WAITING)
        fewer = {name: min(count, self.present[name]) for name, count in counts.items()}
        return tick._step(self.policy.increase, counts if fewer == self.present else fewer, Reason.SCALED_UP)

    def _certain(self, change: Callable[..., dict[str, int]], level: Fraction) -> dict[str, int]:
        """The counts of a change to these watts that keep them even where watts of replicas are wrong."""
        counts: dict[str, int] = change(self.targets, level, restore_first=self.policy.restore_first)
        lowest = self.load if change is restored else ZERO
        for _ in range(REFINED):
            more = ZERO if self.sample.doubt is None else self.sample.doubt.of(counts)
            if self.policy.drawn(counts) + more <= level or counts == self.present:
                break
            counts = change(self.targets, max(level - more, lowest), restore_first=self.policy.restore_first)
        return counts

    def _underway(self, sign: int) -> bool:
        """Whether `maxStep` has cut a change in this direction, so that the rest needs no window."""
        return self.state.ramp is not None and self.state.mode.sign == sign

    def _window(self, sign: int) -> ChangeWindow:
        """The window in this direction with the present sample, counted once."""
        window = self.state.window
        if window is None or self.state.mode is not ControllerMode.of(sign):
            return ChangeWindow.opened(self.at, self.usable)
        return window.add(self.usable) if self.fresh else window

    def _pending(self, sign: int, window: ChangeWindow) -> _AbsoluteTick:
        """The tick with this window open."""
        return replace(self, state=replace(self._refer(self.load), mode=ControllerMode.of(sign), window=window))

    def _cancel(self, reason: Reason, unmet: int = 0) -> ControllerResult:
        """No rise is due; a window that was open ends without one."""
        cancelled = self.state.mode is not ControllerMode.STABLE
        if cancelled and reason is Reason.INSIDE:
            reason = Reason.CANCELLED
        return replace(self._stay(reason, unmet), cancelled=cancelled)

    def _stay(self, reason: Reason, unmet: int = 0) -> ControllerResult:
        """No change of the counts; caps may still move."""
        tick = replace(self, state=self._refer(self.load).settled())
        return tick._plan(self.present, self.repaired or reason, unmet)

    def _step(self, side: Side, counts: Mapping[str, int], reason: Reason, unmet: int = 0) -> ControllerResult:
        """The change, cut to the policy's `maxStep` where it has one; the rest follows a period later."""
        step, ramp = side.max_step, None
        if step is not None:
            stepped = self.state.ramp.stepped if self.state.ramp is not None else None
            if stepped is not None and self.at - stepped < step.period:
                return self._plan(self.present, Reason.RATE_LIMITED, unmet)
            counts, cut = _limited(self.present, counts, step.of(sum(self.present.values())))
            ramp = Ramp(self.usable, self.at) if cut else None
        return self._plan(counts, reason, unmet, ramp=ramp, closes=True)

    def _plan(
        self,
        counts: Mapping[str, int],
        reason: Reason,
        unmet: int = 0,
        *,
        ramp: Ramp | None = None,
        closes: bool = False,
    ) -> ControllerResult:
        """A plan for these counts with the caps that follow from them; none where all of that holds already."""
        state = self.state
        entitled = {name: counts[name] for name in self.autoscaled if name in counts}
        caps = self._caps(counts, entitled)
        # Of what no node takes, replicas stay asked for until fewer than those that run are wanted.
        kept = {name for name in self.sample.unbound if counts.get(name) == self.present.get(name)}
        wanted = {name: count for name, count in counts.items() if name not in kept or name in entitled}
        replicas = {**self.replicas, **wanted, **caps}
        load = self.policy.drawn(counts)
        if replicas == self.replicas:
            return ControllerResult(replace(state, last=dict(self.replicas), entitled=entitled), reason, unmet=unmet)
        moved = {name for name, count in replicas.items() if count != self.replicas[name]}
        # No change was decided, yet something moves: caps alone follow the demand, all else undoes someone's change.
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
            replicas=replicas,
            reference=feed_for(self.policy, load),
            ramp=ramp,
            mode=ControllerMode.STABLE if ramp is None else state.mode,
            closes_window=closes,
            entitled=entitled,
        )
        return ControllerResult(replace(state, plan=plan, stepped=stepped), reason, unmet=unmet)

    def _caps(self, counts: Mapping[str, int], entitled: Mapping[str, int]) -> dict[str, int]:
        """The caps to set: the originals while the watts carry all of them."""
        own = [structs.replace(t, current=counts[t.name]) for t in self.targets if t.name in self.autoscaled]
        if all(entitled[target.name] >= target.maximum for target in own):
            return {target.name: self.autoscaled[target.name].original for target in own}
        others = self.policy.drawn({name: count for name, count in counts.items() if name not in self.autoscaled})
        # While a fall waits, or the minima need more, the entitlements are above the watts: each owner keeps its own.
        return lend(own, self.autoscaled, max(self.usable - others, self.policy.drawn(entitled)))

    def _refer(self, load: Fraction) -> ControllerState:
        """The state with the feed that carries this load as its reference."""
        return replace(self.state, reference=feed_for(self.policy, load))

    def _average(self) -> Fraction:
        """Watts of a replica, on average over the present ones, else over the targets."""
        total = sum(self.present.values())
        return self.load / total if total else sum((t.watts for t in self.targets), ZERO) / len(self.targets)


def _limited(present: Mapping[str, int], counts: Mapping[str, int], step: int) -> tuple[dict[str, int], bool]:
    """The counts with at most `step` replicas moved, in the order of the names; and whether that cut something."""
    left, limited = step, dict(present)
    for name in sorted(counts):
        moved = max(-left, min(left, counts[name] - present[name]))
        limited[name] += moved
        left -= abs(moved)
    return limited, limited != counts
