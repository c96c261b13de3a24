"""The pods of one node, with what they request and what they use."""

import threading
from collections.abc import Callable, Mapping, Sequence

from ballast.answers.views import PodOnNode
from ballast.base.clock import Clock
from ballast.base.errors import BallastError
from ballast.model.pod import Pod

KEPT = 60.0
"""Seconds for which one node's answer is used again."""

MOST = 16
"""Nodes whose answers are kept."""

Usage = Mapping[str, Mapping[str, float]]


class NodePods:
    """Asks for the usage of one node's pods when somebody looks at them; one question at a time, in any thread."""

    def __init__(
        self, pods_on: Callable[[str], Sequence[Pod]], ask: Callable[[float, Sequence[Pod]], Usage], clock: Clock
    ) -> None:
        """`ask` gives {namespace/name: {resource: amount}} at a time of some pods, and raises BallastError."""
        self._pods_on, self._ask, self._clock = pods_on, ask, clock
        self._kept: dict[str, tuple[float, Usage]] = {}
        self._lock = threading.Lock()

    def __call__(self, node: str) -> list[PodOnNode]:
        """Those that use most cpu first, then by what they request."""
        there = [pod for pod in self._pods_on(node) if not pod.finished]
        usage = self._usage(node, there)
        rows = [_row(pod, usage) for pod in there]
        return sorted(rows, key=lambda row: (-(row.usage or row.requests).get("cpu", 0.0), row.pod))

    def _usage(self, node: str, there: Sequence[Pod]) -> Usage:
        if not there:
            return {}
        now = self._clock.monotonic()
        with self._lock:
            asked, usage = self._kept.get(node, (-KEPT, {}))
            if now - asked < KEPT:
                return usage
            try:
                usage = self._ask(self._clock.wall(), there)
            except BallastError:
                usage = {}
            self._kept.pop(node, None)
            self._kept[node] = now, usage
            while len(self._kept) > MOST:
                self._kept.pop(next(iter(self._kept)))
        return usage


def _row(pod: Pod, usage: Usage) -> PodOnNode:
    name = f"{pod.namespace}/{pod.name}"
    return PodOnNode(
        pod=name,
        owner=f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else None,
        phase=pod.phase,
        ready=pod.ready,
        created=pod.created,
        requests=dict(pod.shape.requests),
        usage=dict(usage[name]) if name in usage else None,
    )
