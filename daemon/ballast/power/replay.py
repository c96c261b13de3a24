"""Runs a recorded feed through the daemon's own controller, and computes the figures that describe the run.

The controller ticks at each row and, as in the daemon, every interval between rows. Every plan is applied at once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from statistics import median
from typing import Any, Generic, TypeVar

from ballast.power.absolute import may_rise, without_rise
from ballast.power.autoscaled import Autoscaled
from ballast.power.controller import observe
from ballast.power.controller_state import ControllerMode, ControllerResult, ControllerState, Sample
from ballast.power.estimator import Doubt
from ballast.power.feed_spec import Schedule
from ballast.power.learned_watts import WattsLearner
from ballast.power.plausible import IMPOSSIBLE, Plausibility
from ballast.power.policy import PowerPolicy
from ballast.power.replay_figures import ZERO, FeedUtilisation, Ideal, Overload, base_of
from ballast.power.sections import Need
from ballast.power.waiting import START, LearnedWindow, WindowPrice

V = TypeVar("V", int, Fraction)


@dataclass(frozen=True)
class Recorded(Generic[V]):
    """Rows of seconds and a value by namespace/name, each holds until the next.

    Before the first row of a target the first one counts.
    """

    rows: Mapping[str, Sequence[tuple[Fraction, V]]]

    def at(self, time: Fraction) -> dict[str, V]:
        """The values at this time, by namespace/name."""
        return {
            name: rows[max(0, bisect_right(rows, time, key=lambda row: row[0]) - 1)][1]
            for name, rows in self.rows.items()
        }


RecordedDemand = Recorded[int]
"""What autoscalers want."""
NO_DEMAND: RecordedDemand = Recorded({})
NO_LOAD: Recorded[Fraction] = Recorded({})


@dataclass(frozen=True, slots=True)
class Simulation:
    """How replicas really draw, by namespace/name; what is not given is as the policy says, and at once."""

    watts: Mapping[str, Fraction] = field(default_factory=dict)
    """Watts of one replica."""
    drain: Mapping[str, Fraction] = field(default_factory=dict)
    """Seconds for which a removed replica goes on drawing."""
    start: Mapping[str, Fraction] = field(default_factory=dict)
    """Seconds after which a new replica serves; it draws at once, and until then its watts count as unused."""
    pending: Mapping[str, int] = field(default_factory=dict)
    """So many of the first replicas cannot start."""
    meter_lag: Fraction = Fraction(0)
    """Seconds by which the meter is late."""
    metered: bool = False
    """Whether the policy has a meter, whether or not it names one."""
    base: Fraction = Fraction(0)
    """Watts that the meter shows beside the replicas and the declared base: idle nodes, or others under one limit."""
    averaged: Fraction = Fraction(0)
    """Seconds over which the meter averages."""
    others: Recorded[Fraction] = NO_LOAD
    """The same as `base`, over time, under one empty name."""
    load: Recorded[Fraction] = NO_LOAD
    """How many times its watts a replica draws, over time."""

    @property
    def any(self) -> bool:
        """Whether anything is given."""
        return self != AS_DECLARED


AS_DECLARED = Simulation()


@dataclass(frozen=True, slots=True)
class Tick:
    """One row and the state after it."""

    t: Fraction | None
    """Seconds since the first row; None where the row has no time."""
    watts: Fraction | None
    """None for an invalid sample."""
    state: ControllerMode
    reference: Fraction | None
    """Watts; None before the first valid sample."""
    delta: int
    """Change of the total of replicas since the row before."""
    replicas: Mapping[str, int]
    """By namespace/name: what runs, of an autoscaled target the smaller of cap and demand."""
    reason: str
    caps: Mapping[str, int | None] = field(default_factory=dict)
    """By namespace/name; None without a cap."""
    allowed: Fraction | None = None
    """Watts that may be drawn: the least of feed, bound and energy; None without an absolute budget."""
    drawn: Fraction | None = None
    """Watts that the replicas draw, with the base power."""

    @property
    def total(self) -> int:
        """All replicas together."""
        return sum(self.replicas.values())

    def document(self) -> dict[str, Any]:
        """The tick as JSON."""
        return {
            "t": _number(self.t),
            "watts": _number(self.watts),
            "state": self.state.value,
            "reference": _number(self.reference),
            "delta": self.delta,
            "replicas": dict(self.replicas),
            "caps": dict(self.caps),
            "reason": self.reason,
            "allowed": _number(self.allowed),
            "drawn": _number(self.drawn),
        }


@dataclass(frozen=True, slots=True)
class Replay:
    """`actions` are the ticks that changed replicas, `cancels` the windows that ended without an action.

    `error` is the mean of |replicas - ideal| over valid ticks, with ideal = first replicas · watts / first valid watts,
    within the bounds; None without valid ticks. `unused` are watt-hours.
    """

    ticks: Sequence[Tick]
    actions: int
    cancels: int
    error: Fraction | None
    over: Overload
    unused: Fraction
    prices: Sequence[WindowPrice] = ()
    """With `increase: auto`, what each window would have cost."""

    def document(self) -> dict[str, Any]:
        """The replay as JSON."""
        last = self.ticks[-1] if self.ticks else None
        final = (
            {"state": last.state.value, "reference": _number(last.reference), "replicas": dict(last.replicas)}
            | {"total": last.total}
            if last
            else {}
        )
        return {
            "ticks": [tick.document() for tick in self.ticks],
            "actions": self.actions,
            "cancels": self.cancels,
            "final": final,
            "mean_abs_error_replicas": _number(self.error),
            "over": {
                "share": _number(self.over.share),
                "watt_hours": _number(self.over.watt_hours),
                "worst_watts": _number(self.over.worst_watts),
                "unknown": {"share": _number(self.over.unknown)},
            },
            "unused": {"watt_hours": _number(self.unused)},
        } | ({"increase": [asdict(price) for price in self.prices]} if self.prices else {})


def replay(
    policy: PowerPolicy,
    samples: Iterable[Sample],
    replicas: Mapping[str, int],
    demand: RecordedDemand = NO_DEMAND,
    simulation: Simulation = AS_DECLARED,
    schedule: Schedule | None = None,
    needed: RecordedDemand = NO_DEMAND,
    interval: Fraction | None = None,
) -> Replay:
    """One tick for each sample, and one every `interval` seconds until the next, starting with `replicas` by
    namespace/name.

    Targets with a `demand` have an autoscaler whose own maximum is their `max`. With a `simulation` overload and
    unused watts are by what it draws. `needed` are the replicas that members with `needs` need for their load.
    """
    world = _World(policy, dict(sorted(replicas.items())), demand, simulation)
    state, ticks, listed = ControllerState(), [], world.replicas
    bounded = schedule is not None and not schedule.priced
    moves = bool(policy.stepping or bounded or demand.rows or needed.rows or simulation.any)
    actions = cancels = 0
    start: Fraction | None = None
    ideal, ledger = Ideal(policy, world.replicas), FeedUtilisation(policy, world.replicas, simulation.watts)
    meter = _SimulatedMeter(policy, world) if simulation.metered or (policy.consumption and simulation.any) else None
    waiting = LearnedWindow(policy)
    skipping, nets = False, _Nets(policy, meter, world)
    for sample, is_row in _ticks(samples, None if policy.paper else interval):
        if skipping and not is_row and not _undecided(state, sample):
            state = replace(state, seen=sample.at)
            continue
        start = sample.at if start is None else start
        nets.see(sample)
        valid = sample.watts is not None and sample.at is not None and (state.seen is None or sample.at > state.seen)
        world.wait(sample.at)
        if sample.at is not None and schedule is not None and policy.schedule is not None:
            sample = replace(sample, bound=schedule.bound(sample.at, policy.schedule.lead))
        if sample.at is not None:
            policy = policy if meter is None else meter.measured(sample.at)
            doubt = None if meter is None else meter.doubt
            sample = replace(sample, leaving=policy.drawn(world.leaving()), unbound=world.unbound(), doubt=doubt)
            if policy.energy is not None:
                sample = replace(sample, drawn=world.draws(), forecast=schedule)
        gated, needs = world.within_needs(
            waiting.applied(policy), needed.at(sample.at) if sample.at is not None else {}
        )
        outcome = observe(gated, state, sample, world.counts(), needs, world.autoscaled())
        outcome = nets.held(gated, outcome, sample)
        state = world.follow(outcome)
        actions += world.changed
        cancels += outcome.cancelled
        # Nothing changes until the next row: the same sample finds the same replicas again.
        skipping = valid and not (moves or world.changed or state.ramp) and state.mode is ControllerMode.STABLE
        if sample.watts is not None and valid and sample.at is not None:
            waiting.measure(sample.at, sample.watts, sample.bound, world.start_up)
            ending, idle = world.drawn(world.leaving()), world.drawn(world.starting())
            ledger.add(
                sample.at,
                max(ZERO, sample.watts - world.beside),
                world.running(),
                world.most(needs),
                ending,
                idle,
                world.factors,
            )
        elif sample.at is not None and sample.watts is None:
            ledger.skip(sample.at)
        if not is_row:
            continue
        tick = Tick(
            t=None if sample.at is None or start is None else sample.at - start,
            watts=sample.watts if valid else None,
            state=state.mode,
            reference=None if state.reference is None else state.reference + base_of(policy),
            delta=sum(world.replicas.values()) - sum(listed.values()),
            replicas=world.replicas,
            reason=outcome.reason,
            caps=world.caps,
            allowed=_allowed(policy, state, sample),
            drawn=world.draws() if policy.absolute else None,
        )
        listed = world.replicas
        ticks.append(tick)
        if tick.watts is not None and sample.at is not None:
            ideal.compare(tick.watts, tick.total)
    return Replay(ticks, actions, cancels, ideal.mean(), ledger.over(), ledger.unused(), waiting.prices())


def _undecided(state: ControllerState, sample: Sample) -> bool:
    """Whether the watts that a budget of energy leaves are decided anew at this tick."""
    return state.energy is not None and sample.at is not None and sample.at >= state.energy.expires


class _Nets:
    """What keeps the daemon from a rise whatever a policy decides: a sample that cannot be, a meter that shows more."""

    def __init__(self, policy: PowerPolicy, meter: _SimulatedMeter | None, world: _World) -> None:
        self._plausible, self._meter, self._world = Plausibility(policy), meter, world
        self._doubtful = False

    def see(self, sample: Sample) -> None:
        """Takes what the feed shows at a tick."""
        if sample.watts is not None and sample.at is not None:
            self._doubtful = self._plausible.see(float(sample.at), sample.watts) in IMPOSSIBLE

    def held(self, policy: PowerPolicy, outcome: ControllerResult, sample: Sample) -> ControllerResult:
        """The outcome, without a rise where that must not be."""
        shown = None if self._meter is None else self._meter.shown
        free = may_rise(policy, shown, sample.watts, sample.bound) and not (policy.absolute and self._doubtful)
        return outcome if free else without_rise(policy, outcome, self._world.counts())


class _SimulatedMeter:
    """What a late meter tells of a simulated world, and the policy that follows from it."""

    def __init__(self, policy: PowerPolicy, world: _World) -> None:
        self._policy, self._world = policy, world
        self._meter = WattsLearner(policy)
        self._past = deque([(Fraction(-1), world.draws())])
        self._at = Fraction(-1)
        self.shown = world.draws()
        """The newest sample of the meter."""

    @property
    def doubt(self) -> Doubt | None:
        """How far the watts in force may be wrong."""
        return self._meter.doubt

    def measured(self, at: Fraction) -> PowerPolicy:
        """The policy with the watts in force once the meter is read at `at` (seconds)."""
        world = self._world
        # What runs now has run since the tick before.
        self._past.append((self._at, world.draws()))
        self._at = at
        end = at - world.simulation.meter_lag
        begin = end - world.simulation.averaged
        while len(self._past) > 1 and self._past[1][0] <= begin:
            self._past.popleft()
        seen = [(max(begin, time), watts) for time, watts in self._past if time <= end] or [(end, self._past[0][1])]
        spans = [later - earlier for (earlier, _), (later, _) in pairwise([*seen, (end, ZERO)])]
        whole = sum(spans, ZERO) if world.simulation.averaged else ZERO
        weighted = sum((span * watts for span, (_, watts) in zip(spans, seen, strict=True)), ZERO)
        self.shown = weighted / whole if whole else seen[-1][1]
        counts = {name: count + world.leaving().get(name, 0) for name, count in world.running().items()}
        self._meter.measure(at, counts, self.shown)
        return self._meter.applied(self._policy)


def _ticks(samples: Iterable[Sample], interval: Fraction | None) -> Iterator[tuple[Sample, bool]]:
    """(sample, whether it is a row): rows, and the last row again every interval until the next one."""
    row: Sample | None = None
    samples = list(samples)
    apart = usual_gap(samples) or ZERO
    for sample in samples:
        if interval is not None and row is not None and row.at is not None and sample.at is not None:
            at = row.at + interval
            while at < sample.at:
                yield Sample(at, row.watts, row.at, apart=apart), False
                at += interval
        row = sample
        yield sample if interval is None else replace(sample, time=sample.at, apart=apart), True


def _allowed(policy: PowerPolicy, state: ControllerState, sample: Sample) -> Fraction | None:
    """The least of the last feed, the bound and what the energy of the period leaves."""
    if not policy.absolute:
        return None
    known = [sample.bound, None if state.measured is None else state.measured.watts]
    if state.energy is not None:
        known.append(state.energy.watts)
    return min((watts for watts in known if watts is not None), default=None)


class _World:
    """The replicas that run and the caps in force. An autoscaler follows its demand up to its cap at once."""

    def __init__(
        self, policy: PowerPolicy, replicas: Mapping[str, int], demand: RecordedDemand, simulation: Simulation
    ) -> None:
        self._policy = policy
        self.simulation = simulation
        self._startable = {name: max(0, replicas[name] - count) for name, count in simulation.pending.items()}
        self._ending: list[tuple[Fraction, str, int]] = []
        self._starting: list[tuple[Fraction, str, int]] = []
        self._demand = demand
        self._now = Fraction(0)
        self._wanted: Mapping[str, int] = {}
        self.replicas = replicas
        self.caps: Mapping[str, int | None] = dict.fromkeys(replicas)
        self.changed = False

    def wait(self, at: Fraction | None) -> None:
        """Autoscalers follow their demand."""
        if at is None:
            return
        self._now = at
        self._ending = [ending for ending in self._ending if ending[0] > at]
        self._starting = [start for start in self._starting if start[0] > at]
        if self._demand.rows:
            before, self._wanted = self.running(), self._demand.at(at)
            self.replicas = self._obeyed()
            self._pass_over(before)

    def counts(self) -> dict[str, int]:
        """What the controller sees: replicas, of autoscaled targets the cap in force."""
        caps = {name: self._cap(name) for name in self._wanted} if self._policy.absolute else {}
        return {**self.replicas, **caps}

    def autoscaled(self) -> dict[str, Autoscaled]:
        """The autoscaled targets as the controller sees them."""
        return {
            name: Autoscaled(self._original(name), self._cap(name), self.replicas[name], demand)
            for name, demand in self._wanted.items()
        }

    def running(self) -> dict[str, int]:
        """The replicas that draw: those that could start."""
        return {name: min(count, self._startable.get(name, count)) for name, count in self.replicas.items()}

    def unbound(self) -> dict[str, int]:
        """The replicas that no node takes."""
        running = self.running()
        return {name: self.replicas[name] - running[name] for name in self._startable}

    def leaving(self) -> dict[str, int]:
        """Removed replicas that are still ending."""
        counts = dict.fromkeys(self.replicas, 0)
        for _, name, count in self._ending:
            counts[name] += count
        return counts

    @property
    def start_up(self) -> float:
        """Seconds after which a new replica serves, on average over the targets that are given one."""
        given = self.simulation.start.values()
        return float(sum(given) / len(given)) if given else START

    def starting(self) -> dict[str, int]:
        """Replicas that draw and do not serve yet: the newest ones of those that run."""
        counts = dict.fromkeys(self.replicas, 0)
        for _, name, count in self._starting:
            counts[name] += count
        return {name: min(counts[name], count) for name, count in self.running().items()}

    @property
    def beside(self) -> Fraction:
        """Watts of all but the replicas and the declared base."""
        return self.simulation.base + self.simulation.others.at(self._now).get("", ZERO)

    @property
    def factors(self) -> dict[str, Fraction]:
        """How many times its true watts a replica draws now."""
        return self.simulation.load.at(self._now)

    def drawn(self, counts: Mapping[str, int]) -> Fraction:
        """True watts of these replicas."""
        watts, places, factors = self.simulation.watts, self._policy.places, self.factors
        each = ((watts.get(n, places[n].member.watts) * factors.get(n, 1), count) for n, count in counts.items())
        return sum((watts_each * count for watts_each, count in each), ZERO)

    def draws(self) -> Fraction:
        """Watts of all that runs or is ending, with the base power."""
        replicas = self.drawn(self.running()) + self.drawn(self.leaving())
        return replicas + base_of(self._policy) + self.beside

    def _pass_over(self, before: Mapping[str, int]) -> None:
        """What no longer runs goes on drawing while it drains; what is new does not serve yet."""
        for name, count in self.running().items():
            more, drain, start = count - before[name], self.simulation.drain.get(name), self.simulation.start.get(name)
            if drain and more < 0:
                self._ending.append((self._now + drain, name, -more))
            if start and more > 0:
                self._starting.append((self._now + start, name, more))

    def follow(self, outcome: ControllerResult) -> ControllerState:
        """Applies and commits the plan, if there is one."""
        plan, before, running = outcome.state.plan, (self.replicas, self.caps), self.running()
        if plan is None:
            self.changed = False
            return outcome.state
        capped = {name: plan.replicas[name] for name in self._wanted if name in plan.replicas}
        free = all(count >= self._original(name) for name, count in capped.items())
        self.caps = {**self.caps, **(dict.fromkeys(capped) if free else capped)}
        self.replicas = {name: count for name, count in plan.replicas.items() if name in self.replicas}
        self.replicas = self._obeyed()
        self._pass_over(running)
        self.changed = (self.replicas, self.caps) != before
        return outcome.state.committed()

    def within_needs(self, policy: PowerPolicy, needed: Mapping[str, int]) -> tuple[PowerPolicy, Mapping[str, int]]:
        """The policy within what its targets need, and that."""
        bounds = {}
        for name, count in needed.items():
            member = policy.places[name].member
            floor = None if member.needs is None else member.needs.floor
            bounds[name] = Need(count, count).within(self.replicas[name], (member.min, member.max), floor)
        return (policy.within(bounds) if bounds else policy), needed

    def most(self, needed: Mapping[str, int]) -> dict[str, int]:
        """The replicas that maxima, demand and `needed` allow; what someone stopped stays stopped."""
        members = {name: self._policy.places[name].member for name in self.replicas}
        return {
            name: min(
                self._startable.get(name, member.max), self._wanted.get(name, needed.get(name, member.max)), member.max
            )
            for name, member in members.items()
            if self.replicas[name] or name in self._wanted or not member.min
        }

    def _obeyed(self) -> dict[str, int]:
        capped = {name: min(count, self._cap(name)) for name, count in self._wanted.items()}
        return {**self.replicas, **capped}

    def _cap(self, name: str) -> int:
        cap = self.caps.get(name)
        return self._original(name) if cap is None else cap

    def _original(self, name: str) -> int:
        return self._policy.places[name].member.max


def usual_gap(samples: Iterable[Sample]) -> Fraction | None:
    """The median of the seconds between rows; None where there are not two."""
    times = [sample.at for sample in samples if sample.at is not None]
    gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return median(gaps) if gaps else None


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
