"""Pods that tolerate a load below a number, on a stock scheduler: none lands on a node above it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, node, placements, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

KEY = "ballast.dev/load"
FEATURES = "TaintTolerationComparisonOperators=true"
LOADS = {f"n{number}": 0.1 * number + 0.03 for number in range(10)}
PODS_EACH = 40
ANY = {"key": KEY, "operator": "Exists"}
SETTINGS = {**FAST, "BALLAST_PUBLISHING__LOAD_TAINT": "NoSchedule", "BALLAST_LEASE__NAMESPACE": "default"}


@pytest.fixture
def comparing(tools: Tools, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane that admits `Lt` and `Gt`."""
    plane = ControlPlane(tools, tmp_path, features=FEATURES)
    yield plane
    plane.stop()


def test_no_pod_lands_on_a_node_above_the_load_it_tolerates(comparing: ControlPlane, tmp_path: Path) -> None:
    api = comparing.api
    add_nodes(api, [node(name, cpu="64", memory="256Gi", pods=500) for name in LOADS])
    with Machines(LOADS) as machines:
        for name, load in LOADS.items():
            machines[name].cpu = machines[name].memory = load
        with prometheus(comparing.tools, tmp_path, machines.targets()) as server:
            settings = {**SETTINGS, "BALLAST_PROMETHEUS__URL": server.url}
            with Daemon(comparing, "one", comparing.admin_kubeconfig, settings):
                values = eventually("every node has its load", lambda: _near(_values(comparing)), every=0.5)
                with scheduler(comparing, STOCK, features=FEATURES):
                    for number in range(PODS_EACH):
                        for below in (30, 60):
                            api.post(PODS, pod(f"below-{below}-{number}", cpu="10m", tolerations=[_below(below)]))
                    for name in LOADS:
                        there = {"kubernetes.io/hostname": name}
                        api.post(PODS, pod(f"any-{name}", cpu="10m", nodeSelector=there, tolerations=[ANY]))
                    placed = placements(api)
                    api.post(PODS, pod("tolerates-nothing"))
                    eventually("it is refused everywhere", lambda: _unschedulable(api.get(f"{PODS}/tolerates-nothing")))
    for below in (30, 60):
        of_these = {name for pod_name, name in placed.items() if pod_name.startswith(f"below-{below}-")}
        assert max(values[name] for name in of_these) < below
        assert len(of_these) > 1, "the load keeps pods away, it does not herd them"
    assert {name for pod_name, name in placed.items() if pod_name.startswith("any-")} == set(LOADS)


def _below(value: int) -> Json:
    return {"key": KEY, "operator": "Lt", "value": str(value), "effect": "NoSchedule"}


def _near(values: dict[str, int]) -> dict[str, int]:
    """The values, once each is above the load of its node by less than a step."""
    assert all(0 <= value - 100 * LOADS[name] < 5.1 for name, value in values.items()), values
    return values


def _values(plane: ControlPlane) -> dict[str, int]:
    found = {
        each["metadata"]["name"]: int(taint["value"])
        for each in plane.api.items("/api/v1/nodes")
        for taint in each["spec"].get("taints", ())
        if taint["key"] == KEY
    }
    assert found.keys() == LOADS.keys()
    return found


def _unschedulable(found: Json) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in found["status"].get("conditions", ()))
