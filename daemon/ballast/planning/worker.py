"""The worker process: makes plans from what it is given, and knows nothing else.

It reads requests from standard input and writes responses to standard output, each with its length.
"""

import gc
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import msgspec
import numpy as np

from ballast.eviction.coming_size import in_coming_size
from ballast.eviction.facts import Facts
from ballast.eviction.feasibility import handed_over
from ballast.eviction.gate import Gate
from ballast.eviction.starting import in_words
from ballast.model.sample import Bools
from ballast.placement.batch import plan_batch
from ballast.placement.layout import Layout, layout
from ballast.planners.built_in import planner
from ballast.planners.destinations import as_tried
from ballast.planners.eviction_plan import EvictionPlan, make_plan
from ballast.planners.explanation import explanation
from ballast.planners.refusal_prices import refusal_prices
from ballast.planning.moment import Moment, with_known_places
from ballast.planning.request import (
    BatchRequest,
    BatchResponse,
    ExplanationRequest,
    ExplanationResponse,
    FailureResponse,
    PlansRequest,
    PlansResponse,
    R,
    Request,
    RequestedPlan,
    Response,
    encode,
    receive,
)
from ballast.telemetry.pod_usage import Homes, PodUsage, decode

EXAMPLES = 5
"""Refused pods that are listed with their reason, for each check."""

PLANNED_AGAIN = 50_000
"""Pods up to which a plan that the rates leave without a step is made again without them. Of more it would be late."""
LOOKED_AT = 1000
"""Pods on hot nodes that are asked what keeps them, in a plan that moves none."""


def answer(request: Request[R]) -> R:
    """Pure, but for the time it takes."""
    return cast(R, _ANSWERS[type(request)](request))


def _place(request: BatchRequest) -> BatchResponse:
    objects = request.moment.objects
    plan = plan_batch(
        objects.nodes,
        objects.pods,
        request.uids,
        request.rules,
        now=request.moment.now,
        namespaces={namespace.name: namespace.labels for namespace in objects.namespaces},
        measured=request.measured,
    )
    return BatchResponse(plan)


def _explain(request: ExplanationRequest) -> ExplanationResponse:
    pods, gated = as_tried(request.moment.objects.pods, request.pod)
    moment = replace(request.moment, objects=replace(request.moment.objects, pods=pods))
    arranged, facts, _ = _arrange(moment, request.rules.prefix)
    gate = Gate(facts, request.rules, moment.history)
    return ExplanationResponse(explanation(arranged, gate, request.pod, request.aims, gated=gated))


def _make_plans(request: PlansRequest) -> PlansResponse:
    arranged, facts, usage = _arrange(request.moment, request.plans[0].rules.prefix)
    plans = plans_of(request, arranged, facts)
    return msgspec.structs.replace(_respond(plans, request.moment, usage), barren=in_words(facts.barren))


def plans_of(request: PlansRequest, arranged: Layout, facts: Facts) -> tuple[EvictionPlan, ...]:
    """The plans of a moment as it is `arranged`, until one has a step. After that, plans only say which nodes stay
    empty, where some are marked so."""
    moment, peak = request.moment, None
    if moment.peak is not None:
        order = sorted(range(len(moment.objects.nodes)), key=lambda row: moment.objects.nodes[row].name)
        peak = moment.peak[:, measured(moment)][order]
    plans: list[EvictionPlan] = []
    for wish in request.plans:
        late = any(plan.steps for plan in plans)
        if late and not (planner(wish.kind).whole_nodes and _marked(moment, wish)):
            continue
        most = wish.most.of(int(np.count_nonzero(arranged.present)))
        aims = wish.aims if most is None else replace(wish.aims, max_moves=most)
        gate = Gate(facts, wish.rules, moment.history)
        plan = make_plan(wish.kind, arranged, gate, aims, examples=EXAMPLES, peak=peak)
        if not plan.steps and plan.refused and planner(wish.kind).needs_confirmation:
            unspent = Gate(facts, wish.rules, moment.history)
            plan = replace(plan, prices=refusal_prices(arranged, unspent, aims, LOOKED_AT))
        if not plan.steps and plan.refused.get("rate") and len(arranged.pods) <= PLANNED_AGAIN:
            free = Gate(facts, replace(wish.rules, rates=(), budgets=()), moment.history)
            without = make_plan(wish.kind, arranged, free, replace(aims, max_moves=1), peak=peak)
            plan = replace(plan, held_back=next(iter(without.steps), None))
        plans.append(replace(plan, steps=()) if late else plan)
    return tuple(plans)


_ANSWERS: dict[type[Request[Any]], Callable[[Any], Response]] = {
    BatchRequest: _place,
    ExplanationRequest: _explain,
    PlansRequest: _make_plans,
}


def _arrange(moment: Moment, prefix: str) -> tuple[Layout, Facts, PodUsage | None]:
    """Resources of which no load is known are left out."""
    moment = with_known_places(moment, prefix)
    moment = replace(moment, objects=replace(moment.objects, pods=in_coming_size(moment.objects)))
    homes = Homes(moment.objects.nodes, moment.objects.pods, moment.elsewhere)
    usage = decode(moment.usage, homes) if moment.usage else None
    kept = measured(moment)
    arranged = layout(
        moment.objects.nodes,
        moment.objects.pods,
        [moment.resources[column] for column in kept],
        moment.load[:, kept],
        usage.by_pod() if usage else None,
        moment.pool_label,
        moment.weights,
        None if moment.error is None else moment.error[:, kept],
        usage.over_the_hour() if usage else None,
    ).weighted(moment.node_weights)
    return arranged, facts_about(moment), usage


def facts_about(moment: Moment) -> Facts:
    """A node without any known load is unknown."""
    known: Bools = np.asarray(np.isfinite(moment.load).any(axis=1))
    unknown = [node.name for node, is_known in zip(moment.objects.nodes, known.tolist(), strict=True) if not is_known]
    return Facts(moment.objects, now=moment.now, unknown=unknown, silent=moment.silent)


def measured(moment: Moment) -> list[int]:
    """The columns of the load in which anything is known."""
    known = np.isfinite(moment.load)
    return [column for column in range(len(moment.resources)) if known[:, column].any()]


def _marked(moment: Moment, wish: RequestedPlan) -> bool:
    """Whether any node is marked as emptied; it must be reconsidered every cycle."""
    return any(handed_over(node, wish.rules.prefix) for node in moment.objects.nodes)


def _respond(plans: tuple[EvictionPlan, ...], moment: Moment, usage: PodUsage | None) -> PlansResponse:
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    if usage is None or moment.usage is None:
        return PlansResponse(plans, megabytes=memory)
    expected = moment.usage.asked
    if expected is None:
        expected = sum(pod.phase == "Running" and bool(pod.node) for pod in moment.objects.pods)
    return PlansResponse(plans, usage.measured, expected, dict(usage.problems), dict(usage.rejected), memory)


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
        signal.setitimer(signal.ITIMER_PROF, seconds)  # CPU seconds, from here on: the start does not count
        try:
            response = answer(receive(sys.stdin.buffer))
        except EOFError:
            return
        except MemoryError:
            response = FailureResponse(f"it needs more than the {memory >> 20:,} MiB it may have")
        except Exception as error:
            traceback.print_exc()
            response = FailureResponse(f"{type(error).__name__}: {error}")
        body = encode(response)
        out.write(len(body).to_bytes(8, "big") + body)
        out.flush()
        signal.setitimer(signal.ITIMER_PROF, 0)
        if isinstance(response, FailureResponse):
            return
        gc.collect()


def _limit_memory(size: int) -> None:
    """Only Linux counts all private memory as data; elsewhere the limit does nothing or is refused."""
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (size, resource.getrlimit(resource.RLIMIT_DATA)[1]))
