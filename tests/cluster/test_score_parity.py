"""Scores of the strategies that read requests, beside those a real kube-scheduler logs at verbosity 10."""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from ballast.cli import files
from ballast.cli.metrics_file import fleet, metrics
from ballast.scoring.strategy import strategy
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, add_nodes, placements
from ballast_lab.harness.scheduler import plugin_scores, scheduler
from ballast_lab.harness.waiting import eventually

Json = dict[str, Any]

NODES = 12
ARRIVING = 20
EXTENDED = "example.com/foo"
WEIGHTS = {"cpu": 3, "memory": 1, "ephemeral-storage": 2, EXTENDED: 5}
OVERHEAD = {"cpu": "130m", "memory": "70Mi"}
SHAPE = [[0, 2], [35, 10], [80, 3], [100, 0]]

FITS: Mapping[str, tuple[str, Json]] = {
    "least-allocated": ("LeastAllocated", {}),
    "most-allocated": ("MostAllocated", {}),
    "requested-to-capacity": ("RequestedToCapacityRatio", {"shape": SHAPE}),
}
DEFAULTS: Mapping[str, tuple[str, Json]] = {
    "least-allocated": ("LeastAllocated", {}),
    "most-allocated": ("MostAllocated", {}),
    "requested-to-capacity": ("RequestedToCapacityRatio", {}),
}


@pytest.fixture
def heavy(cluster: ControlPlane) -> Iterator[None]:
    """A runtime class whose pods carry overhead."""
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "heavy"}, "handler": "heavy"}
    cluster.api.post("/apis/node.k8s.io/v1/runtimeclasses", {**body, "overhead": {"podFixed": OVERHEAD}})
    yield
    cluster.api.delete("/apis/node.k8s.io/v1/runtimeclasses/heavy")


@pytest.mark.usefixtures("heavy")
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["cpu and memory", "four resources"])
def test_scores_are_those_of_kube_scheduler(cluster: ControlPlane, weights: Mapping[str, int] | None) -> None:
    dice = random.Random(20 if weights else 21)
    add_nodes(cluster.api, [_node(f"n{i}", dice) for i in range(NODES)])
    for i in range(3 * NODES):
        cluster.api.post(PODS, _pod(f"old-{i}", dice, nodeName=f"n{dice.randrange(NODES)}"))
    compared = dict.fromkeys([*FITS, "balanced"], 0)
    with scheduler(cluster, _profiles(weights), verbosity=10) as process:
        for i in range(ARRIVING * len(FITS)):
            fit = list(FITS)[i % len(FITS)]
            document = _pod(f"new-{i}", dice, schedulerName=fit)
            before = [cluster.api.get("/api/v1/nodes"), cluster.api.get(PODS)]
            cluster.api.post(PODS, document)
            placements(cluster.api, [f"new-{i}"])
            logged = eventually("the scores are in the log", lambda i=i: plugin_scores(process, f"new-{i}"))  # type: ignore[misc]
            for plugin, name in (("NodeResourcesFit", fit), ("NodeResourcesBalancedAllocation", "balanced")):
                real = {node: score for (each, node), score in logged.items() if each == plugin}
                ours = _ours(name, before, document, _keys(name, weights))
                assert {node: ours[node] for node in real} == real, f"{name} {yaml.safe_dump(document['spec'])}"
                compared[name] += len(real)
    print(compared)
    assert all(count >= 100 for count in compared.values())


def _ours(name: str, before: list[Json], document: Json, keys: Json) -> dict[str, int]:
    found = fleet(files.cluster({"kind": "List", "items": before}), metrics(None))
    scores = strategy(name, keys).score(found, files.pod(document))
    return dict(zip((node.name for node in found.nodes), scores.scores.tolist(), strict=True))


def _keys(name: str, weights: Mapping[str, int] | None) -> Json:
    if name == "balanced":
        return {"resources": dict.fromkeys(weights, 1)} if weights else {}
    more = FITS[name][1] if weights else DEFAULTS[name][1]
    return ({"resources": weights} if weights else {}) | more


def _profiles(weights: Mapping[str, int] | None) -> str:
    chosen = weights or {"cpu": 1, "memory": 1}
    shape = SHAPE if weights else [[0, 0], [100, 10]]
    profiles = []
    for name, (kind, _) in FITS.items():
        strategy: Json = {"type": kind, "resources": [{"name": n, "weight": w} for n, w in chosen.items()]}
        if kind == "RequestedToCapacityRatio":
            strategy["requestedToCapacityRatio"] = {"shape": [{"utilization": u, "score": s} for u, s in shape]}
        balanced = {"resources": [{"name": n, "weight": 1} for n in chosen]}
        profiles.append(
            {
                "schedulerName": name,
                "pluginConfig": [
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}},
                    {"name": "NodeResourcesBalancedAllocation", "args": balanced},
                ],
            }
        )
    return yaml.safe_dump(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
    )


def _node(name: str, dice: random.Random) -> Json:
    amounts = {
        "cpu": f"{dice.randrange(20_000, 64_000)}m",
        "memory": f"{dice.randrange(40_000, 250_000)}Mi",
        "ephemeral-storage": f"{dice.randrange(100, 900)}G",
        "pods": "110",
    }
    if dice.random() < 0.7:
        amounts[EXTENDED] = str(dice.randrange(20, 60))
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"capacity": amounts}}


def _pod(name: str, dice: random.Random, **spec: Any) -> Json:
    """One of all the ways to ask for something, or for nothing."""
    containers = [_container(f"c{i}", dice) for i in range(dice.randrange(1, 4))]
    inits = [_container(f"i{i}", dice) for i in range(dice.choice([0, 0, 1, 2]))]
    for each in inits:
        if dice.random() < 0.5:
            each["restartPolicy"] = "Always"
    whole: Json = {}
    if dice.random() < 0.25:
        whole = {"resources": {"requests": {"cpu": "7"}, "limits": {"cpu": "9", "memory": "30Gi"}}}
    if dice.random() < 0.2:
        whole |= {"runtimeClassName": "heavy", "overhead": OVERHEAD}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers, "initContainers": inits, **whole, **spec},
    }


def _container(name: str, dice: random.Random) -> Json:
    requests: Json = {}
    limits: Json = {}
    if dice.random() < 0.6:
        requests["cpu"] = f"{dice.choice([0, dice.randrange(1, 1500)])}m"
    if dice.random() < 0.6:
        requests["memory"] = f"{dice.choice([0, dice.randrange(1, 4_000)])}Mi"
    if dice.random() < 0.3:
        requests["ephemeral-storage"] = f"{dice.randrange(1, 20)}G"
    if dice.random() < 0.2:
        requests[EXTENDED] = limits[EXTENDED] = str(dice.randrange(1, 3))
    if dice.random() < 0.3:
        limits["cpu"] = "2"
    if dice.random() < 0.3:
        limits["memory"] = "5Gi"
    return {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}}
