"""Plays a recording to several runs at once, side by side, and writes down what came of each."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import msgspec
import numpy as np

from ballast.base.errors import BadFile, UsageError
from ballast.settings import Settings
from ballast_lab.rehearse import power
from ballast_lab.rehearse.as_it_was import AsItWas
from ballast_lab.rehearse.ballast_run import BallastRun
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import History, Unknown
from ballast_lab.rehearse.low_node_utilization import LowNodeUtilization
from ballast_lab.rehearse.measures import LEVELS, Estimate, Measures, MoveRecord
from ballast_lab.rehearse.recording import NODE_USAGE, Recording, Use

AS_IT_WAS = "as-it-was"
LEAST_STEPS = 2
LEAD = 3600.0
"""Seconds before the first step from which windows are filled, where they are recorded: a daemon reads its past too."""
COLUMNS = 200
"""Times of which the loads of all nodes are kept, at most."""


class Run(Protocol):
    """What plays."""

    name: str
    course: Course
    measures: Measures

    def lead(self, use: Use) -> None:
        """A step before the time that is played: what is measured there is known, nothing is done."""

    def advance(self, use: Use) -> None:
        """One step of time."""

    def finish(self) -> None:
        """The end of time."""


class EvictionCounts(msgspec.Struct, frozen=True):
    """How many pods were evicted."""

    total: int
    by_planner: Mapping[str, int]
    most_of_one_workload: int
    by_workload: Mapping[str, int]


class RunResult(msgspec.Struct, frozen=True):
    """What came of one run. Intervals are those of 95 %; hours and deviations count as docs/rehearse.md says."""

    name: str
    node_hours_above: Mapping[str, Estimate]
    deviation: Mapping[str, Estimate]
    load_p99: Estimate
    concentration: int
    nodes_emptied: int
    node_hours_saved: Estimate
    evictions: EvictionCounts
    label_writes: int
    refused: Mapping[str, int]
    power: Mapping[str, float] | None = None
    moves: Sequence[MoveRecord] = ()


class Advice(msgspec.Struct, frozen=True):
    """The settings that did best within the bound, as environment variables, and why."""

    settings: Mapping[str, str]
    why: str


class Rehearsal(msgspec.Struct, frozen=True):
    """`rehearsal.json`. Times are RFC 3339, the step is seconds; shares are fractions of what they are of."""

    begin: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    step: float
    nodes: int
    pods: int
    unknown: Sequence[Unknown]
    runs: Sequence[RunResult]
    advice: Advice | None = None


@dataclass(frozen=True)
class Span:
    """Which part of a recording is played, in steps of so many seconds."""

    begin: float
    end: float
    step: float

    @property
    def steps(self) -> int:
        """How many times are played."""
        return math.floor((self.end - self.begin) / self.step + 1e-9) + 1


@dataclass
class Played:
    """The runs after they have been played, and what was not known."""

    runs: Sequence[Run]
    span: Span
    unknown: Sequence[Unknown]
    unmeasured: float = 0.0
    loads: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float32]]]] = field(default_factory=dict)
    """By run the load of every node at some times: for the picture."""
    power: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By run, of those with a policy that can be rehearsed."""


def span_of(recording: Recording, begin: float | None, end: float | None, step: float) -> Span:
    """The part that is asked for and recorded, on multiples of the step. Raises BadFile where there is none."""
    head = recording.head
    first = math.ceil(max(head.begin, head.begin if begin is None else begin) / step) * step
    last = math.floor(min(head.end, head.end if end is None else end) / step) * step
    if last - first < LEAST_STEPS * step:
        raise BadFile(
            f"{recording.folder} holds nothing of that time: it goes from {_stamp(head.begin)} to {_stamp(head.end)}. "
            "Give --from and --to inside of it, or a smaller --step."
        )
    return Span(first, last, step)


def check_step(name: str, settings: Settings, step: float) -> None:
    """Raises UsageError where a window would never have the samples that it needs."""
    length, needed = settings.windows.lengths[0], settings.windows.min_samples
    if step * needed > length:
        raise UsageError(
            f"--step {step:g} s is too long for {name}: its window of {length.text} needs {needed} samples "
            f"(BALLAST_WINDOWS__LENGTHS, MIN_SAMPLES). Give at most {length / needed:g} s."
        )


def runs_of(history: History, today: Settings, named: Mapping[str, Settings], step: float) -> list[Run]:
    """As it was, the descheduler, and Ballast with each of the settings. Raises UsageError for a step too long."""
    for name, settings in named.items():
        check_step(name, settings, step)
    return [
        AsItWas(Course(history, today), step),
        LowNodeUtilization(Course(history, today), today, step),
        *(BallastRun(name, Course(history, settings), settings, step) for name, settings in named.items()),
    ]


def play(
    recording: Recording, span: Span, runs: Sequence[Run], progress: Callable[[int, int], None] = lambda done, of: None
) -> Played:
    """All runs see each step before the next is read. Raises BadFile where nothing of the nodes is known."""
    # What is there now stays until the end: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    missing = expected = 0
    kept: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float32]]]] = {run.name: [] for run in runs}
    every = math.ceil(span.steps / COLUMNS)
    first = runs[0].course
    lead = max(0, math.floor(min(LEAD, span.begin - recording.head.begin) / span.step + 1e-9))
    uses = recording.play(span.begin - lead * span.step, span.end, span.step)
    for use in itertools.islice(uses, lead):
        for run in runs:
            run.lead(use)
    for number, use in enumerate(uses):
        for run in runs:
            run.advance(use)
        here = first.running()
        expected += len(here)
        missing += int(np.count_nonzero(np.isnan(first.of_pods(here)).any(axis=1)))
        if number % every == 0:
            for run in runs:
                kept[run.name].append(np.fmax.reduce(run.course.load(), axis=0).astype(np.float32))
        progress(number + 1, span.steps)
    gc.unfreeze()
    if not runs[0].measures.known:
        raise BadFile(
            f"{recording.folder}: no node has any use at that time. Are the names in {NODE_USAGE} those of the nodes?"
        )
    for run in runs:
        run.finish()
    return Played(runs, span, recording.head.unknown, missing / max(expected, 1), kept)


def add_power(recording: Recording, played: Played, named: Mapping[str, Settings]) -> None:
    """What the power policies of each settings would have done with the recorded feeds. Raises BadFile."""
    feeds = power.Feeds(recording.folder, played.span.begin, played.span.end)
    first, unknown = next(iter(named.values())), dict.fromkeys(played.unknown)
    results = {AS_IT_WAS: power.as_it_was(first, recording.history, feeds)}
    for name, settings in named.items():
        results[name] = power.rehearse(settings, recording.history, feeds)
        unknown |= dict.fromkeys(power.unknown(settings, feeds))
    played.power = {name: result for name, result in results.items() if result is not None}
    played.unknown = tuple(unknown)


def rehearsal(recording: Recording, played: Played, advice: Advice | None = None) -> Rehearsal:
    """What `rehearsal.json` says."""
    span, history = played.span, recording.history
    ran = (history.start <= span.end) & (history.end > span.begin)
    there = (history.appeared <= span.end) & (history.left > span.begin)
    return Rehearsal(
        _stamp(span.begin),
        _stamp(span.end),
        span.step,
        int(np.count_nonzero(there)),
        int(np.count_nonzero(ran)),
        [Unknown(each.what, round(each.share, 4)) for each in _unknown(recording, played)],
        [_result(run, played.runs[0], played.power.get(run.name)) for run in played.runs],
        advice,
    )


def _unknown(recording: Recording, played: Played) -> Iterable[Unknown]:
    """What the recording does not say, with its share."""
    span, history = played.span, recording.history
    yield from (*played.unknown, *history.unknown)
    before = played.runs[0].measures
    if before.known < before.expected:
        yield Unknown("load of nodes: not measured, so not counted", 1 - before.known / before.expected)
    if played.unmeasured:
        yield Unknown("use of pods: not measured, so their requests count", played.unmeasured)
    if recording.head.step > span.step:
        yield Unknown("use between samples: the last sample counts", 1 - span.step / recording.head.step)
    came = (history.start > span.begin) & (history.start <= span.end)
    if came.any():
        yield Unknown("where pods that came later would have gone: they go where they went", float(came.mean()))
    hot = sum(before.hot["0.9"])
    if hot:
        share = hot / max(before.known, 1)
        yield Unknown("use of pods on nodes above 90 %: elsewhere they might have used more", share)


def _result(run: Run, as_it_was: Run, power: Mapping[str, float] | None) -> RunResult:
    measures, by_workload = run.measures, run.measures.by_workload
    return RunResult(
        run.name,
        {level: measures.node_hours(level) for level in LEVELS},
        measures.deviations(),
        measures.load_p99(),
        measures.concentration,
        measures.nodes_emptied,
        measures.saved(as_it_was.measures),
        EvictionCounts(
            sum(measures.evictions.values()),
            dict(sorted(measures.evictions.items())),
            max(by_workload.values(), default=0),
            dict(sorted(by_workload.items(), key=lambda entry: (-entry[1], entry[0]))),
        ),
        measures.label_writes,
        dict(sorted((check, count) for check, count in measures.refused.items() if count)),
        power,
        measures.moves,
    )


def encode(document: Rehearsal) -> bytes:
    """The bytes of `rehearsal.json`."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _stamp(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
