"""A budget of energy on days of carbon intensity: spread evenly, planned ahead, and as an oracle would place it.

A site of 5 kW has 60 kWh a day, the energy of half of it. The oracle runs all of it in the cleanest half of each day,
which is what day-ahead planning comes to where the whole load may wait (Radovanović et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from ballast.power.controller_state import Sample
from ballast.power.feed_spec import Schedule
from ballast.power.policy_reader import read
from ballast.power.replay import AS_DECLARED, NO_DEMAND, replay

SITE, DAILY, EACH = 5000.0, 60.0, 50.0
"""Watts, kWh, watts of a replica."""
DAY, FIRST, DAYS = 86_400, 100, 30
"""Seconds; the first day of the year that counts, from 0 (11 April), and how many."""
WAYS: Mapping[str, Mapping[str, Any]] = {"even": {"shift": False}, "planned ahead": {"shift": True}}

Rows = Sequence[tuple[float, float]]
"""(Unix seconds, g/kWh) of whole days."""


def lived(rows: Rows) -> dict[str, dict[str, float]]:
    """By way: kWh of the day with the least and with the most, g/kWh, and actions."""
    days = [list(day) for _, day in groupby(rows, key=lambda row: row[0] // DAY)]
    days = days[FIRST : FIRST + DAYS] or days
    chosen = [row for day in days for row in day]
    figures = {name: _followed(chosen, keys) for name, keys in WAYS.items()}
    cleanest = [sorted(value for _, value in day)[: max(1, len(day) // 2)] for day in days]
    best = sum(map(sum, cleanest)) / sum(map(len, cleanest))
    return {**figures, "oracle": {"least": DAILY, "most": DAILY, "grams": best, "actions": 0.0}}


def _followed(rows: Rows, keys: Mapping[str, Any]) -> dict[str, float]:
    member = {"ref": "site/replicas", "min": 0, "max": round(SITE / EACH), "wattsPerReplica": EACH}
    schedule = {"csv": "carbon.csv", "as": "carbon"}
    policy = read([{"independents": [member], "energy": {"kWh": DAILY, **keys}, "schedule": schedule}])[0]
    assert policy.schedule is not None
    forecast = Schedule.of((Fraction(str(at)), Fraction(str(value))) for at, value in rows).meant(policy.schedule)
    samples = [Sample.of(at, SITE) for at, _ in rows]
    run = replay(
        policy, samples, {"site/replicas": 0}, NO_DEMAND, AS_DECLARED, schedule=forecast, interval=Fraction(60)
    )
    step = rows[1][0] - rows[0][0]
    used = [float(tick.drawn or 0) * step / 3_600_000 for tick in run.ticks]
    by_day: dict[float, float] = {}
    for (at, _), energy in zip(rows, used, strict=True):
        by_day[at // DAY] = by_day.get(at // DAY, 0.0) + energy
    grams = sum(energy * value for energy, (_, value) in zip(used, rows, strict=True)) / sum(used)
    return {"least": min(by_day.values()), "most": max(by_day.values()), "grams": grams, "actions": float(run.actions)}
