from typing import Any

import msgspec
import pytest
import requests

from ballast.extender.sibling_usage import EACH, means, members
from ballast.model.pod import Owner, Pod
from ballast_lab.harness.waiting import HUNG, until
from tests.unit.daemon.test_scheduling import waiting
from tests.worlds.daemons import POD, Rig
from tests.worlds.snapshots import TIME, pod

pytestmark = pytest.mark.slow


def owned(name: str, owner: str, node: str = "n0", **fields: Any) -> Pod:
    return msgspec.structs.replace(pod(name, node), owner=Owner("ReplicaSet", owner, owner, True), **fields)


def test_the_newest_running_pods_of_an_owner_are_asked_about() -> None:
    pods = [owned(f"p{number:02d}", "web", created=TIME + number) for number in range(20)]
    pods += [
        owned("waits", "web", ""),
        owned("done", "web", phase="Succeeded"),
        owned("other", "db"),
        pod("alone", "n0"),
    ]
    found = members(pods, ["web", "nobody"])
    assert list(found) == ["web"]
    assert found["web"] == [f"default/p{number:02d}" for number in range(19, 19 - EACH, -1)]


def test_means_are_of_what_is_measured() -> None:
    usage = {"default/a": {"cpu": 1.0, "memory": 100.0}, "default/b": {"cpu": 2.0}}
    named = {"web": ["default/a", "default/b", "default/c"], "db": ["default/c"]}
    assert means(named, usage) == {"web": {"cpu": 1.5, "memory": 100.0}}


def test_nobody_is_asked_while_no_scheduler_asks(calm: Rig) -> None:
    daemon = calm.settled()
    before = calm.cluster.requests.copy()
    daemon.siblings.renew()
    assert daemon.siblings._thread is None
    assert calm.cluster.requests == before


def test_the_use_of_siblings_is_known_once_pods_are_in_flight(calm: Rig) -> None:
    daemon = calm.daemon(TELEMETRY__SOURCE="metrics-server")
    owner = _of_many(until(daemon.context.cache.pods))
    asking = waiting(calm, "asking", "1m")
    args = {"Pod": asking, "Nodes": None, "NodeNames": calm.names}

    def decides() -> bool:
        requests.post(f"{daemon.url}scheduler/prioritize?profile=least-allocated", json=args, timeout=HUNG)
        return daemon.extender.in_use()

    until(decides, "it decides")
    assert daemon.siblings.measure() == "measured no siblings: no pod in flight has any"
    reference = {"apiVersion": "apps/v1", "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "late", "namespace": "default", "ownerReferences": [reference]},
        "spec": {"schedulerName": "somebody-elses", "containers": [{"name": "c", "image": "none"}]},
    }
    calm.cluster.resources.create(POD, "default", body)
    until(lambda: owner.uid in daemon.extender.owners_in_flight(), "the pod is seen")
    calm.clock.advance(61.0)
    daemon.siblings.renew()
    until(lambda: daemon.extender.siblings, "it is measured")
    assert daemon.siblings.measure().startswith("know what siblings use for 1 of 1 owners")
    measured = daemon.extender.siblings[owner.uid]
    assert measured["cpu"] > 0
    assert measured["memory"] > 0


def _of_many(pods: tuple[Pod, ...]) -> Owner:
    owners = [each.owner for each in pods if each.owner is not None and each.phase == "Running"]
    if not owners:
        pytest.skip("the simulated pods have no owners")
    return max(owners, key=lambda owner: sum(other.uid == owner.uid for other in owners))
