"""What a way to follow a signal is judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from ballast_lab.experiments.power.contestants import Outcome
from ballast_lab.experiments.power.signals import Signal

HOUR = 3600.0
TITLES = {
    "error": "mean distance from the ideal, replicas",
    "rows over": "rows over by more than 5 %, percent",
    "time over": "time over the feed, percent",
    "worst over": "most over, W",
    "Wh over": "over the feed, Wh",
    "Wh unused": "unused, Wh",
    "actions": "actions",
    "cancels": "cancels",
}


def judged(signal: Signal, found: Outcome) -> dict[str, float]:
    """The figures of TITLES. The ideal is the first replicas · watts / first watts; each row holds until the next."""
    each, rows = signal.each, [row for row in zip(signal.rows, found.totals, strict=True) if math.isfinite(row[0][1])]
    error = sum(abs(count - min(watts / each, signal.most)) for (_, watts), count in rows) / len(rows)
    beyond = sum(count * each > watts * 1.05 + 1e-6 for (_, watts), count in rows) / len(rows)
    whole = over_time = over = unused = worst = 0.0
    for ((at, watts), count), ((later, _), _) in pairwise(rows):
        span, excess = later - at, max(0.0, count * each - watts)
        excess = excess if excess > 1e-6 * watts else 0.0
        whole += span
        over_time += span * bool(excess)
        over += span * excess
        worst = max(worst, excess)
        unused += span * max(0, min(signal.most, math.floor(watts / each + 1e-9)) - count) * each
    values = (error, 100 * beyond, 100 * over_time / whole, worst, over / HOUR, unused / HOUR)
    return dict(zip(TITLES, (*values, float(found.actions), float(found.cancels)), strict=True))


def ends(signal: Signal, found: Outcome) -> Mapping[str, float]:
    """Replicas at the highest watts, and at the end."""
    highest = max(range(len(signal.rows)), key=lambda i: (signal.rows[i][1], i))
    return {"replicas at most watts": found.totals[highest], "replicas at the end": found.totals[-1]}
