"""The worker process: makes plans from what it is given, and knows nothing else.

It reads requests from standard input and writes responses to standard output, each with its length.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import sys
import traceback
from dataclasses import replace

import numpy as np

from ballast.eviction.emptying import handed_over
from ballast.eviction.explanation import explanation
from ballast.eviction.facts import Facts
from ballast.eviction.gate import Gate
from ballast.eviction.plan import EvictionPlan, make_plan
from ballast.eviction.planners.registry import planner
from ballast.model.sample import Floats
from ballast.placement.batch import plan_batch
from ballast.placement.planners.layout import Layout, layout
from ballast.planning.request import (
    PlanRequest,
    PlanResponse,
    RequestedBatch,
    RequestedPlan,
    encode,
    receive,
)
from ballast.telemetry.pods import PodUsage, decode

EXAMPLES = 5
"""Refused pods that are listed with their reason, for each check."""


def answer(request: PlanRequest) -> PlanResponse:
    """Pure, but for the time it takes."""
    if request.batch is not None:
        return _batch(request, request.batch)
    usage = decode(request.usage) if request.usage else None
    objects = request.objects
    known = np.isfinite(request.load)
    kept = [column for column in range(len(request.resources)) if known[:, column].any()]
    arranged = layout(
        objects.nodes,
        objects.pods,
        [request.resources[column] for column in kept],
        request.load[:, kept],
        usage.by_pod() if usage else None,
        request.pool_label,
        request.weights,
        None if request.error is None else request.error[:, kept],
    )
    unknown = [node.name for node, row in zip(objects.nodes, known, strict=True) if not row.any()]
    facts = Facts(objects, now=request.now, unknown=unknown, silent=request.silent)
    if (asked := request.explained) is not None:
        found = explanation(arranged, Gate(facts, asked.rules, request.history), asked.pod, asked.ceiling)
        return PlanResponse(explanation=found, megabytes=_megabytes())
    order = sorted(range(len(objects.nodes)), key=lambda row: objects.nodes[row].name)
    peak = None if request.peak is None else request.peak[:, kept][order]
    plans: list[EvictionPlan] = []
    for wanted in request.wanted:
        late = any(plan.steps for plan in plans)
        if late and not (planner(wanted.kind).whole_nodes and _marked(request, wanted)):
            continue
        made = _plan(wanted, arranged, Gate(facts, wanted.rules, request.history), peak)
        plans.append(replace(made, steps=()) if late else made)
    running = sum(pod.phase == "Running" and bool(pod.node) for pod in objects.pods)
    counted = request.usage.asked if request.usage else None
    return _told(plans, usage, running if counted is None else counted)


def _batch(request: PlanRequest, batch: RequestedBatch) -> PlanResponse:
    objects = request.objects
    labels = {each.name: each.labels for each in objects.namespaces}
    plan = plan_batch(
        objects.nodes,
        objects.pods,
        batch.uids,
        batch.rules,
        now=request.now,
        namespaces=labels,
        measured=batch.measured,
    )
    return PlanResponse(batch=plan, megabytes=_megabytes())


def main() -> None:
    """Runs until standard input ends, or after a request that failed: a new process starts clean."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()
    while True:
        try:
            memory, seconds = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the daemon alone
        except EOFError:
            return
        _limit_memory(memory)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            found = answer(receive(sys.stdin.buffer))
        except EOFError:
            return
        except MemoryError:
            found = PlanResponse(problem=f"it needs more than the {memory >> 20:,} MiB it may have")
        except Exception as error:
            traceback.print_exc()
            found = PlanResponse(problem=f"{type(error).__name__}: {error}")
        body = encode(found)
        out.write(len(body).to_bytes(8, "big") + body)
        out.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if found.problem:
            return
        gc.collect()


def _limit_memory(size: int) -> None:
    """Only Linux counts all private memory as data; elsewhere the limit does nothing or is refused."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _marked(request: PlanRequest, wanted: RequestedPlan) -> bool:
    """Whether any node is marked as emptied; it must be reconsidered every cycle."""
    return any(handed_over(node, wanted.rules.prefix) for node in request.objects.nodes)


def _plan(wanted: RequestedPlan, arranged: Layout, gate: Gate, peak: Floats | None) -> EvictionPlan:
    most = wanted.most.of(int(np.count_nonzero(arranged.present)))
    aims = wanted.aims if most is None else replace(wanted.aims, max_moves=most)
    return make_plan(wanted.kind, arranged, gate, aims, examples=EXAMPLES, peak=peak)


def _told(plans: list[EvictionPlan], usage: PodUsage | None, expected: int) -> PlanResponse:
    if usage is None:
        return PlanResponse(plans=tuple(plans), megabytes=_megabytes())
    return PlanResponse(
        plans=tuple(plans),
        measured=usage.measured,
        expected=expected,
        problems=dict(usage.problems),
        rejected=dict(usage.rejected),
        warnings=usage.warnings,
        megabytes=_megabytes(),
    )


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
