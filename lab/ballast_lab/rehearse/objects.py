"""The objects of a course at one time, as watches would show them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np

from ballast.eviction.facts import ClusterObjects
from ballast.model.workload import Workload
from ballast_lab.rehearse.course import Course


def objects_at(course: Course) -> ClusterObjects:
    """Nodes and pods that are there. A workload asks for as many replicas as it has: what history does not show as
    missing is not missing."""
    nodes = tuple(node for node, here in zip(course.nodes, course.present.tolist(), strict=True) if here)
    pods = tuple([course.pods[row] for row in course.running().tolist()])
    return replace(course.history.objects, nodes=nodes, pods=pods, workloads=workloads_at(course))


def workloads_at(course: Course) -> tuple[Workload, ...]:
    """The workloads with the replicas that run now."""
    history = course.history
    counts = np.zeros(len(history.objects.workloads) + 1, np.int64)
    for owners in history.owners:
        np.add.at(counts, owners[course.there], 1)
    return tuple(
        msgspec.structs.replace(workload, replicas=count, ready=count) if count else workload
        for workload, count in zip(history.objects.workloads, counts.tolist(), strict=False)
    )
