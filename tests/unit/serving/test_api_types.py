"""What the daemon answers is what `api_types` says: no key more, none less, in the same order."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ballast.eviction.gate import NAMES
from ballast.runtime.daemon import Daemon
from ballast.serving.openapi import ANSWERS, DOCUMENT
from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.unit.serving.client import ask
from tests.unit.serving.test_api import acting_board
from tests.worlds import acting
from tests.worlds.board import serving
from tests.worlds.daemons import Rig, get, rig

pytestmark = pytest.mark.slow

PATHS = {
    operation["get"]["operationId"]: path.replace("{name}", "node-0") for path, operation in DOCUMENT["paths"].items()
}


def check_type(identifier: str, body: bytes) -> Any:
    """Fails unless the answer is its type's own JSON, byte by byte but for 4.0 in place of 4."""
    answer = msgspec.json.decode(body)
    typed = msgspec.convert(answer, ANSWERS[identifier], strict=True)
    assert json.dumps(msgspec.to_builtins(typed)) == json.dumps(floats_where(typed, answer))
    return answer


def floats_where(typed: Any, answer: Any) -> Any:
    """`answer` with the numbers that the type calls floats as floats, its own order and keys kept."""
    if isinstance(typed, float):
        return float(answer)
    if isinstance(answer, dict):
        names = typed if isinstance(typed, dict) else by_wire_name(typed)
        return {key: floats_where(names[key], value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [floats_where(*pair) for pair in zip(typed, answer, strict=True)]
    return answer


def by_wire_name(typed: Any) -> dict[str, Any]:
    return {each.encode_name: getattr(typed, each.name) for each in msgspec.structs.fields(typed)}


ASKED_LIVE = {"pod_scores", "explain", "plan", "node_score", "openapi"}


@pytest.mark.parametrize("identifier", sorted(PATHS.keys() - ASKED_LIVE))
def test_answers_have_the_keys_of_their_types_in_order(identifier: str) -> None:
    with serving(acting_board()) as port:
        check_type(identifier, ask(port, PATHS[identifier]).body)


@pytest.mark.parametrize(
    ("identifier", "answer"),
    [
        ("plans", [acting.plan(1, 0.0) | {"id": 1}]),
        ("plans", [acting.plan(1, 0.0, more=1)]),
        ("evictions", acting.evictions(0.0) | {"mode": "on", "paused": None, "recent": [{"pod": "a/b"}]}),
        ("power", acting.power(0.0, acting.policy("a", 0.0, state="OTHER")) | {"conditions": []}),
    ],
    ids=["a number for an id", "a key too many", "keys missing", "an unknown state"],
)
def test_the_types_refuse_what_is_not_documented(identifier: str, answer: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(answer, ANSWERS[identifier], strict=True)


@pytest.fixture
def daemon(tmp_path: Path) -> Any:
    with rig(tmp_path) as one:
        yield running(one)


def running(one: Rig) -> Daemon:
    """A daemon that has relieved a hot node, lowered replicas after a fall of power, and knows a waiting pod."""
    cluster, create = one.cluster, one.cluster.resources.create
    create(BY_NAME["Namespace"], "", {"metadata": {"name": "plant"}})
    labels = {"app": "one"}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment = {"replicas": 10, "selector": {"matchLabels": labels}, "template": template}
    create(BY_NAME["Deployment"], "plant", {"metadata": {"name": "one", "namespace": "plant"}, "spec": deployment})
    side = {"window": "30s", "tolerance": 0.04}
    member = {"ref": "plant/one", "min": 2, "max": 30}
    feed = {"query": "simulated_power_watts", "semantics": "available"}
    policy = {"name": "sun", "feed": feed, "increase": side, "decrease": side, "independents": [member]}
    config = one.folder / "ballast.yaml"
    config.write_text(json.dumps({"power": {"policies": [policy]}}))
    cluster.faults.power_level(1000.0)
    found = one.daemon(
        CONFIG_FILE=str(config),
        POWER__MODE="on",
        PUBLISHING__MODE="off",
        EVICTION__MODE="on",
        EVICTION__HIGH="0.5",
        EVICTION__LOW="0.4",
        EVICTION__TARGET_HIGH="0.5",
        EVICTION__RATE="20/1h",
    )
    assert found.context.workloads.wait_synced(HUNG)
    until(lambda: found.context.switches.paused("eviction") is None, "the switches")
    found.extender.reservations._asked["default-scheduler"] = found.context.clock.monotonic()
    for step in range(8):
        if step == 5:
            cluster.faults.power_level(600.0)
        one.advance()
        one.watch(found)
        found.scheduler.run("power")
    found.scheduler.run("eviction")
    return found


def test_a_running_daemon_answers_with_these_types(daemon: Daemon) -> None:
    pod = daemon.context.cache.pods()[0]
    node = daemon.context.cache.nodes()[0].name
    asked = {name: path.replace("node-0", node) for name, path in PATHS.items()}
    for name in ("pod_scores", "explain"):
        asked[name] = asked[name].replace("{namespace}", pod.namespace).replace(node, pod.name)
    asked["plan"] = f"/api/v1/plans/{daemon.board.plans[0].id}"
    asked["pods"] += f"?find={pod.name}"
    answers = {name: check_type(name, get(daemon, path).content) for name, path in asked.items() if name != "openapi"}
    assert answers["pod_scores"]["strategies"]
    assert answers["pod_scores"]["scores"] == answers["pod_scores"]["strategies"][0]["scores"]
    assert [check["check"] for check in answers["explain"]["checks"]] == list(NAMES)
    assert answers["explain"]["node"] == pod.node
    assert answers["pods"] == [{"pod": f"{pod.namespace}/{pod.name}", "node": pod.node}]
    assert {each["pod"] for each in answers["node_pods"]} == {
        f"{each.namespace}/{each.name}" for each in daemon.context.cache.pods_on(node)
    }
    assert answers["plan"] == answers["plans"][0]
    assert answers["node_score"]["terms"]
    assert answers["overview"]["today"]["evictions"]
    assert answers["fleet"]["roster"] == answers["fleet_loads"]["roster"]
    assert answers["plans"][0]["steps"]
    assert answers["evictions"]["recent"]
    [policy] = answers["power"]["policies"]
    assert policy["actions"]
    assert policy["targets"]
    assert answers["status"]["conditions"] == answers["power"]["conditions"]
