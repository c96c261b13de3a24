"""Ten days and nights: whether the composition returns; and a solar day beside an autoscaler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ballast.power.controller_state import Sample
from ballast.power.policy_reader import read
from ballast.power.replay import RecordedDemand, replay

LARGE, SMALL, WEB = "site/large", "site/small", "site/web"
HOUR = 3600
WAYS: Mapping[str, Mapping[str, Any]] = {
    "published": {"compat": "paper"},
    "anchor": {"budget": "anchor"},
    "absolute": {"budget": "absolute"},
}


def composition(keys: Mapping[str, Any], days: int = 10) -> dict[str, int]:
    """Replicas of a large and a small target after days between 3,600 and 600 W; they begin with 15 and 3."""
    members = [
        {"ref": LARGE, "min": 1, "max": 30, "replicas": 15, "wattsPerReplica": 200},
        {"ref": SMALL, "min": 1, "max": 30, "replicas": 3, "wattsPerReplica": 200},
    ]
    policy = read([{"independents": members, "margin": 0, **_known(keys)}])[0]
    watts = [3600.0 if (tick // 40) % 2 == 0 else 600.0 for tick in range(80 * days + 40)]
    samples = [Sample.of(30 * i, each) for i, each in enumerate(watts)]
    return dict(replay(policy, samples, {LARGE: 15, SMALL: 3}).ticks[-1].replicas)


def autoscaled(keys: Mapping[str, Any]) -> dict[str, float]:
    """A web service whose autoscaler wants 20 by day and 5 in the evening, beside a batch of 20, over two solar days.

    Replica-hours of its demand that were not met while the watts would have carried them, and the share of time over.
    """
    members = [
        {"ref": WEB, "min": 1, "max": 40, "replicas": 20, "wattsPerReplica": 50, "priority": 1},
        {"ref": SMALL, "min": 0, "max": 40, "replicas": 20, "wattsPerReplica": 50},
    ]
    policy = read([{"independents": members, **_known(keys)}])[0]
    demand = RecordedDemand({WEB: [(Fraction(HOUR * 12 * i), 20 if i % 2 == 0 else 5) for i in range(4)]})
    samples = [Sample.of(60 * i, round(_sun(60 * i), 1)) for i in range(48 * 60)]
    found = replay(policy, samples, {WEB: 20, SMALL: 20}, demand)
    unmet = 0.0
    for tick in found.ticks:
        wanted = demand.at(tick.t or Fraction(0))[WEB]
        fits = min(wanted, int((tick.watts or 0) / 50))
        unmet += max(0, fits - tick.replicas[WEB]) / 60
    return {"unmet replica-hours": unmet, "time over, percent": 100 * float(found.over.share)}


def _known(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    side = {"window": 60}
    return {"increase": side, "decrease": {} if keys.get("budget") == "absolute" else side, **keys}


def _sun(at: float) -> float:
    """From 8 to 20 o'clock after a noon at 0, as half a sine up to 2 kW, and 250 W of a battery at all times."""
    hour = (at / HOUR + 12) % 24
    return 250 + 1750 * max(0.0, math.sin(math.pi * (hour - 6) / 12))
