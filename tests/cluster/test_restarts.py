"""The only pods of Deployments are moved by a rollout, on the real control plane: no moment without a Ready pod."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ballast_lab.harness.acting import HPAS, NODES, acting
from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import DEPLOYMENTS, budget, deployment, is_ready
from ballast_lab.harness.objects import PODS
from ballast_lab.harness.waiting import eventually
from tests.cluster.test_planners import _autoscaler

EACH = 7
SHARE = 1 / 64
"""What one of the pods asks for of a node's memory."""
MARK = "ballast.dev/restarted-for"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def apply(api: Api, name: str) -> None:
    """As a GitOps controller does each time it looks: all fields that it declares, by force."""
    path = f"{DEPLOYMENTS}/{name}?fieldManager=argocd-controller&force=true"
    body = deployment(name, 1, memory="512Mi")
    body["metadata"]["labels"] = {"argocd.argoproj.io/instance": "shop"}
    api.call("PATCH", path, body, kind="application/apply-patch+yaml")


def plain(api: Api, name: str) -> None:
    api.post(DEPLOYMENTS, deployment(name, 1, memory="512Mi"))


def autoscaled(api: Api, name: str) -> None:
    plain(api, name)
    api.post(HPAS, _autoscaler(name))


def budgeted(api: Api, name: str) -> None:
    """Its disruption budget never lets it go."""
    plain(api, name)
    api.post(BUDGETS, budget(name, name, maxUnavailable=0))


def pods(api: Api, name: str) -> list[Json]:
    return api.items(f"{PODS}?labelSelector=app={name}")


def of_shop(daemon: Daemon) -> list[Json]:
    """The moves, but of the installed Deployment of Ballast itself, which this daemon runs beside."""
    return [row for row in daemon.get("/api/v1/evictions").json()["recent"] if row["pod"].startswith("default/")]


@contextmanager
def watched(api: Api, names: list[str]) -> Iterator[list[str]]:
    """The names of those that were seen without a Ready pod, looked at all the time."""
    gaps: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            ready = {pod["metadata"]["labels"].get("app") for pod in api.items(PODS) if is_ready(pod)}
            gaps.extend(name for name in names if name not in ready)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield gaps
    finally:
        over.set()
        thread.join()


def on_first_node(api: Api, names: list[str], make: Callable[[Api, str], None]) -> None:
    for other in NODES[1:]:
        api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": True}})
    for name in names:
        make(api, name)

    def there() -> bool:
        """Whether all run there. One that does not was placed before the scheduler saw that the others are cordoned."""
        found = [pod for name in names for pod in pods(api, name)]
        for pod in found:
            if pod["spec"].get("nodeName", "n0") != "n0":
                api.delete(f"{PODS}/{pod['metadata']['name']}")
        return len(found) == len(names) and all(map(is_ready, found))

    eventually("all run on n0", there, every=0.5)
    for other in NODES[1:]:
        api.patch(f"/api/v1/nodes/{other}", {"spec": {"unschedulable": None}})


@pytest.mark.parametrize("make", [plain, autoscaled, apply, budgeted])
def test_single_replicas_move_by_a_restart_without_a_gap_to_where_they_were_to_go(
    cluster: ControlPlane, tmp_path: Path, make: Callable[[Api, str], None]
) -> None:
    api, since = cluster.api, cluster.audit.here()
    names = [f"one-{number}" for number in range(EACH)]
    with acting(cluster, tmp_path, "relieve", single="restart") as (daemon, machines, installed):
        on_first_node(api, names, make)
        before = {name: api.get(f"{DEPLOYMENTS}/{name}")["metadata"]["generation"] for name in names}
        machines["n0"].memory = 0.95

        def moved() -> bool:
            """Whether all are where they were to go; the load of n0 is that of those that it still has."""
            nodes = [pod["spec"].get("nodeName") for pod in api.items(PODS)]
            machines["n0"].memory = 0.95 - SHARE * (EACH - nodes.count("n0"))
            rows = of_shop(daemon)
            found = {row["workload"]: (row["status"], row["to"], row["landed_on"]) for row in rows}
            assert [each[0] for each in found.values()] == ["ready"] * EACH, found
            return True

        with watched(api, names) as gaps:
            eventually("all have moved", moved, every=0.2)
        machines["n0"].memory = 0.3
        assert gaps == []
        assert {row["landed_on"] == row["to"] != "n0" for row in of_shop(daemon)} == {True}
        for name in names:
            found = api.get(f"{DEPLOYMENTS}/{name}")
            assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (1, before[name] + 1)
            assert MARK in found["spec"]["template"]["metadata"]["annotations"]
            if make is apply:
                apply(api, name)
                assert api.get(f"{DEPLOYMENTS}/{name}")["metadata"]["generation"] == before[name] + 1, (
                    "nobody undoes it"
                )
        calls = cluster.audit.calls(user=installed.user, since=since)
        assert not [call for call in calls if call.resource == "pods/eviction" and "/default/" in call.uri]
        api.delete(BUDGETS)


def test_a_rollout_that_stalls_is_rolled_back_and_its_pod_stays(cluster: ControlPlane, tmp_path: Path) -> None:
    api = cluster.api
    apart = {"topologyKey": "kubernetes.io/os", "labelSelector": {"matchLabels": {"app": "stuck"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}

    def stuck(api: Api, name: str) -> None:
        """The scheduler takes no second pod of it anywhere, which the plan cannot know: the first one is to leave."""
        body = deployment(name, 1, memory="512Mi", affinity=affinity)
        body["spec"]["progressDeadlineSeconds"] = 10
        api.post(DEPLOYMENTS, body)

    with acting(cluster, tmp_path, "relieve", single="restart", ready_within="10s") as (daemon, machines, _):
        for name in NODES:
            api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
        on_first_node(api, ["stuck"], stuck)
        [first] = pods(api, "stuck")
        machines["n0"].memory = 0.95
        with watched(api, ["stuck"]) as gaps:
            rows = eventually(
                "it was given up",
                lambda: [row for row in daemon.get("/api/v1/evictions").json()["recent"] if row["status"] == "stopped"],
            )
        assert gaps == []
        assert rows[0]["why"].endswith("was not Ready within 10 s, so its rollout was rolled back")
        eventually(
            "its first pod is alone",
            lambda: [pod["metadata"]["uid"] for pod in pods(api, "stuck")] == [first["metadata"]["uid"]],
        )
        assert MARK not in (api.get(f"{DEPLOYMENTS}/stuck")["spec"]["template"]["metadata"].get("annotations") or {})
