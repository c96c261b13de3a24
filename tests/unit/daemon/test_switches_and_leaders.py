"""The pause switch, the Lease and dry-run: who may write, and when."""

from typing import Any

import pytest

from ballast_lab.harness.waiting import until
from tests.worlds.daemons import CONFIG_MAP, LOAD, OWN, POD, SCORE, WINDOW, Rig, metric, verbose, watcher

pytestmark = pytest.mark.slow


def test_dry_run_writes_only_its_lease_its_state_and_its_endpoint(calm: Rig) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ballast-0", "namespace": OWN}}
    spec = {"containers": [{"name": "ballast", "image": "ballast"}], "nodeName": calm.names[0]}
    calm.cluster.resources.create(POD, OWN, {**pod, "spec": spec})
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("POD_IP", "10.0.0.7")
        environment.setenv("POD_NAME", "ballast-0")
        environment.setenv("POD_NAMESPACE", OWN)
        daemon = calm.daemon(
            PUBLISHING__MODE="dry-run", PUBLISHING__TAINT="true", PUBLISHING__OVERLOADED="0.4", PUBLISHING__HIGH="0.35"
        )
    until(lambda: calm.leader_endpoint() == "ballast-0")
    assert calm.first_round(daemon) == "labels would be current on 10 of 10 nodes (10 changed, 0 unknown); next in 30 s"
    assert calm.cycle(daemon, 2)[1] == "labels would be current on 10 of 10 nodes (0 changed, 0 unknown); next in 30 s"
    calm.faults.node_dark(calm.names[0])
    assert calm.cycle(daemon, 5)[1] == "labels would be current on 9 of 10 nodes (0 changed, 1 unknown); next in 30 s"
    daemon.stop()
    assert calm.leader_endpoint() is None
    assert set(calm.patches()) == {"leases", "configmaps", "endpointslices"}
    assert not any(calm.published().values())


def test_dry_run_says_that_it_would_withdraw(calm: Rig) -> None:
    calm.settled().stop()
    daemon = calm.daemon(PUBLISHING__MODE="dry-run", PUBLISHING__FORGET_AFTER="5m")
    calm.cycle(daemon, 2)
    for name in calm.names:
        calm.faults.node_dark(name)
    sentences = [calm.cycle(daemon)[1] for _ in range(17)]
    assert "would withdraw what was published from 10 of 10 nodes, 10 unknown; next in 30 s" in sentences
    assert all({SCORE, LOAD, WINDOW} == set(own) for own in calm.published().values())


def test_switched_off_it_serves_and_never_writes_a_node(calm: Rig) -> None:
    daemon = calm.daemon(PUBLISHING__MODE="off", EVICTION__MODE="dry-run")
    for _ in range(3):
        calm.advance()
        calm.watch(daemon)
    assert len(watcher(daemon)) == 10
    assert set(calm.patches()) <= {"leases", "configmaps"}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"paused": "true"}, "paused by key paused of ConfigMap ballast/ballast-switches"),
        ({"paused.publishing": "true"}, "paused by key paused.publishing of ConfigMap ballast/ballast-switches"),
        ({"paused": "yes"}, 'is \'yes\'; it may be "true" or "false"'),
    ],
)
def test_the_pause_switch_stops_every_write(calm: Rig, data: dict[str, str], said: str) -> None:
    calm.put_config_map("ballast-switches", data)
    daemon = calm.daemon()
    until(lambda: daemon.context.switches.paused("publishing"))
    sentence = calm.first_round(daemon)
    assert sentence.startswith("labels current on 0 of 10 nodes (0 changed, 0 unknown); stopped: paused")
    assert said in sentence
    assert said in verbose(daemon)
    assert said in (daemon.board.paused("publishing") or "")
    assert "nodes" not in calm.patches()
    calm.put_config_map("ballast-switches", {"paused": "false", "paused.power": "true"})
    until(lambda: not daemon.context.switches.paused("publishing"))
    assert calm.cycle(daemon)[1].startswith("labels current on 10 of 10 nodes (10 changed")


def test_a_deleted_switch_is_no_pause(calm: Rig) -> None:
    calm.put_config_map("ballast-switches", {"paused": "true"})
    daemon = calm.daemon()
    until(lambda: daemon.context.switches.paused("publishing"))
    calm.cluster.resources.delete(CONFIG_MAP, OWN, "ballast-switches")
    until(lambda: not daemon.context.switches.paused("publishing"))
    assert calm.first_round(daemon).startswith("labels current on 10 of 10 nodes (10 changed")


def test_a_switch_that_cannot_be_read_is_a_pause(calm: Rig) -> None:
    calm.faults.kube_forbidden("list", "configmaps")
    daemon = calm.daemon()
    until(lambda: "verb `list` on `configmaps`" in (daemon.context.switches.paused("publishing") or ""))
    sentence = calm.first_round(daemon)
    assert "stopped: paused because ConfigMap ballast/ballast-switches has not been read" in sentence
    assert "Ballast needs verb `list` on `configmaps`" in sentence
    assert "nodes" not in calm.patches()
    calm.faults.clear()
    until(lambda: not daemon.context.switches.paused("publishing"))
    assert calm.cycle(daemon)[1].startswith("labels current on 10 of 10 nodes (10 changed")


def test_the_switch_is_read_again_before_each_write(calm: Rig) -> None:
    daemon = calm.daemon()
    send, sent = daemon.context.api.request, []

    def pausing(method: str, path: str, **options: Any) -> bytes:
        if method == "PATCH" and path.startswith("/api/v1/nodes/"):
            sent.append(path)
            if len(sent) == 3:
                calm.put_config_map("ballast-switches", {"paused": "true"})
                until(lambda: daemon.context.switches.paused("publishing"))
        return send(method, path, **options)

    daemon.context.api.request = pausing  # type: ignore[method-assign]
    sentence = calm.first_round(daemon)
    assert "labels current on 3 of 10 nodes (3 changed, 0 unknown); stopped: paused by key paused" in sentence
    assert len(sent) == 3


def test_two_daemons_one_writes_and_the_other_takes_over_after_two_cycles(calm: Rig) -> None:
    first = calm.daemon()
    second = calm.daemon(leads=False)
    for _ in range(3):
        calm.cycle(first)
        calm.watch(second)
        until(second.context.leadership.holder)
        assert calm.publish(second) == f"standing by: {first.context.leadership.identity} holds the Lease"
    assert calm.patches()["nodes"] == 10
    assert len(watcher(second)) == 10
    assert metric(second, "ballast_leader") == 0
    first.stop()
    assert calm.lease()["holderIdentity"] == ""
    dark = calm.names[1]
    calm.faults.node_dark(dark)
    until(second.context.leadership.is_leader)
    assert calm.publish(second).endswith("a new leader acts after 2 complete cycles, 0 ended")
    assert calm.cycle(second)[1].endswith("a new leader acts after 2 complete cycles, 1 ended")
    assert calm.cycle(second)[1].startswith("labels current on ")
    calm.cycle(second, 3)
    assert calm.own(dark) == {LOAD: "unknown"}
    assert calm.patches()["nodes"] == 11


def test_a_lost_lease_stops_a_round(calm: Rig) -> None:
    daemon = calm.daemon()
    send, sent = daemon.context.api.request, []

    def losing(method: str, path: str, **options: Any) -> bytes:
        if method == "PATCH" and path.startswith("/api/v1/nodes/"):
            sent.append(path)
            if len(sent) == 4:
                calm.steal_lease("someone-else")
                daemon.context.leadership.tick()
        return send(method, path, **options)

    daemon.context.api.request = losing  # type: ignore[method-assign]
    sentence = calm.first_round(daemon)
    assert (
        "labels current on 4 of 10 nodes (4 changed, 0 unknown); stopped: this replica does not hold the Lease"
        in sentence
    )
    assert calm.publish(daemon) == "standing by: someone-else holds the Lease"
    assert len(sent) == 4


def test_without_a_lease_a_single_replica_leads(calm: Rig) -> None:
    daemon = calm.daemon(LEASE__ENABLED="false")
    assert calm.cycle(daemon, 3)[1].startswith("labels current on ")
    assert "leases" not in calm.patches()
    assert all({SCORE, LOAD, WINDOW} == set(own) for own in calm.published().values())
