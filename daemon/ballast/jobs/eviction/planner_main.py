"""The worker process: makes plans from what it is given, and knows nothing else.

It reads errands from standard input and writes answers to standard output, each with its length.
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

from ballast.eviction.facts import Facts
from ballast.eviction.gate import Gate
from ballast.eviction.plan import Plan, make_plan
from ballast.jobs.eviction.planning_request import PlanRequest, PlanResponse, RequestedPlan, encode, receive
from ballast.placement.planners.layout import Layout, layout
from ballast.telemetry.pods import PodUsage, decode

EXAMPLES = 5
"""Refused pods that are listed with their reason, for each check."""


def answer(errand: PlanRequest) -> PlanResponse:
    """Pure, but for the time it takes."""
    usage = decode(errand.usage) if errand.usage else None
    known = np.isfinite(errand.load)
    kept = [column for column in range(len(errand.resources)) if known[:, column].any()]
    arranged = layout(
        errand.nodes,
        errand.pods,
        [errand.resources[column] for column in kept],
        errand.load[:, kept],
        usage.by_pod() if usage else None,
        errand.pool_label,
    )
    facts = Facts(
        now=errand.now,
        nodes=errand.nodes,
        pods=errand.pods,
        unknown=[node.name for node, row in zip(errand.nodes, known, strict=True) if not row.any()],
        workloads=errand.workloads,
        budgets=errand.budgets,
        autoscalers=errand.autoscalers,
        namespaces=errand.namespaces,
        protected=errand.protected,
    )
    plans: list[Plan] = []
    for wanted in errand.wanted:
        plans.append(_plan(wanted, arranged, Gate(facts, wanted.rules, errand.history)))
        if plans[-1].steps:
            break
    running = sum(pod.phase == "Running" and bool(pod.node) for pod in errand.pods)
    asked = errand.usage.asked if errand.usage else None
    return _told(plans, usage, running if asked is None else asked)


def main() -> None:
    """Until standard input ends. After what it could not do it ends too: a new process is the cleaner one."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    gc.disable()
    while True:
        try:
            memory, seconds = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the daemon alone
        except EOFError:
            return
        resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.getrlimit(resource.RLIMIT_DATA)[1]))
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


def _plan(wanted: RequestedPlan, arranged: Layout, gate: Gate) -> Plan:
    most = wanted.most.of(int(np.count_nonzero(arranged.present)))
    aims = wanted.aims if most is None else replace(wanted.aims, max_moves=most)
    return make_plan(wanted.kind, arranged, gate, aims, examples=EXAMPLES)


def _told(plans: list[Plan], usage: PodUsage | None, expected: int) -> PlanResponse:
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if usage is None:
        return PlanResponse(plans=tuple(plans), megabytes=megabytes)
    return PlanResponse(
        plans=tuple(plans),
        measured=usage.measured,
        expected=expected,
        problems=dict(usage.problems),
        rejected=dict(usage.rejected),
        warnings=usage.warnings,
        megabytes=megabytes,
    )
