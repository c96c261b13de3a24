"""Windows as anyone would write them: dictionaries and loops."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from ballast.windows.statistics import WindowRules

AHEAD = 2


@dataclass
class Expected:
    mean: float = math.nan
    std: float = math.nan
    p95: float = math.nan
    count: int = 0
    coverage: float = 0.0
    known: bool = False


@dataclass
class Oracle:
    """Remembers everything; with `rows`, a newer lap of a ring of so many rows erases what it replaces."""

    step: float
    rows: int | None = None
    samples: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    times: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    newest: dict[tuple[str, str], float] = field(default_factory=dict)

    def write(self, resource: str, slot: int, values: Iterable[tuple[str, float, float]]) -> None:
        for name, value, time in values:
            series = self.samples.setdefault((resource, name), {})
            same_row = [s for s in series if self.rows and s != slot and (s - slot) % self.rows == 0]
            if math.isfinite(value) and not any(s > slot for s in same_row):
                for s in same_row:
                    del series[s]
                series[slot] = value
                self.times.setdefault((resource, name), {})[slot] = time
                self.newest[resource, name] = max(self.newest.get((resource, name), -math.inf), time)

    def advance(self, slot: int) -> None:
        for key, series in self.samples.items():
            for s in [s for s in series if s > slot + AHEAD]:
                del series[s]
            if self.newest.get(key, -math.inf) > (slot + AHEAD) * self.step:
                self.newest[key] = max(series) * self.step if series else -math.inf

    def window(
        self,
        resource: str,
        name: str,
        end: int,
        seconds: float,
        longest: float,
        rules: WindowRules,
        scale: float,
        age: float = math.inf,
    ) -> Expected:
        series = self.samples.get((resource, name), {})
        chosen = self._within(series, end, seconds)
        resolution = rules.resolution
        raw = self._raw(resource, name, [slot for slot, _ in self._within(series, end, longest)])
        if resolution is None:
            gaps = _differences(raw)
            resolution = statistics.median(gaps) * self.step if gaps else self.step
        lived = min(seconds, max(age, self.step))
        slots = {slot for slot, _ in chosen}
        scrapes = [slot for slot in raw if slot in slots]
        begin = end - lived / self.step
        gaps = _differences([begin, *(slot for slot in scrapes if slot > begin)])
        coverage = sum(min(gap * self.step, 2.5 * resolution) for gap in gaps) / lived
        fresh = end * self.step - self.newest.get((resource, name), -math.inf) <= rules.max_age
        known = fresh and coverage >= rules.min_coverage - 1e-12 and len(scrapes) >= max(rules.min_samples, 1)
        if not known:
            return Expected(count=len(scrapes), coverage=coverage)
        values = sorted(value for _, value in chosen)
        rank = 0.95 * (len(values) - 1)
        low = math.floor(rank)
        high = min(low + 1, len(values) - 1)
        return Expected(
            mean=statistics.fmean(values) * scale,
            std=statistics.pstdev(values) * scale,
            p95=(values[low] + (values[high] - values[low]) * (rank - low)) * scale,
            count=len(scrapes),
            coverage=coverage,
            known=True,
        )

    def _raw(self, resource: str, name: str, slots: list[int]) -> list[int]:
        """The slots whose raw sample is in no earlier one."""
        times, latest, found = self.times.get((resource, name), {}), -math.inf, []
        for slot in slots:
            if times[slot] > latest + 0.1:
                found.append(slot)
            latest = max(latest, times[slot])
        return found

    def _within(self, series: dict[int, float], end: int, seconds: float) -> list[tuple[int, float]]:
        start = end * self.step - seconds
        return sorted((slot, value) for slot, value in series.items() if start < slot * self.step and slot <= end)


def _differences(numbers: list[float] | list[int]) -> list[float]:
    return [b - a for a, b in pairwise(numbers)]
