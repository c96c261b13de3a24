"""A node's CPU pressure less what CPU quotas explain: the arithmetic of the preset on tasks whose truth is known."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.telemetry import presets
from tests.unit.telemetry.fake_prometheus import settings

SHARE = st.floats(0, 0.99)


def contention(pressure: float, shares: Sequence[float]) -> float:
    """What the query of psi-cpu computes, with throttled shares of containers; without any the pressure as it is."""
    return max(0.0, 1 - (1 - pressure) / math.prod(1 - share for share in shares)) if shares else pressure


@given(pressure=st.floats(0, 1), shares=st.lists(SHARE, max_size=5))
def test_it_is_never_negative_and_never_above_the_pressure(pressure: float, shares: list[float]) -> None:
    assert 0 <= contention(pressure, shares) <= pressure + 1e-12


@given(truth=st.floats(0, 1), shares=st.lists(SHARE, min_size=1, max_size=3))
def test_independent_causes_are_told_apart(truth: float, shares: list[float]) -> None:
    awake = math.prod(1 - share for share in shares)
    assert contention(1 - awake * (1 - truth), shares) == pytest.approx(truth, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("quotas", "others"), [((0.5,), 0), ((0.3, 0.6), 0), ((0.5, 0.8), 2), ((), 3), ((0.4,), 5)])
def test_cgroups_whose_truth_is_known(quotas: tuple[float, ...], others: int) -> None:
    """Three cpus in steps of 1 ms: a greedy task per quota, its periods shifting, and `others` that work in bursts.

    A throttled task leaves its cpu to others, so contention is rarer while it sleeps: what is found lies between the
    truth and the raw pressure.
    """
    chance = random.Random(7)
    cpus, period, steps = 3, 100, 60_000
    phase = [chance.randrange(period) for _ in quotas]
    used = [0] * len(quotas)
    wants = [False] * others
    waiting = contended = 0
    throttled = [0] * len(quotas)
    for now in range(steps):
        for task, offset in enumerate(phase):
            if (now + offset) % period == 0:
                used[task] = 0
                phase[task] = chance.randrange(period) if chance.random() < 0.1 else offset
        wants = [chance.random() < 0.5 if chance.random() < 0.05 else want for want in wants]
        asleep = [spent >= quota * period for spent, quota in zip(used, quotas, strict=True)]
        runnable = [("quota", task) for task, out in enumerate(asleep) if not out]
        runnable += [("other", task) for task, want in enumerate(wants) if want]
        chance.shuffle(runnable)
        for kind, task in runnable[:cpus]:
            if kind == "quota":
                used[task] += 1
        for task, out in enumerate(asleep):
            throttled[task] += out
        contended += len(runnable) > cpus
        waiting += len(runnable) > cpus or any(asleep)
    found = contention(waiting / steps, [count / steps for count in throttled])
    truth, raw = contended / steps, waiting / steps
    assert truth - 0.02 <= found <= raw
    if quotas:
        assert found - truth <= 0.6 * (raw - truth)


def test_the_query_joins_by_host_and_falls_back_to_the_pressure() -> None:
    text = presets.queries(settings({}, {"preset": "psi"}))["psi-cpu"]
    assert text.startswith("max by (instance, cluster, prometheus_replica, replica) (1 - (1 - label_replace(")
    assert "container_cpu_cfs_throttled_seconds_total" in text
    assert text.rpartition(" or ")[2].startswith(
        "label_replace(max by (instance, cluster, prometheus_replica, replica) (rate(node_pressure_cpu_"
    )
