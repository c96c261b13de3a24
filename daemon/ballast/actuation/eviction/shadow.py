"""The cluster as it would be, had a dry run evicted what it planned."""

from collections.abc import Iterable, Mapping

import msgspec

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.records import StepRecord
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.planners.eviction_plan import Move


class Shadow:
    """A pod that a dry run would have moved counts on its target, with the use it had then, until it ends.

    Any thread may call `changes`; all else is for the job of evictions. It begins anew with each leader.
    """

    def __init__(self) -> None:
        self._steps: Mapping[str, tuple[StepRecord, ...]] = {}
        self._nodes: Mapping[str, Node] = {}

    def look(self, pods: Iterable[Pod], nodes: Iterable[Node]) -> None:
        """What is there now: pods that have ended and nodes that are gone count no more."""
        self._nodes = {node.name: node for node in nodes}
        if not self._steps:
            return
        uids = {pod.uid for pod in pods if not pod.finished}
        self._steps = {
            uid: steps for uid, steps in self._steps.items() if uid in uids and _landing(steps[-1]) in self._nodes
        }

    def move(self, step: StepRecord) -> None:
        """A step that a dry run would have carried out. One whose landing nobody knows moves nothing."""
        if _landing(step):
            self._steps = {**self._steps, step.uid: (*self._steps.get(step.uid, ()), step)}

    def home(self, step: Move) -> str:
        """The node where its pod really is."""
        earlier = self._steps.get(step.uid)
        return earlier[0].source if earlier else step.source

    def pods(self, pods: Iterable[Pod]) -> list[Pod]:
        """The pods where they would be; those that were moved are new there."""
        return [self._placed(pod) for pod in pods]

    def _placed(self, pod: Pod) -> Pod:
        steps = self._steps.get(pod.uid)
        if steps is None:
            return pod
        last = steps[-1]
        return msgspec.structs.replace(pod, node=_landing(last), created=last.time, scheduled_at=last.time)

    def changes(self) -> Mapping[str, Mapping[str, float]]:
        """{node: {resource: change of load}}."""
        nodes = self._nodes
        return effect.sum_of(effect.moved(step, nodes) for steps in self._steps.values() for step in steps)


def _landing(step: StepRecord) -> str:
    return step.target or step.prefers
