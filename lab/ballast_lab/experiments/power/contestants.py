"""Who follows a signal: the published model, Ballast's two kinds of budget, and two simple rules of other projects.

`step caps` is the rule of Azure/carbon-aware-keda-operator: a few steps of a cap, looked up now and then (here five
steps every five minutes). `clamp` is that of NVIDIA Dynamo's planner under a power limit: what fits, at each of its
adjustments (here every three minutes).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ballast.power.controller_state import Sample
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read
from ballast.power.replay import replay
from ballast_lab.experiments.power.signals import Signal

REF = "site/replicas"
STEPS, STEP_EVERY, CLAMP_EVERY = 5, 300.0, 180.0
INTERVAL = Fraction(30)
"""Seconds between two ticks of the daemon."""


@dataclass(frozen=True)
class Outcome:
    """Replicas at each row, and how often they were changed; `cancels` are windows that ended without an action."""

    totals: tuple[int, ...]
    actions: int
    cancels: int = 0


def policy_of(signal: Signal, **keys: Any) -> PowerPolicy:
    """One target from 0 to `most` replicas with the windows of the signal; `keys` win."""
    member = {"ref": REF, "min": 0, "max": signal.most, "replicas": signal.replicas}
    if keys.pop("declared", False):
        member["wattsPerReplica"] = signal.each
    side = {"window": signal.window}
    return read([{"independents": [member], "increase": side, "decrease": side, **keys}])[0]


def published(signal: Signal, tolerance: float = 0.02) -> Outcome:
    """The published model, with the tolerance of its sample or of its ramps."""
    side = {"window": signal.window, "tolerance": tolerance}
    return _replayed(signal, policy_of(signal, compat="paper", increase=side, decrease=side))


def anchor(signal: Signal) -> Outcome:
    """Ballast without watts of a replica."""
    return _replayed(signal, policy_of(signal))


def absolute(signal: Signal, window: float | None = None) -> Outcome:
    """Ballast with watts of a replica; rises wait for `window` seconds, as a rule those of the signal."""
    increase = {"window": signal.window if window is None else window}
    return _replayed(signal, policy_of(signal, declared=True, increase=increase, decrease={}))


def ticking(signal: Signal) -> dict[str, float]:
    """An absolute budget with its defaults, which ticks between the rows too: percent of the time, Wh, actions."""
    policy = policy_of(signal, declared=True, increase={}, decrease={})
    run = replay(policy, _samples(signal), {REF: signal.replicas}, interval=INTERVAL)
    return {"time over": 100 * float(run.over.share), "Wh unused": float(run.unused), "actions": float(run.actions)}


def step_caps(signal: Signal) -> Outcome:
    """A cap of so many fifths of the replicas as the watts carry."""
    highest = signal.each * signal.most
    return _looked_up(signal, STEP_EVERY, lambda watts: math.floor(STEPS * watts / highest) * signal.most // STEPS)


def clamp(signal: Signal) -> Outcome:
    """As many replicas as the watts carry."""
    return _looked_up(signal, CLAMP_EVERY, lambda watts: math.floor(watts / signal.each + 1e-9))


def _replayed(signal: Signal, policy: PowerPolicy) -> Outcome:
    found = replay(policy, _samples(signal), {REF: signal.replicas})
    return Outcome(tuple(tick.total for tick in found.ticks), found.actions, found.cancels)


def _samples(signal: Signal) -> list[Sample]:
    return [Sample.of(at, watts) for at, watts in signal.rows]


def _looked_up(signal: Signal, every: float, rule: Callable[[float], int]) -> Outcome:
    count, due, actions, totals = signal.replicas, signal.rows[0][0], 0, []
    for at, watts in signal.rows:
        if at >= due and math.isfinite(watts):
            wanted = max(0, min(signal.most, rule(watts)))
            actions += wanted != count
            count, due = wanted, at + every
        totals.append(count)
    return Outcome(tuple(totals), actions)


CONTESTANTS: Mapping[str, Callable[[Signal], Outcome]] = {
    "published": published,
    "published, 30 %": lambda signal: published(signal, 0.3),
    "anchor": anchor,
    "absolute": absolute,
    "absolute, no wait": lambda signal: absolute(signal, 0.0),
    "step caps": step_caps,
    "clamp": clamp,
}
