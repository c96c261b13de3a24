"""Objects that say too little, or nonsense, keep pods where they are: a sentence each, and no traceback."""

from typing import Any

import pytest

from tests.unit.cli.planning.conftest import Plan
from tests.worlds.owned import HOT, cluster, deployment, machine, made, stateful
from tests.worlds.printed import Json, listed

NODES = ("n1", "n2", "n3")
REVISED = {"updateRevision": "x-new", "currentRevision": "x-old", "updatedReplicas": 1}
DIGEST = "docker.io/library/app@sha256:0"


def with_spec(items: list[Json], **spec: Any) -> list[Json]:
    return [each if each["kind"] != "Pod" else {**each, "spec": {**each["spec"], **spec}} for each in items]


def web(**spec: Any) -> list[Json]:
    return with_spec(deployment({"x-new": NODES}), **spec)


def image(name: str) -> list[Json]:
    requests = {"requests": {"cpu": "4", "memory": "1Gi"}}
    container = {"name": "a", "image": name, "imagePullPolicy": "Never", "resources": requests}
    return with_spec(single(), containers=[container])


def claimed(source: Json) -> list[Json]:
    volume = made("PersistentVolume", "v", group="v1", spec={"capacity": {"storage": "1Gi"}, **source})
    volume["metadata"].pop("namespace")
    spec = {"volumeName": "v", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = made("PersistentVolumeClaim", "data", group="v1", spec=spec, status={"phase": "Bound"})
    return [volume, claim, *web(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])]


def quota(*scopes: str) -> Json:
    hard = {"hard": {"pods": "3"}}
    return made(
        "ResourceQuota", "q", group="v1", spec={**hard, "scopes": list(scopes)}, status={**hard, "used": {"pods": "3"}}
    )


def single(**spec: Any) -> list[Json]:
    return deployment({"x-new": ("n1",)}, updated=1, present=1, replicas=1, **spec)


KEPT: dict[str, tuple[list[Json], str]] = {
    "a hash that is missing": (stateful(dict.fromkeys(NODES, ""), **REVISED), "returnable"),
    "one of three hashes is missing": (stateful({"n1": "", "n2": "x-new", "n3": "x-new"}), "returnable"),
    "a quota of a scope that nobody knows": ([*web(), quota("Odd")], "returnable"),
    "a volume without a source": (claimed({}), "local-storage"),
    "a single replica whose rollout adds nobody knows what": (
        single(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "many"}}),
        "single-replica",
    ),
    "a single replica of a strategy that nobody knows": (single(strategy={"type": "Odd"}), "single-replica"),
    "an image by a digest that is nowhere": (image(DIGEST), "node-fit"),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_known_keeps_its_pod(name: str, plan: Plan) -> None:
    items, check = KEPT[name]
    answer = plan("relieve", cluster(items), HOT, "--set", "single=restart")
    assert answer["steps"] == []
    assert answer["refused"] == {check: 1}


def test_their_twins_move(plan: Plan) -> None:
    there = [machine(name, status={"images": [{"names": [DIGEST]}]}) for name in NODES]
    for world in (
        cluster(stateful(dict.fromkeys(NODES, ""))),
        cluster(web(), quota("BestEffort")),
        cluster(claimed({"nfs": {"server": "s", "path": "/"}})),
        cluster(single()),
        listed(*there, *image(DIGEST)),
    ):
        assert plan("relieve", world, HOT, "--set", "single=restart")["steps"]
