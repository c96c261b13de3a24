"""The paper's own set-up: the pods of a list on nodes without machines (KWOK), placed by the schedulers of a cluster.

Everything has the label `ballast.dev/experiment` and is removed at the end: nodes with a taint that keeps other pods
away, and a namespace. Pods choose these nodes and one of the schedulers; nothing else in the cluster is touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from ballast.base.errors import BallastError, ClusterError, NotFound
from ballast.cluster.client import KubeApi
from ballast.model.sample import Ints
from ballast_lab.experiments.dominant_residual import PAPER, STOCK
from ballast_lab.experiments.results import ResultRow, Results, markdown
from ballast_lab.experiments.scheduling import ScheduleOutcome, outcome
from ballast_lab.experiments.worlds import PODS, RESOURCES, LoadWorld, arrivals

DEFAULT_SCHEDULER = "default-scheduler"
NAME = "ballast-experiment"
"""Of the namespace, and the beginning of the nodes' names."""

LABEL = "ballast.dev/experiment"
READY_WITHIN, TRIED_WITHIN, GONE_WITHIN = 120.0, 600.0, 120.0

_NODES, _NAMESPACE = "/api/v1/nodes", f"/api/v1/namespaces/{NAME}"
_PODS = f"{_NAMESPACE}/pods"
_MINE: Mapping[str, str | int] = {"labelSelector": LABEL}
_AT_ONCE = {"gracePeriodSeconds": 0}

T = TypeVar("T")


class ExperimentFailed(BallastError):
    """The cluster did not do what the experiment waits for."""


def results(
    api: KubeApi,
    worlds: Sequence[LoadWorld],
    seeds: Sequence[int],
    schedulers: Sequence[str] = (DEFAULT_SCHEDULER,),
    *,
    pods: int = PODS,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Results:
    """Places every list of pods in every world by every scheduler.

    Raises ClusterError where the API refuses, and ExperimentFailed where nodes do not become Ready, a scheduler does
    not try the pods, or an earlier run has left something.
    """
    done = begin(len(worlds) * len(seeds) * len(schedulers))
    found: dict[tuple[str, str], list[ScheduleOutcome]] = {}
    for world in worlds:
        with _nodes(api, world):
            for seed in seeds:
                for scheduler in schedulers:
                    kinds = arrivals(seed, pods)
                    found.setdefault((world.name, scheduler), []).append(_placed(api, world, kinds, scheduler))
                    done()
    published = {DEFAULT_SCHEDULER: float(PAPER[STOCK])}
    rows = [
        ResultRow("pods placed", f"{world}: {scheduler}", published.get(scheduler), _mean(each, "count"))
        for (world, scheduler), each in found.items()
    ]
    lines = [
        (
            world,
            scheduler,
            f"{published[scheduler]:.0f}" if scheduler in published else "–",
            f"{_mean(each, 'count'):.0f}",
            f"{100 * _mean(each, 'volume'):.1f} %",
            f"{_mean(each, 'first'):.0f}",
        )
        for (world, scheduler), each in found.items()
    ]
    heads = ("world", "scheduler", "paper", "pods", "volume", "first waits after")
    return Results("dominant-residual", tuple(rows), markdown(heads, lines), details={"seeds": list(seeds)})


@contextmanager
def _nodes(api: KubeApi, world: LoadWorld) -> Iterator[None]:
    """The nodes of the world and the namespace, Ready; both are gone afterwards."""
    if _items(api, _NODES, _MINE) or _exists(api, _NAMESPACE):
        remove = f"kubectl delete nodes -l {LABEL}; kubectl delete namespace {NAME}"
        raise ExperimentFailed(f"An earlier experiment has left something, or one is running. Remove it with: {remove}")
    try:
        _create(api, "/api/v1/namespaces", {"metadata": {"name": NAME, "labels": {LABEL: "true"}}}, "Namespace")
        for number, amounts in enumerate(world.nodes.tolist()):
            _create(api, _NODES, _node(f"{NAME}-{number:03d}", amounts), "Node")
        _eventually(
            f"{len(world.nodes)} nodes are not Ready: does KWOK run in this cluster?",
            READY_WITHIN,
            lambda: sum(map(_usable, _items(api, _NODES, _MINE))) == len(world.nodes),
        )
        yield
    finally:
        if _exists(api, _NAMESPACE):
            _clear(api)
            api.request("DELETE", _NAMESPACE)
        api.request("DELETE", _NODES, query=_MINE, body=_AT_ONCE)
        _eventually("the nodes are not gone", GONE_WITHIN, lambda: not _items(api, _NODES, _MINE))


def _placed(api: KubeApi, world: LoadWorld, kinds: Ints, scheduler: str) -> ScheduleOutcome:
    """Creates the pods one after another and waits until the scheduler has tried all of them."""
    rows = {f"{NAME}-{number:03d}": number for number in range(len(world.nodes))}
    for number, kind in enumerate(kinds.tolist()):
        body = _pod(f"p{number:05d}", world.requests[kind].tolist(), scheduler)
        if number:
            _create(api, _PODS, body, "Pod")
        else:  # the service account of a new namespace takes a moment
            _eventually("the first pod is refused", READY_WITHIN, partial(_created, api, body))
    found = _eventually(
        f"the scheduler {scheduler} has not tried all pods: does it run?",
        TRIED_WITHIN,
        lambda: _tried(_items(api, _PODS), len(kinds)),
    )
    on = np.array([rows.get(found[f"p{number:05d}"], -1) for number in range(len(kinds))], np.int64)
    _clear(api)
    waiting = np.flatnonzero(on < 0)
    return outcome(world, kinds, on, int(waiting[0]) if len(waiting) else len(kinds), 0)


def _tried(pods: Sequence[Any], count: int) -> dict[str, str] | None:
    """{pod: node, empty where it waits} once every pod has a node or was refused one."""
    found = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}
    refused = [
        condition["type"] == "PodScheduled" and condition["status"] == "False"
        for pod in pods
        if not pod["spec"].get("nodeName")
        for condition in pod["status"].get("conditions", [{"type": "", "status": ""}])
    ]
    return found if len(found) == count and all(refused) else None


def _clear(api: KubeApi) -> None:
    api.request("DELETE", _PODS, body=_AT_ONCE)
    _eventually("the pods are not gone", GONE_WITHIN, lambda: not _items(api, _PODS))


def _created(api: KubeApi, body: Any) -> bool:
    try:
        _create(api, _PODS, body, "Pod")
    except ClusterError as error:
        if "serviceaccount" in str(error):
            return False
        raise
    return True


def _create(api: KubeApi, path: str, body: Any, kind: str) -> None:
    api.request("POST", path, body={"apiVersion": "v1", "kind": kind, **body})


def _exists(api: KubeApi, path: str) -> bool:
    try:
        api.get(path)
    except NotFound:
        return False
    return True


def _items(api: KubeApi, path: str, query: Mapping[str, str | int] | None = None) -> list[Any]:
    found: list[Any] = msgspec.json.decode(api.get(path, query=query))["items"]
    return found


def _usable(node: Any) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", []))
    return ready and all(taint["key"] == LABEL for taint in node["spec"].get("taints", []))


def _node(name: str, amounts: Sequence[int]) -> Any:
    room = {**_quantities(amounts), "pods": "1000"}
    return {
        "metadata": {
            "name": name,
            "labels": {LABEL: "true", "kubernetes.io/hostname": name, "type": "kwok"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": [{"key": LABEL, "value": "true", "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }


def _pod(name: str, amounts: Sequence[int], scheduler: str) -> Any:
    asked = {resource: amount for resource, amount in _quantities(amounts).items() if amount not in ("0", "0m")}
    return {
        "metadata": {"name": name, "labels": {LABEL: "true"}},
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {LABEL: "true"},
            "tolerations": [{"key": LABEL, "operator": "Exists"}],
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": asked}}],
        },
    }


def _quantities(amounts: Sequence[int]) -> dict[str, str]:
    """Millicores and bytes."""
    return dict(zip(RESOURCES, (f"{amounts[0]}m", *map(str, amounts[1:])), strict=True))


def _mean(outcomes: Sequence[ScheduleOutcome], figure: str) -> float:
    return float(np.mean([getattr(each, figure) for each in outcomes]))


def _eventually(problem: str, within: float, look: Callable[[], T | None], every: float = 0.5) -> T:
    """What `look` says once that is something. Raises ExperimentFailed after `within` seconds."""
    end = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise ExperimentFailed(f"After {within:.0f} s {problem}")
        time.sleep(every)
