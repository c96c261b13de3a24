"""How many of 1,000 pods find room when they wait behind the gate and go small first.

In the calibrated worlds, placed by a real kube-scheduler; beside it what the plan alone promises for other lists.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from ballast.model.pod import Pod
from ballast.placement.batch import BatchOrder, BatchRules, plan_batch
from ballast_lab.bench.rows import Row
from ballast_lab.bench.worlds import BATCH, STOCKED, Placed, Run, measured
from ballast_lab.experiments.rules import Stock
from ballast_lab.experiments.scheduling import schedule
from ballast_lab.experiments.worlds import CALIBRATED, worlds
from ballast_lab.experiments.worlds import arrivals as drawn
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.worlds import SIZES, accepted_by_size, arrivals

SEED = 1
SEEDS = (1, 2, 3, 4, 5)
REACH = 1.4
QUICK = {"names": ("R1",), "seeds": (1,)}


def measure(names: Sequence[str] = CALIBRATED, seeds: Sequence[int] = SEEDS) -> list[Row]:
    return [*_real(names), *_planned(names, seeds)]


def _real(names: Sequence[str]) -> list[Row]:
    what = "pods placed from behind the gate, small first, over the stock default"
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{"what": what, "at": "", "reach": "", "measured": f"not measured: {error}"}]
    found = measured(tools, [Run(SEED, name, way) for name in names for way in (STOCKED, BATCH)])
    ratios = {name: _sum(found, name, BATCH) / _sum(found, name, STOCKED) for name in names}
    mean = statistics.mean(ratios.values())
    at = f"real kube-scheduler, {len(names)} calibrated worlds, 1,000 pods"
    rows: list[Row] = [
        {
            "what": what,
            "at": at,
            "reach": f"≥ {REACH:g} ×",
            "measured": f"{mean:.2f} × ({min(ratios.values()):.2f} to {max(ratios.values()):.2f})",
            "verdict": "met" if mean >= REACH else f"{REACH - mean:.2f} short",
        }
    ]
    kinds = arrivals(SEED)
    for name in names:
        told = [
            f"{way} {_sum(found, name, way)}; {_shares(accepted_by_size(kinds, found[Run(SEED, name, way)]))} %"
            for way in (STOCKED, BATCH)
        ]
        rows.append(
            {
                "what": f"world {name}: pods placed; accepted {'/'.join(SIZES)}",
                "at": "real kube-scheduler, one order",
                "reach": "reported",
                "measured": " · ".join(told),
            }
        )
    return rows


def _planned(names: Sequence[str], seeds: Sequence[int]) -> list[Row]:
    """The plan against the embedded scheduler, on pods in other orders."""
    rows: list[Row] = []
    for order in BatchOrder:
        ratios, large = [], []
        for name in names:
            world = worlds()[name]
            for seed in seeds:
                kinds, shapes = drawn(seed), world.shapes()
                pods = [
                    Pod("default", f"p{number:04d}", f"u{number}", shape=shapes[kind], created=float(number))
                    for number, kind in enumerate(kinds.tolist())
                ]
                plan = plan_batch(world.fleet(), pods, [pod.uid for pod in pods], BatchRules(order), now=1000.0)
                ratios.append(len(plan.steps) / schedule(world, kinds, Stock()).count)
                placed = {step.uid for step in plan.steps}
                large.append(accepted_by_size(kinds.tolist(), [pod.uid in placed for pod in pods])[-1])
        measured_ = f"{statistics.mean(ratios):.2f} × ({min(ratios):.2f} to {max(ratios):.2f})"
        rows.append(
            {
                "what": f"pods that the plan places over the stock default, order {order}; large pods accepted",
                "at": f"embedded scheduler, {len(names)} calibrated worlds, {len(seeds)} lists of 1,000 pods",
                "reach": "reported",
                "measured": f"{measured_}; {100 * statistics.mean(large):.0f} %",
            }
        )
    return rows


def _sum(found: Mapping[Run, Placed], name: str, way: str) -> int:
    return sum(found[Run(SEED, name, way)])


def _shares(sizes: Sequence[float]) -> str:
    return "/".join(f"{100 * each:.0f}" for each in sizes)
