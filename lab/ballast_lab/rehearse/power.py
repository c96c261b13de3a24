"""What power policies would have done with their recorded feeds: the daemon's own controller decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, repeat
from pathlib import Path

import numpy as np

from ballast.base.errors import BadFile
from ballast.cli.power import inputs
from ballast.jobs.power.build_power import policies
from ballast.power.controller_state import Sample
from ballast.power.feed_spec import Schedule, Semantics
from ballast.power.policy import PowerPolicy
from ballast.power.replay import RecordedDemand, Replay, replay
from ballast.power.replay_figures import base_of
from ballast.power.values import exact
from ballast.settings import Settings
from ballast.telemetry.feeds.power_schedule import recorded_schedule
from ballast_lab.rehearse import tables
from ballast_lab.rehearse.history import History, Unknown
from ballast_lab.rehearse.tables import Row

FEEDS = "feeds"
HEAD = ("time", "policy", "watts")
INTENSITY = "intensity"

Totals = Mapping[str, float]
"""`over_share` is the worst of the policies, all else the sum of those that have it; hours are watt-hours."""


def record_feeds(settings: Settings, folder: Path, begin: float, end: float, step: float) -> None:
    """Writes the table `feeds`: of each policy whose feed Prometheus has. Raises TelemetryError."""
    rows = [row for policy in policies(settings) if policy.feed and policy.feed.query is not None
            for row in _recorded(policy, settings, f"{begin},{end}", f"{step}s")]  # fmt: skip
    if rows:
        tables.write_rows(folder / f"{FEEDS}.csv", (*HEAD, INTENSITY), rows)


def _recorded(policy: PowerPolicy, settings: Settings, span: str, step: str) -> Iterator[Row]:
    assert policy.feed is not None
    carbon: Iterable[Sample | None] = repeat(None)
    if policy.feed.semantics is Semantics.CARBON:
        bare = policy.feed.model_copy(update={"semantics": Semantics.AVAILABLE, "map": None})
        carbon = inputs.recorded(policy.model_copy(update={"feed": bare}), span, step, settings)
    for sample, intensity in zip(inputs.recorded(policy, span, step, settings), carbon, strict=False):
        values = [None if each is None or each.watts is None else float(each.watts) for each in (sample, intensity)]
        yield dict(zip((*HEAD, INTENSITY), (float(_at(sample)), policy.name, *values), strict=True))


class Feeds:
    """The recorded feeds of a recording; none where it has no such table. Raises BadFile for a damaged one."""

    def __init__(self, folder: Path, begin: float, end: float) -> None:
        self._samples: dict[str, list[Sample]] = {}
        self._carbon: dict[str, list[tuple[Fraction, Fraction]]] = {}
        path = tables.find(folder, FEEDS)
        for row in () if path is None else tables.rows(path, HEAD):
            try:
                at = float(row["time"])
                watts = None if row["watts"] is None else exact(row["watts"])
                grams = None if row.get(INTENSITY) is None else exact(row[INTENSITY])
            except (TypeError, ValueError):
                raise BadFile(f"{path}: time {row['time']!r}, watts {row['watts']!r} are no numbers.") from None
            if begin <= at <= end:
                self._samples.setdefault(str(row["policy"]), []).append(Sample(exact(at), watts))
                if grams is not None:
                    self._carbon.setdefault(str(row["policy"]), []).append((exact(at), grams))

    def of(self, policy: PowerPolicy) -> Sequence[Sample]:
        """Its samples, in the order of time."""
        return self._samples.get(policy.name, ())

    def carbon(self, policy: PowerPolicy) -> Schedule | None:
        """Grams a kWh: recorded beside the feed, else those of its schedule. Raises UsageError."""
        if (rows := self._carbon.get(policy.name)) is not None:
            return Schedule.of(rows)
        spec = policy.schedule
        return recorded_schedule(policy) if spec is not None and spec.priced_as == "carbon" else None


def as_it_was(settings: Settings, history: History, feeds: Feeds) -> Totals | None:
    """What was drawn above the feeds; None without a policy that can be rehearsed."""
    sums = []
    for policy, samples in _usable(settings, feeds):
        demand = _replicas(policy, history, samples)
        drawn = [base_of(policy) + policy.drawn(demand.at(_at(sample))) for sample in samples]
        sums.append(_held(samples, drawn, feeds.carbon(policy)))
    return _together(sums)


def rehearse(settings: Settings, history: History, feeds: Feeds) -> Totals | None:
    """The same under the policies: what workloads had is what they ask for."""
    sums = []
    for policy, samples in _usable(settings, feeds):
        demand = _replicas(policy, history, samples)
        interval = exact(float(settings.telemetry.interval))
        schedule = recorded_schedule(policy)
        result = replay(policy, samples, demand.at(_at(samples[0])), demand, schedule=schedule, interval=interval)
        drawn = [tick.drawn or Fraction(0) for tick in result.ticks]
        sums.append({**_held(samples, drawn, feeds.carbon(policy)), **_of(result)})
    return _together(sums)


def unknown(settings: Settings, feeds: Feeds) -> Iterator[Unknown]:
    """Policies that cannot be rehearsed."""
    followed = policies(settings)
    for policy in followed:
        if policy.schedule is not None and policy.schedule.csv is None:
            yield Unknown(f"power policy {policy.name}: what its schedule said then", 1 / len(followed))
        if (why := _unusable(policy, feeds)) is not None:
            yield Unknown(f"power policy {policy.name}: {why}", 1 / len(followed))


def _usable(settings: Settings, feeds: Feeds) -> Iterator[tuple[PowerPolicy, Sequence[Sample]]]:
    for policy in policies(settings):
        if _unusable(policy, feeds) is None:
            yield policy, feeds.of(policy)


def _unusable(policy: PowerPolicy, feeds: Feeds) -> str | None:
    if not policy.absolute or any(place.member.measured for place in policy.places.values()):
        return "the watts of a replica are not declared"
    return None if len(feeds.of(policy)) > 1 else "its feed is not recorded"


def _replicas(policy: PowerPolicy, history: History, samples: Sequence[Sample]) -> RecordedDemand:
    """How many replicas of each target there were, at the times of the samples."""
    times = np.array([float(_at(sample)) for sample in samples])
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in policy.places}
    kinds = {name: place.member.kind.partition(".")[0] for name, place in policy.places.items()}
    for row, pod in enumerate(history.pods):
        key = history.key(pod)
        name = "" if key is None else f"{key[0]}/{key[2]}"
        if key is not None and kinds.get(name) == f"{key[1].lower()}s":
            spans[name].append((float(history.start[row]), float(history.end[row])))
    counts = {name: sum((times >= begin) & (times < end) for begin, end in stays) for name, stays in spans.items()}
    zero = np.zeros(len(times), np.int64)
    return RecordedDemand({
        name: [(_at(sample), int(count)) for sample, count in zip(samples, zero + counts[name], strict=True)]
        for name in policy.places
    })  # fmt: skip


def _held(samples: Sequence[Sample], drawn: Sequence[Fraction], carbon: Schedule | None) -> dict[str, float]:
    """Energy, its carbon if that is known all the time, and what of it was above the feed: each valid sample holds
    until the next."""
    over = energy = above = known = 0.0
    grams = None if carbon is None else 0.0
    for (sample, watts), (later, _) in pairwise(zip(samples, drawn, strict=True)):
        hours = float(_at(later) - _at(sample)) / 3600
        energy += float(watts) * hours
        intensity = None if carbon is None else carbon.mean(_at(sample), _at(later))
        grams = None if grams is None or intensity is None else grams + float(watts * intensity) * hours / 1000
        if sample.watts is not None:
            known += hours
            above += hours * (watts > sample.watts)
            over += max(0.0, float(watts - sample.watts)) * hours
    share = above / known if known else 0.0
    return {"over_watt_hours": over, "over_share": share, "energy_kwh": energy / 1000} | (
        {} if grams is None else {"grams": grams}
    )


def _of(result: Replay) -> dict[str, float]:
    return {"over_watt_hours": float(result.over.watt_hours), "over_share": float(result.over.share or 0),
            "unused_watt_hours": float(result.unused), "actions": float(result.actions)}  # fmt: skip


def _together(sums: Iterable[Mapping[str, float]]) -> Totals | None:
    listed = list(sums)
    if not listed:
        return None
    worst = max(each["over_share"] for each in listed)
    names = dict.fromkeys(name for each in listed for name in each)
    return {name: round(sum(each.get(name, 0.0) for each in listed), 4) for name in names} | {
        "over_share": round(worst, 6)
    }


def _at(sample: Sample) -> Fraction:
    assert sample.at is not None
    return sample.at
