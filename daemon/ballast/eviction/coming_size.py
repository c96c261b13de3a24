"""The size in which pods would come back, where a VerticalPodAutoscaler names its target.

Pods are planned with what their replacements would ask for, where that is more: a node that has no room for it is no
target from the start, rather than after a trial.
"""

from collections.abc import Sequence

import msgspec

from ballast.eviction.facts import ClusterObjects
from ballast.model.pod import Pod
from ballast.model.shape import Amounts, Shape


def in_coming_size(objects: ClusterObjects) -> Sequence[Pod]:
    """The pods, those larger whose replacements would be; pods that were alike stay so."""
    targets = {(each.namespace, each.kind, each.name): each.requests for each in objects.recommendations}
    if not targets:
        return objects.pods
    above = {workload.key: workload.owner for workload in objects.workloads if workload.owner is not None}
    grown: dict[tuple[int, int], Shape] = {}

    def sized(pod: Pod) -> Pod:
        # One that waits has the size that it was admitted in.
        if pod.owner is None or pod.finished or not pod.node:
            return pod
        own = (pod.namespace, pod.owner.kind, pod.owner.name)
        top = above.get(own)
        wanted = targets.get(own) or (targets.get((pod.namespace, top.kind, top.name)) if top else None)
        if not wanted:
            return pod
        key = (id(pod.shape), id(wanted))
        if key not in grown:
            grown[key] = _grown(pod.shape, wanted)
        return pod if grown[key] is pod.shape else msgspec.structs.replace(pod, shape=grown[key])

    return [sized(pod) for pod in objects.pods]


def _grown(shape: Shape, wanted: Amounts) -> Shape:
    requests = {name: max(shape.requests.get(name, 0.0), amount) for name, amount in wanted.items()}
    if all(shape.requests.get(name, 0.0) >= amount for name, amount in wanted.items()):
        return shape
    return msgspec.structs.replace(shape, requests={**shape.requests, **requests})
