"""The job `power`: one tick of every policy in parallel, with its metrics, conditions, Events and JSON."""

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction

import structlog

from ballast.answers.api import Power
from ballast.cluster.context import Context
from ballast.cluster.state import StateStore as Keys
from ballast.jobs.power import power_sentences
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.departed import DepartedTargets
from ballast.jobs.power.falls import Falls
from ballast.jobs.power.participants import watts_drawn
from ballast.jobs.power.policy_conditions import PowerEvents, report_conditions
from ballast.jobs.power.policy_document import PolicyHistory, TargetRows, policy_document
from ballast.jobs.power.power_metrics import PowerMetrics
from ballast.jobs.power.tick_report import Inputs, Outcome, TickContext, TickReport
from ballast.jobs.progress import settling
from ballast.power.values import exact
from ballast.settings import Mode
from ballast.telemetry.feeds.budget_feed import BudgetFeed, Watts
from ballast.telemetry.feeds.power_schedule import ScheduleReader

REBASELINE = "power.rebaseline"
WRITTEN_AHEAD = 86_400.0
"""Seconds by which a word of a person may be ahead of now."""
SUCCESSIVE = 2.5
"""Intervals; what lies between ticks that are further apart is not known."""

SLEWED = 5.0
"""Seconds; a clock that moved by more between two ticks was set."""

TRUSTED = 3600.0
"""Seconds for which the time from before the clock was set counts too: nobody knows which of both is right."""

log = structlog.get_logger("ballast.power")


@dataclass
class PolicyRun:
    """One policy at run time: its controller, its feed, and its recent history."""

    budget: PolicyController
    feed: BudgetFeed
    own: Callable[[], Fraction | None] = lambda: None
    """Watts that the policy's own targets use now; None where unknown."""
    schedule: ScheduleReader | None = None
    """What is known beforehand."""
    consumed: Callable[[float], Fraction | None] = lambda at: None
    """The measured consumption at a Unix time; None where unknown."""
    close: Callable[[], None] = lambda: None
    """Ends connections beside those of the feed."""
    keys: Keys | None = None
    """Where its records of falls are kept; None: nowhere."""
    history: PolicyHistory = field(default_factory=PolicyHistory)
    report: TickReport | None = None
    """The report of the newest tick."""

    def __post_init__(self) -> None:
        self.falls = self.history.falls = Falls(self.name, self.keys)

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.budget.policy.name


class PowerJob:
    """Ticks every policy, whether this replica leads or not; only the leader acts."""

    def __init__(
        self,
        context: Context,
        runs: Sequence[PolicyRun],
        news: PowerEvents,
        show: Callable[[Power], None],
        leavers: DepartedTargets | None = None,
    ) -> None:
        """`show` gets the document of `/api/v1/power`, without conditions, after each cycle."""
        settings = context.settings
        self.runs = runs
        self._context = context
        self._mode = settings.power.mode.value
        self._shadow = settings.power.mode is not Mode.ON
        self._clock = clock = context.clock
        self._conditions = context.conditions
        self._news = news
        self._interval = settings.telemetry.interval
        self._every = exact(float(self._interval))
        self._offset = settings.telemetry.offset
        self._show = show
        self._leavers = leavers
        self._rows = [TargetRows(shadow=self._shadow) for _ in runs]
        self._facts = PowerMetrics(context.metrics.registry)
        self._would = PowerMetrics(context.metrics.registry, potential=True) if self._shadow else None
        for metrics in self._all_metrics():
            metrics.begin(run.name for run in runs)
        self._wall, self._steady = clock.wall(), clock.monotonic()
        self._shown: tuple[float, float | None] = self._wall - self._steady, None
        self._counted_at: float | None = None
        self._led: int | None = None
        self._new = False

    @property
    def changing(self) -> frozenset[str]:
        """Namespace/name of the targets of all open plans."""
        return frozenset().union(*(run.budget.changing for run in self.runs))

    def gained(self) -> None:
        """This replica leads from now on; it acts after two complete cycles."""
        self._new = True
        self._led = 0

    def lost(self) -> None:
        """This replica no longer leads."""
        self._led = None

    def close(self) -> None:
        """Closes all feeds."""
        for run in self.runs:
            run.feed.close()
            if run.schedule is not None:
                run.schedule.close()
            run.close()

    def cycle(self) -> str:
        """One tick of every policy; a failure of one does not stop the others. Returns the sentence of the cycle."""
        if self._new:
            self._new = False
            for run in self.runs:
                run.budget.forget()
                run.falls.forget()
                if run.schedule is not None:
                    run.schedule.forget()
            if self._leavers is not None:
                self._leavers.forget()
        paused, hold = self._context.switches.paused("power"), self._hold()
        wall, ends = self._clock.wall(), self._clock.monotonic() + float(self._interval)
        confirmed, unreadable = self._read_confirmation()
        leaving = self._leavers.cycle() if self._leavers is not None and (hold or paused) is None else None
        now = TickContext(
            at=math.floor((self._wall + self._clock.monotonic() - self._steady) / self._interval) * self._every,
            wall=wall,
            hold=hold or paused,
            standby=not self._context.leadership.is_leader(),
            confirmed=confirmed,
            time_left=lambda: self._clock.monotonic() < ends,
        )
        at = math.floor(wall / self._interval) * self._interval - self._offset
        step = self._step(wall)
        reports: list[TickReport] = []
        with ThreadPoolExecutor(max_workers=min(8, len(self.runs))) as pool:
            read: dict[Future[Watts], PolicyRun] = {
                pool.submit(_read, run, at, _read_own(run), at + step): run for run in self.runs
            }
            reports.extend(self._tick(read[future], now, future.result()) for future in as_completed(read))
        if self._led is not None:
            self._led += 1
        reports.sort(key=lambda report: report.policy.name)
        troubles = {"SwitchUnreadable": unreadable, "CapsNotGivenBack": leaving}
        report_conditions(
            self._conditions, reports, paused, {reason: text for reason, text in troubles.items() if text}
        )
        self._news.emit(reports, paused if hold is None else None, quiet=self._shadow or hold is not None)
        for metrics in self._all_metrics():
            metrics.leader.set(hold is None)
        self._count(reports, wall)
        self._show(self._document(paused))
        return power_sentences.of_cycle(reports, leaving)

    def _step(self, wall: float) -> float:
        """What the clock would show if it had not been set in the last hour, less what it shows (seconds)."""
        steady = self._clock.monotonic()
        before, since = self._shown
        moved = before - (wall - steady)
        if abs(moved) <= SLEWED:
            self._shown = wall - steady, None
            return 0.0
        self._shown = before, steady if since is None else since
        if since is not None and steady - since >= TRUSTED:
            self._shown = wall - steady, None
        return moved

    def _count(self, reports: Sequence[TickReport], wall: float) -> None:
        """Energy above the feeds, and that of replicas beyond the caps, since the tick before; where this one leads.

        In a dry run also what would have been drawn above them.
        """
        leads = self._context.leadership.is_leader()
        before, self._counted_at = self._counted_at, wall if leads else None
        if before is None or not leads or not 0 < wall - before <= SUCCESSIVE * self._interval:
            return
        hours = (wall - before) / 3600
        counted = [report for report in reports if report.load_known]
        if self._shadow:
            over = [_above(report, _really_drawn(report)) for report in counted]
            would = [_above(report, report.outcome.load) for report in counted]
            spared = [now - then for now, then in zip(over, would, strict=True)]
            known = {"over_watt_hours": over, "would_spare_over_watt_hours": spared}
        else:
            unmet = [report.outcome.unmet_watts for report in reports if report.outcome.unmet_watts is not None]
            known = {"over_watt_hours": [report.over or Fraction(0) for report in counted], "unmet_watt_hours": unmet}
        self._context.ledger.add(wall, {name: float(sum(watts)) * hours for name, watts in known.items() if watts})

    def _tick(self, run: PolicyRun, now: TickContext, watts: Watts) -> TickReport:
        try:
            report = run.budget.cycle(replace(now, inside=self._inside(run)), watts)
        except Exception as error:
            log.exception("a power policy failed unexpectedly", policy=run.name)
            run.budget.forget()
            text = f"failed unexpectedly: {type(error).__name__}: {error}"
            report = TickReport(Inputs(run.budget.policy, now, watts), outcome=Outcome(words=text, problem=text))
        run.report = report
        run.history.add(report)
        measured = None if report.outcome.state is None else report.outcome.state.measured
        if measured is not None and measured.apart:
            run.feed.remember(float(measured.apart))
        for metrics in self._all_metrics():
            metrics.count(report, run.history.seen, real=self._shadow and metrics is self._facts)
        return report

    def _inside(self, run: PolicyRun) -> Fraction:
        """What the policies within this one drew at their last tick."""
        reports = (other.report for other in self.runs if other.budget.policy.part_of == run.name)
        return sum((report.drawn or Fraction(0) for report in reports if report is not None), Fraction(0))

    def _hold(self) -> str | None:
        return self._context.leadership.standing_by() or settling(self._led or 0)

    def _read_confirmation(self) -> tuple[float | None, str | None]:
        """The Unix time for which a new baseline was confirmed, and what is wrong with the switch."""
        text = self._context.switches.values.get(REBASELINE)
        if text is None:
            return None, None
        try:
            moment = datetime.fromisoformat(text.strip())
            confirmed = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None, f"key {REBASELINE} of ballast-switches is {text!r}, expected a time in RFC 3339"
        # Whoever writes local time without a zone is hours off; the year 2100 would hide every later word.
        if confirmed > self._clock.wall() + WRITTEN_AHEAD:
            return None, f"key {REBASELINE} of ballast-switches is {text!r}, a day ahead; give the present time"
        return confirmed, None

    def _all_metrics(self) -> Iterable[PowerMetrics]:
        return (self._facts, self._would) if self._would else (self._facts,)

    def _document(self, paused: str | None) -> Power:
        policies = [
            policy_document(
                run.report, run.history, run.feed.semantics, rows, shadow=self._shadow, interval=self._every
            )
            for run, rows in zip(self.runs, self._rows, strict=True)
            if run.report is not None
        ]
        return Power(mode=self._mode, paused=paused, policies=policies, conditions=())


def _really_drawn(report: TickReport) -> Fraction:
    """Watts of what runs in a dry run, which reports the counts that would be: the larger of model and meter."""
    statuses, consumed = report.inputs.statuses, report.inputs.watts.consumed
    counts = {name: status.count for name, status in statuses.items() if status.count is not None}
    return max(watts_drawn(report.policy, statuses, counts), consumed or Fraction(0))


def _above(report: TickReport, watts: Fraction | None) -> Fraction:
    """By how much these watts are more than is allowed."""
    return Fraction(0) if watts is None or report.allowed is None else max(Fraction(0), watts - report.allowed)


def _read(run: PolicyRun, at: float, own: Fraction | None, unset: float) -> Watts:
    try:
        watts = run.feed.read_twice(at, own)
        if not run.budget.policy.shares_limit:
            watts = replace(watts, consumed=run.consumed(at))
        if run.schedule is None:
            return watts
        row, ahead = run.schedule.lowest(at, unset), run.schedule.ahead(at)
        bound, event = (None, None) if row is None else (row.watts, row.id)
        known = replace(watts, ahead=ahead, forecast=run.schedule.forecast, schedule_problem=run.schedule.problem)
        known = replace(known, doubt=watts.doubt or run.schedule.doubt)
        return replace(known, bound=bound, event=event)
    except Exception as error:
        log.exception("a power feed failed unexpectedly", policy=run.name)
        return Watts(None, None, f"{type(error).__name__}: {error}", "unreadable")


def _read_own(run: PolicyRun) -> Fraction | None:
    try:
        return run.own()
    except Exception:
        log.exception("the consumption of the targets is unknown, unexpectedly", policy=run.name)
        return None
