"""A policy in the daemon, with the cluster, `ballast-state` and the feed in memory; any write may be the last."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from ballast.actuation.scaling.target_status import Actuator, ObstacleKind, TargetObstacle, TargetStatus
from ballast.base.errors import ClusterError
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.store import PowerStore
from ballast.jobs.power.tick_report import TickContext, TickReport
from ballast.model.stamps import Stamps
from ballast.power.policy import PowerPolicy
from ballast.power.sections import Need
from ballast.power.values import INT32
from ballast.telemetry.feeds.budget_feed import Watts

TICK = 15
WALL = 1_700_000_000.0
WRITE = Write(
    kind="scale", part="power", method="PATCH", path="/", target=WriteTarget("Deployment", "one", "ns"), reason=""
)


class Killed(BaseException):
    """The process ends here, without a word."""


@dataclass
class CrashPoint:
    """Ends the process before (`landed` False) or after the write number `at`, counted over all kinds."""

    at: int | None = None
    landed: bool = False
    writes: int = 0

    def write(self, land: Callable[[], None]) -> None:
        number, self.writes = self.writes, self.writes + 1
        if number == self.at and not self.landed:
            raise Killed
        land()
        if number == self.at:
            raise Killed


@dataclass
class Keys:
    """`ballast-state`; `broken` makes its writes fail."""

    crash_point: CrashPoint
    data: dict[str, str] = field(default_factory=dict)
    broken: str = ""
    unreadable: bool = False
    writes: int = 0

    def read(self) -> Mapping[str, str]:
        if self.unreadable:
            raise ClusterError("the API server cannot be reached")
        return dict(self.data)

    def stamps(self, key: str) -> Stamps:
        return Stamps()

    def begin_anew(self, key: str, text: str, error: Exception) -> None:
        """Nobody reads what it was."""

    def update(self, change: Callable[[dict[str, str]], Mapping[str, str]], *, reason: str) -> WriteOutcome:
        wanted = dict(change(dict(self.read())))
        if self.broken:
            return WriteOutcome(WRITE, Result.FAILED, self.broken)
        if wanted != self.data:
            self.crash_point.write(lambda: self._land(wanted))
        return WriteOutcome(WRITE, Result.DONE)

    def _land(self, wanted: dict[str, str]) -> None:
        self.data, self.writes = wanted, self.writes + 1


@dataclass
class Cluster:
    """Targets with their counts. `refusing` targets cannot be written; `standing` overrides how one stands."""

    crash_point: CrashPoint
    counts: dict[str, int]
    refusing: set[str] = field(default_factory=set)
    standing: dict[str, dict[str, Any]] = field(default_factory=dict)
    blind: bool = False
    writes: list[tuple[str, int]] = field(default_factory=list)
    emergencies: int = 0
    dry: bool = False

    def read(self, policy: PowerPolicy) -> dict[str, TargetStatus]:
        if self.blind:
            raise ClusterError("the watch is silent")
        found = {}
        for name in policy.places:
            count = self.counts.get(name)
            lacking = {} if count is not None else {"problem": "there is none"}
            known: dict[str, Any] = {"minimum": 0, "maximum": INT32, **lacking, **self.standing.get(name, {})}
            if "problem" in known:
                known["obstacle"] = TargetObstacle(ObstacleKind.PROBLEM, known.pop("problem"))
            found[name] = TargetStatus(
                name=name, kind="Deployment", **{"actuator": Actuator.SCALE, "count": count, "replicas": count, **known}
            )
        return found

    def apply(
        self,
        standings: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
        *,
        reason: str,
        emergency: bool = False,
        loads: Mapping[str, float] | None = None,
    ) -> Sequence[WriteOutcome]:
        self.emergencies += emergency
        outcomes = []
        for name, count in counts.items():
            if self.counts[name] == count:
                continue
            if self.dry:
                outcomes.append(WriteOutcome(WRITE, Result.DRY_RUN))
            elif name in self.refusing:
                namespace, _, own = name.partition("/")
                target = WriteTarget("Deployment", own, namespace)
                outcomes.append(WriteOutcome(replace(WRITE, target=target), Result.FAILED, "no rights", 403))
            else:
                self.crash_point.write(lambda name=name, count=count: self._land(name, count))  # type: ignore[misc]
                outcomes.append(WriteOutcome(WRITE, Result.DONE))
        return outcomes

    def _land(self, name: str, count: int) -> None:
        self.counts[name] = count
        self.writes.append((name, count))


class PowerRun:
    """A budget over ticks, with restarts. `traces` are the targets that carry our marks."""

    def __init__(self, policy: PowerPolicy, *, shadow: bool = False, traces: Sequence[str] = (), **counts: int) -> None:
        start = {name: place.member.start for name, place in policy.places.items()}
        self.policy = policy
        self.shadow = shadow
        self.crash_point = CrashPoint()
        self.keys = Keys(self.crash_point)
        self.cluster = Cluster(
            self.crash_point, {**start, **{f"ns/{name}": n for name, n in counts.items()}}, dry=shadow
        )
        self.traces = traces
        self.at = 0
        self.needed: dict[str, Need] = {}
        self.views: list[TickReport] = []
        self.begin()

    def begin(self) -> None:
        """A new process leads."""
        store = PowerStore(self.keys, self.policy.name, shadow=self.shadow)  # type: ignore[arg-type]
        self.budget = PolicyController(
            self.policy,
            self.cluster,  # type: ignore[arg-type]
            store,
            shadow=self.shadow,
            needs=lambda counts: self.needed,
            traces=lambda standings: [name for name in standings if name in self.traces],
        )

    @property
    def total(self) -> int:
        return sum(self.cluster.counts.values())

    @property
    def last(self) -> TickReport:
        return self.views[-1]

    def tick(self, watts: float | None, **now: Any) -> TickReport:
        self.at += TICK
        usable = watts is not None and math.isfinite(watts) and watts >= 0
        sample = Watts(Fraction(str(watts)), WALL + self.at) if usable else Watts(None, None, "nothing", "series")
        view = self.budget.cycle(TickContext(Fraction(self.at), WALL + self.at, **now), sample)
        self.views.append(view)
        return view

    def run(self, watts: Sequence[float | None]) -> TickReport:
        for each in watts:
            self.tick(each)
        return self.last

    def killed_in(
        self,
        feed: Sequence[float | None],
        kills: Sequence[tuple[int, bool]],
        *,
        slow: bool,
        before: Callable[[int], None] = lambda number: None,
    ) -> None:
        """A tick for each of the feed. The process ends in the write `at` of one after the other of `kills`, landed or
        not; each restart takes 700 s if `slow`. `before` hears the number of each tick."""
        pending = list(kills)
        for number, watts in enumerate(feed):
            before(number)
            if pending:
                at, landed = pending[0]
                if self.dies(watts, at, landed=landed):
                    pending.pop(0)
                if slow:
                    self.at += 700
            else:
                self.tick(watts)

    def dies(self, watts: float | None, at: int, *, landed: bool) -> bool:
        """A tick in whose write number `at` the process ends; a new one begins. Whether it came to that."""
        self.crash_point.at, self.crash_point.landed, self.crash_point.writes = at, landed, 0
        try:
            self.tick(watts)
        except Killed:
            return True
        finally:
            self.crash_point.at = None
            self.begin()
        return False
