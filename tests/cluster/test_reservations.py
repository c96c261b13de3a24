"""Room that is held for a replacement outlives the leader that held it."""

from pathlib import Path

from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import DEPLOYMENTS, deployment
from ballast_lab.harness.forwarder import Forwarder
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, node, placements, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.rebalancing import Size, settings
from ballast_lab.harness.scheduler import scheduler
from ballast_lab.harness.waiting import eventually

NODES = [f"n{number:02d}" for number in range(16)]
GATE = "example.org/wait"
BURST = 300
SIZE = Size(nodes=16, apps=1, replicas=2, moves=1, window=5, interval=1, cpu=False)
RELIEVING = {
    **settings(SIZE, "on"),
    "POD_NAMESPACE": "default",
    "BALLAST_EVICTION__PLANNERS": "relieve",
    "BALLAST_EVICTION__HIGH": "0.8",
    "BALLAST_EVICTION__TARGET_HIGH": "0.7",
    "BALLAST_EVICTION__CONFIRMATIONS": "1",
}


def test_a_leader_killed_during_a_burst_loses_no_reservation(quiet: ControlPlane, tmp_path: Path) -> None:
    cluster = quiet
    add_nodes(cluster.api, [node(name, cpu="64", memory="256Gi", pods=500) for name in NODES])
    with (
        Machines(NODES, memory=0.3) as machines,
        prometheus(cluster.tools, tmp_path, machines.targets()) as server,
        Daemon(cluster, "first", cluster.admin_kubeconfig, _settings(server.url)) as first,
        Forwarder(first.url) as service,
        scheduler(cluster, extender_profile(service.url, "default-scheduler", filtering=True), patient=True),
    ):
        eventually("the first one leads", first.leads)
        victim = _gated(cluster)
        with Daemon(cluster, "second", cluster.admin_kubeconfig, _settings(server.url)) as second:
            machines[victim["spec"]["nodeName"]].memory = 0.9
            before = eventually("a pod was evicted and room is held", lambda: _held(first), every=0.2)
            burst = [f"burst-{number:03d}" for number in range(BURST)]
            for name in burst[: BURST // 3]:
                cluster.api.post(PODS, pod(name, cpu="100m", memory="64Mi"))
            first.kill()
            for name in burst[BURST // 3 :]:
                cluster.api.post(PODS, pod(name, cpu="100m", memory="64Mi"))
            eventually("the second one leads", second.leads)
            service.to = second.url
            after = eventually("it holds the same room", lambda: _held(second))
            assert after == before
            placements(cluster.api, burst)
            assert _held(second) == before
            new = eventually("the replacement waits", lambda: _waiting(cluster))
            _ungate(cluster, new)
            placed = placements(cluster.api, [new])
            assert placed[new] == before[0]["node"]
            eventually("the room is free again", lambda: not _held(second), every=0.2)


def _settings(url: str) -> dict[str, str]:
    return {**RELIEVING, "BALLAST_PROMETHEUS__URL": url}


def _held(daemon: Daemon) -> list[Json]:
    rows: list[Json] = daemon.get("/api/v1/evictions").json()["reservations"]
    return rows


def _gated(cluster: ControlPlane) -> Json:
    """A Deployment whose pods wait until somebody lets them; its first two may go. One of them."""
    cluster.api.post(DEPLOYMENTS, deployment("web", 2, schedulingGates=[{"name": GATE}]))
    names = eventually("its pods are there", lambda: _names(cluster, 2))
    for name in names:
        _ungate(cluster, name)
    placements(cluster.api, names)
    return cluster.api.get(f"{PODS}/{names[0]}")


def _names(cluster: ControlPlane, count: int) -> list[str]:
    found = [each["metadata"]["name"] for each in cluster.api.items(f"{PODS}?labelSelector=app=web")]
    return found if len(found) == count else []


def _ungate(cluster: ControlPlane, name: str) -> None:
    cluster.api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})


def _waiting(cluster: ControlPlane) -> str:
    pods = cluster.api.items(f"{PODS}?labelSelector=app=web")
    return next((each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")), "")
