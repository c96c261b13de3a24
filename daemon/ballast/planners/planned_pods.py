"""Which pods wait for room that nobody else makes, and how many more are expected."""

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from ballast.eviction.facts import NODE_ARRIVES, Facts, WorkloadKey
from ballast.eviction.gate_rules import HOUR
from ballast.model.node import Node, Taint
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Ints
from ballast.placement.layout import Layout, layout
from ballast.placement.simulated_placement import SimulatedPlacement

_SLOTS = 6
# Taints of nodes that are starting.
_STARTING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/unregistered")


class PlannedPods:
    """What planners ask about the pods of a layout, worked out when they do."""

    def __init__(self, arranged: Layout, facts: Facts, wait_for: float) -> None:
        self._arranged, self._facts, self._wait_for = arranged, facts, wait_for
        self.now = facts.now

    @cached_property
    def waiting(self) -> Bools:
        """[pod]: those that room may be made for."""
        return waiting(self._arranged, self._facts, self._wait_for)

    @cached_property
    def arrivals(self) -> float:
        """Pods that are expected to come and stay within the next hour."""
        return arrivals(self._arranged.pods, self._facts.now)

    @cached_property
    def workload(self) -> Ints:
        """[pod]: a number that the pods of a workload share, -1 for a pod without owner."""
        numbers: dict[WorkloadKey, int] = {}
        keys = (self._facts.key(pod) for pod in self._arranged.pods)
        return np.array([-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys], np.int64)


def waiting(arranged: Layout, facts: Facts, least: float) -> Bools:
    """[pod]: waiting for at least that many seconds, and no node that is coming has room for it.

    Those that are nominated to a node do not wait.
    """
    is_waiting = np.zeros(len(arranged.pods), bool)
    for row, pod in enumerate(arranged.pods):
        since = pod.waiting_since or 0.0
        there = arranged.on[row] >= 0 or not pod.waiting or pod_name(pod) in facts.promised
        is_waiting[row] = not there and (since <= 0 or facts.now - since >= least)
    if is_waiting.any():
        is_waiting[_taken_by(_coming(facts), arranged, np.flatnonzero(is_waiting).tolist())] = False
    return is_waiting


def arrivals(pods: Sequence[Pod], now: float) -> float:
    """Pods that will come within an hour and stay, at the rate of the last hour, or since the first one came.

    It is the median over six parts of that time: what came all at once does not go on.
    """
    came = np.array([pod.created for pod in pods if 0 < pod.created <= now and not pod.deleting], float)
    if not len(came):
        return 0.0
    begin = max(now - HOUR, float(came.min()))
    span = now - begin
    if span <= 0:
        return 0.0
    parts, _ = np.histogram(came, bins=_SLOTS, range=(begin, now))
    return float(np.median(parts)) * _SLOTS * HOUR / span


def pod_name(pod: Pod) -> str:
    """Namespace/name."""
    return f"{pod.namespace}/{pod.name}"


def _coming(facts: Facts) -> list[Node]:
    """Nodes that have joined a short time ago and are not ready yet, and those that Karpenter has ordered."""
    nodes = [node for node in facts.nodes.values() if _starting(node, facts.now)]
    nodes += [claim.coming for claim in facts.node_claims if not claim.ready and claim.node not in facts.nodes]
    return [msgspec.structs.replace(node, ready=True, taints=_lasting(node.taints)) for node in nodes]


def _starting(node: Node, now: float) -> bool:
    return not node.ready and not node.deleting and 0 < now - node.created < NODE_ARRIVES


def _lasting(taints: Sequence[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if not taint.key.startswith(_STARTING))


def _taken_by(nodes: Sequence[Node], arranged: Layout, rows: Sequence[int]) -> list[int]:
    """Those of the waiting pods that fit on the nodes, one after the other."""
    if not nodes:
        return []
    names = {node.name for node in nodes}
    there = [pod for pod in arranged.pods if pod.node in names]
    asking = [arranged.pods[row] for row in rows]
    future = layout(nodes, [*there, *asking], (), np.zeros((len(nodes), 0)))
    placement = SimulatedPlacement(future, targets=np.ones(len(nodes), bool), ceiling=np.inf)
    taken = set()
    for pod, future_pod in enumerate(future.pods):
        if future.on[pod] < 0:
            fitting = np.flatnonzero(placement.feasible(pod))
            if len(fitting):
                placement.move(pod, int(fitting[0]))
                taken.add(pod_name(future_pod))
    return [row for row in rows if pod_name(arranged.pods[row]) in taken]
