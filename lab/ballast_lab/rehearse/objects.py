"""The objects of a course at one time, as watches would show them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec

from ballast.eviction.facts import ClusterObjects, WorkloadKey
from ballast.model.workload import Workload
from ballast_lab.rehearse.course import Course


def objects_at(course: Course) -> ClusterObjects:
    """Nodes and pods that are there. A workload asks for as many replicas as it has: what history does not show as
    missing is not missing."""
    nodes = tuple(node for node, here in zip(course.history.nodes, course.present.tolist(), strict=True) if here)
    pods = tuple([course.pods[row] for row in course.running().tolist()])
    return replace(course.history.objects, nodes=nodes, pods=pods, workloads=workloads_at(course))


def workloads_at(course: Course) -> tuple[Workload, ...]:
    """The workloads with the replicas that run now."""
    history = course.history
    counts: Counter[WorkloadKey] = Counter()
    direct: Counter[WorkloadKey] = Counter()
    rows = course.running()
    for row in rows.tolist():
        pod = history.pods[row]
        if pod.owner is not None:
            direct[pod.namespace, pod.owner.kind, pod.owner.name] += 1
    for key, count in direct.items():
        counts[key] += count
        above = history.above(key)
        if above != key:
            counts[above] += count
    return tuple(
        msgspec.structs.replace(workload, replicas=counts[workload.key], ready=counts[workload.key])
        if workload.key in counts and workload.replicas != counts[workload.key]
        else workload
        for workload in history.objects.workloads
    )
