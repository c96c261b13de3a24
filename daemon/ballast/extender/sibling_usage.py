"""Predicts the use of pods in flight from the measured use of other pods of the same owner."""

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from ballast.base.clock import Clock
from ballast.extender.decisions import ExtenderService
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.telemetry.pod_usage import Homes, decode
from ballast.telemetry.pod_usage_cache import PodUsageCache

RESOURCES = ("cpu", "memory")

EACH = 10
"""Most siblings of one owner whose use is queried."""

PERIOD = 60.0
"""Seconds between two questions, at least."""


log = structlog.get_logger("ballast.siblings")


class SiblingUsage:
    """Queries while schedulers ask, for siblings of pods that just came or wait; in a thread of its own."""

    def __init__(
        self,
        extender: ExtenderService,
        asking: PodUsageCache,
        pods: Callable[[], Sequence[Pod]],
        nodes: Callable[[], Sequence[Node]],
        clock: Clock,
    ) -> None:
        self._extender = extender
        self._asking = asking
        self._pods, self._nodes = pods, nodes
        self._clock = clock
        self._began = -math.inf
        self._thread: threading.Thread | None = None

    def renew(self) -> None:
        """Begins a round if one is due; its result counts from the next snapshot on."""
        now = self._clock.monotonic()
        busy = self._thread is not None and self._thread.is_alive()
        if not busy and now - self._began >= PERIOD and self._extender.in_use():
            self._began = now
            self._thread = threading.Thread(target=lambda: log.debug(self.measure()), name="siblings", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Once the source is closed."""
        if self._thread is not None:
            self._thread.join(PERIOD)

    def measure(self) -> str:
        """One round, in a sentence."""
        pods = self._pods()
        named = members(pods, self._extender.owners_in_flight())
        if not named:
            return "measured no siblings: no pod in flight has any"
        siblings = [pod for some in named.values() for pod in some]
        of_owners = (pod for pod in pods if pod.owner is not None and pod.owner.uid in named)
        usage = decode(self._asking.ask(self._clock.wall(), RESOURCES, siblings), Homes(self._nodes(), of_owners))
        self._extender.siblings = usage_by_owner = means(named, usage.by_pod())
        problems = "; ".join(sorted(set(usage.problems.values())))
        text = f"know what siblings use for {len(usage_by_owner):,} of {len(named):,} owners with pods in flight"
        return f"{text}; {problems}" if problems else text


def members(pods: Iterable[Pod], owners: Iterable[str]) -> dict[str, list[str]]:
    """{owner's UID: its running pods, at most `EACH`}, named namespace/name; the newest, as they are most alike."""
    in_flight = set(owners)
    by_owner: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.owner is not None and pod.owner.uid in in_flight and pod.node and pod.phase == "Running":
            by_owner.setdefault(pod.owner.uid, []).append(pod)
    newest = {
        owner: sorted(siblings, key=lambda pod: (-pod.created, pod.name))[:EACH] for owner, siblings in by_owner.items()
    }
    return {owner: [f"{pod.namespace}/{pod.name}" for pod in siblings] for owner, siblings in newest.items()}


def means(named: Mapping[str, Iterable[str]], usage: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """{owner's UID: mean use by resource} of what is measured; what is not has no entry."""
    use: dict[str, dict[str, float]] = {}
    for owner, pods in named.items():
        for resource in RESOURCES:
            values = [usage[pod][resource] for pod in pods if resource in usage.get(pod, ())]
            if values:
                use.setdefault(owner, {})[resource] = sum(values) / len(values)
    return use
