"""Fleets for the tests, from cluster and metrics documents as users give them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ballast.cli import files
from ballast.cli.metrics_file import fleet, kind_of, metrics
from ballast.model.pod import Pod
from ballast.scoring.fleet import Fleet
from ballast.scoring.scores import Scores
from ballast.scoring.strategy import strategy

Json = Mapping[str, Any]
NOW = 1_700_000_000

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "trimaran.json").read_text())["vectors"]


def vectors(function: str) -> list[Any]:
    found = [v for v in VECTORS if v["function"] == function]
    assert found
    return [pytest.param(v["inputs"], v["expected"], id=f"{v['test']}: {v['case']}") for v in found]


def node(name: str, allocatable: Json, capacity: Json | None = None, annotations: Json | None = None) -> Json:
    return {
        "kind": "Node",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "status": {"allocatable": dict(allocatable), "capacity": dict(capacity or allocatable)},
    }


def pod(*containers: Json, name: str = "arriving", on: str = "", scheduled: str | None = None, **spec: Any) -> Json:
    """Containers are their `resources`, or their requests alone."""
    resources = [each if {"requests", "limits"} & set(each) or not each else {"requests": each} for each in containers]
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}] if scheduled else []
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"resources": each} for each in resources], "nodeName": on, **spec},
        "status": {"phase": "Running" if on else "Pending", "conditions": conditions},
    }


def load(**nodes: Sequence[tuple[str, str, float]] | Mapping[str, float]) -> Json:
    """A watcher document: per node (type, operator, percent), or {"cpu": mean, "cpu_std": …, "network": …}."""

    def entries(given: Any) -> list[tuple[str, str, float]]:
        if not isinstance(given, Mapping):
            return list(given)
        return [
            (kind_of(name.removesuffix("_std")), "STD" if name.endswith("_std") else "AVG", value)
            for name, value in given.items()
        ]

    return {
        "timestamp": NOW,
        "window": {"duration": "15m", "start": NOW - 900, "end": NOW},
        "data": {
            "NodeMetricsMap": {
                name: {"metrics": [{"type": kind, "operator": op, "value": value} for kind, op, value in entries(each)]}
                for name, each in nodes.items()
            }
        },
    }


def a_fleet(nodes: Sequence[Json], placed: Sequence[Json] = (), watcher: Json | None = None) -> Fleet:
    return fleet(files.cluster({"items": [*nodes, *placed]}), metrics(watcher))


def a_pod(document: Json) -> Pod:
    return files.pod(document)


def scored(found: Fleet, arriving: Json | None, name: str, **keys: Any) -> Scores:
    return strategy(name, keys).score(found, None if arriving is None else files.pod(arriving))


def by_node(found: Fleet, scores: Scores) -> dict[str, int]:
    return dict(zip((node.name for node in found.nodes), scores.scores.tolist(), strict=True))


def from_vector(spec: Json) -> Json:
    """A pod as the vectors spell it."""

    def amounts(each: Json) -> Json:
        return {
            name: f"{each[key]}{unit}"
            for name, key, unit in (("cpu", "cpu_m", "m"), ("memory", "memory_b", ""))
            if key in each
        }

    def container(each: Json) -> Json:
        return {"resources": {part: amounts(each[part]) for part in ("requests", "limits") if part in each}}

    return {
        "kind": "Pod",
        "metadata": {"name": spec.get("name", "arriving")},
        "spec": {
            "containers": [container(each) for each in spec.get("containers", ())],
            "initContainers": [container(each) for each in spec.get("init_containers", ())],
            "overhead": amounts(spec.get("overhead", {})),
        },
    }


def node_from_vector(name: str, spec: Json) -> Json:
    def amounts(each: Json) -> Json:
        return {"cpu": f"{each['cpu_m']}m", "memory": str(each["memory_b"])}

    return node(name, amounts(spec["allocatable"]), amounts(spec.get("capacity", spec["allocatable"])))


def watcher_from_vector(nodes: Mapping[str, Any] | None, **more: Any) -> Json:
    metrics_map = None if nodes is None else {name: {"metrics": entries} for name, entries in nodes.items()}
    return {"timestamp": NOW, "data": {"NodeMetricsMap": metrics_map}, **more}
