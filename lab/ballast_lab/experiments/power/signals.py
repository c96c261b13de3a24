"""Feeds to follow: the shapes that the published model was recorded on, and signals that it has trouble with.

The six shapes are those of the author's recordings (GitHub menraromial/elara, test_output and test/scenarios/test_data,
commit f62da18): their corners, lengths and starting replicas, with noise of our own where theirs is random.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, pairwise
from types import MappingProxyType

Rows = tuple[tuple[float, float], ...]

DAYS = 32
CLOUD_TICK, CLOUD_PEAK, CLOUD_HOURS, EACH = 15, 5000.0, 12.0, 50.0


@dataclass(frozen=True)
class Signal:
    """`rows` are (seconds, watts); `replicas` run at the first of them, at most `most`.

    `window` are seconds of the windows in both directions. `published` are figures that the author recorded, by name.
    """

    name: str
    rows: Rows
    replicas: int
    most: int = 400
    window: float = 6.0
    published: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def each(self) -> float:
        """Watts of a replica: the first watts carry the first replicas."""
        return self.rows[0][1] / self.replicas


def recorded(seed: int = 1) -> tuple[Signal, ...]:
    """The six recorded shapes; the seed is that of the noise of two."""
    sun = _corners([(2, 25), (4, 25), (26, 455), (38, 575), (42, 565), (60, 210), (70, 5)], 2)
    many = [(0, 50), (39, 250), (57, 250), (77, 150), (106, 150), (134, 250), (162, 250), (208, 50), (240, 50)]
    cycle = [(0, 100), (60, 220), (90, 220), (120, 100)]
    priority = [(0, 200), (75, 400), (105, 400), (180, 150)]
    return (
        Signal("Solar_Power", sun, 11, published=_ends(19, 11)),
        Signal("many_ramp_power", _corners(many, 2), 10),
        Signal("full_cycle_ramp", _corners(cycle, 2), 10, published=_ends(10, 10)),
        Signal("solar_simulation", _sun_with_clouds(seed), 6, published=_ends(7, 7)),
        Signal("priority_inversion", _corners(priority, 2), 18, published=_ends(34, 14)),
        Signal("high_frequency_noise", _noise(seed), 20, published=_ends(20, 15)),
    )


def ramp(percent: float) -> Signal:
    """From 1000 W down to 200 W by so many percent of 1000 W a minute, a row every 15 s, and 20 minutes there."""
    count = math.ceil(800 / (percent * 2.5)) + 1
    watts = [max(200.0, 1000 - percent * 2.5 * i) for i in range(count)] + [200.0] * 80
    return Signal(f"ramp {percent:g} %/min", _every(15, watts), 40, window=120)


def disturbed() -> tuple[Signal, ...]:
    """What a model without a memory drifts on, or stops at."""
    steps = [1000 * (1 - 0.054) ** min(i // 20, 40) for i in range(900)]
    cycles = [1000.0 if i // 60 % 2 == 0 else 100.0 for i in range(600)] + [1000.0] * 60
    square = [1200.0 if i % 2 else 1000.0 for i in range(400)]
    gaps = [math.nan if i == 24 else 1000.0 if i < 20 else 500.0 for i in range(200)]
    return (
        Signal("steps of 5.4 %", _every(15, steps), 9, window=60),
        Signal("nights at a tenth", _every(15, cycles), 10, window=60),
        Signal("square wave", _every(15, square), 40, window=60),
        Signal("one value is none", _every(15, gaps), 40, window=60),
    )


def cloudy_day(seed: int, hours: float = CLOUD_HOURS) -> list[float]:
    """Half a sine of 5 kW, a value every 15 s; clouds of some minutes take up to three quarters within two minutes."""
    chance, count = random.Random(seed), int(hours * 3600 / CLOUD_TICK)  # noqa: S311
    cover, goal, left, edge, found = 1.0, 1.0, 0.0, 60.0, []
    for tick in range(count):
        if left <= 0:
            cloud = chance.random() < 0.5
            goal = chance.uniform(0.25, 0.8) if cloud else 1.0
            left, edge = chance.expovariate(1 / (420 if cloud else 560)), chance.uniform(30, 120)
        left -= CLOUD_TICK
        cover += (goal - cover) * min(1.0, CLOUD_TICK / edge)
        sun = CLOUD_PEAK * math.sin(math.pi * (tick + 0.5) / count)
        found.append(round(sun * cover * (1 + chance.gauss(0, 0.003)), 1))
    return found


def clouds(seed: int) -> Signal:
    """A cloudy day from the first 50 W on, which carry one replica of at most 100."""
    return _by_day(f"clouds, seed {seed}", CLOUD_TICK, cloudy_day(seed), window=60)


def of_series(name: str, step: float, watts: Sequence[float]) -> Signal:
    """A series of watts up to 5 kW, `step` seconds apart; 50 W carry one replica of at most 100."""
    return _by_day(name, step, watts, window=0)


def days(signal: Signal) -> list[Signal]:
    """Single days of a long series, DAYS or a few more of them, evenly over its time."""
    size = round(86_400 / (signal.rows[1][0] - signal.rows[0][0]))
    watts = [value for _, value in signal.rows[1:]]
    chosen = [watts[start : start + size] for start in range(0, len(watts), size)]
    chosen = [day for day in chosen[:: max(1, len(chosen) // DAYS)] if max(day) >= EACH]
    return [of_series(signal.name, signal.rows[1][0], day) for day in chosen]


def thinned(signal: Signal, step: int) -> Signal:
    """Each `step`-th row of a series."""
    rows = signal.rows[1::step]
    return of_series(signal.name, step * (signal.rows[1][0] - signal.rows[0][0]), [watts for _, watts in rows])


def _by_day(name: str, step: float, watts: Sequence[float], window: float) -> Signal:
    return Signal(name, _every(step, [EACH, *dropwhile(lambda value: value < EACH, watts)]), 1, 100, window)


def _every(step: float, watts: Iterable[float]) -> Rows:
    return tuple((step * i, round(value, 2)) for i, value in enumerate(watts))


def _corners(corners: Sequence[tuple[float, float]], step: float) -> Rows:
    """Straight lines between (seconds, watts), a row every `step` seconds."""
    found, at = [], corners[0][0]
    while at <= corners[-1][0]:
        (start, low), (end, high) = next(pair for pair in pairwise(corners) if at <= pair[1][0])
        found.append((float(at), round(low + (high - low) * (at - start) / (end - start), 2)))
        at += step
    return tuple(found)


def _sun_with_clouds(seed: int) -> Rows:
    """Half a sine from 50 to 250 W in three minutes with two clouds, a row every 2 s."""
    chance, found = random.Random(seed), [(0.0, 60.0)]  # noqa: S311
    for i in range(1, 91):
        cover = 0.75 if 30 <= i < 40 else 0.65 if 65 <= i < 73 else 1.0
        found.append((2.0 * i, round((50 + 200 * math.sin(math.pi * i / 90)) * cover + chance.uniform(-3, 3), 2)))
    return tuple(found)


def _noise(seed: int) -> Rows:
    """A fifth of 500 W up and down, another value every second for two minutes."""
    chance = random.Random(seed)  # noqa: S311
    return ((0.0, 500.0), *((float(i), round(chance.uniform(400, 600), 2)) for i in range(1, 120)))


def _ends(highest: int, last: int) -> Mapping[str, float]:
    return MappingProxyType({"replicas at most watts": highest, "replicas at the end": last})
