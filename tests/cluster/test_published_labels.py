"""Real Prometheus, real API server: the loads of 50 nodes end up in their labels."""

import json
from pathlib import Path

import pytest

from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.waiting import eventually

NODES = [f"n{number:02d}" for number in range(50)]
GUARDED = "ballast.node-restriction.kubernetes.io"
SCORE, LOAD = f"{GUARDED}/score", f"{GUARDED}/load"


def test_fifty_nodes_get_their_labels_and_nothing_is_forbidden(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    add_nodes(cluster.api, [node(name) for name in NODES])
    [pod, _] = installed.pods(cluster.api, 2)
    before = cluster.audit.here()
    with Machines(NODES) as machines:
        for number, name in enumerate(NODES):
            machines[name].memory = 0.02 * number  # 0 .. 0.98
        with prometheus(cluster.tools, tmp_path, machines.targets()) as server:
            settings = {**installed.settings, **FAST, "BALLAST_PROMETHEUS__URL": server.url, "POD_NAME": pod}
            settings["POD_IP"] = "10.9.0.1"
            kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
            with Daemon(cluster, "one", kubeconfig, {**settings, "POD_NAMESPACE": installed.namespace}) as daemon:
                labels = eventually("all nodes are labelled", lambda: _labels(cluster), every=0.5)
                for number, name in enumerate(NODES):
                    load = 0.02 * number
                    score = int(labels[name][SCORE])
                    if load > 0.2:  # below, cpu is the larger load
                        assert abs(score - (1 - load**0.5) * 24) <= 1, f"load {load} of {name} gives {score}"
                    expected = "low" if load < 0.25 else "normal" if 0.35 < load < 0.75 else None
                    expected = "high" if load > 0.85 else expected
                    assert expected in (None, labels[name][LOAD])
                window = json.loads(
                    cluster.api.get("/api/v1/nodes/n10")["metadata"]["annotations"]["ballast.dev/window"]
                )
                assert window["v"] == 1
                assert window["length"] == 10
                assert window["memory"]["mean"] == pytest.approx(0.2, abs=1e-4)
                slices = f"/apis/discovery.k8s.io/v1/namespaces/{installed.namespace}/endpointslices"
                endpoint = cluster.api.get(f"{slices}/ballast-extender")["endpoints"]
                assert [each["targetRef"]["name"] for each in endpoint] == [pod]
                assert daemon.stop() == 0
    calls = cluster.audit.calls(user=installed.user, since=before)
    assert {call.verb for call in calls} >= {"list", "watch", "patch"}
    assert [call for call in calls if call.forbidden] == []
    patches = [call for call in calls if call.verb == "patch" and call.resource == "nodes"]
    assert len(patches) <= 2 * len(NODES), "at most two patches per node settle a fresh start"
    assert not cluster.api.get(f"{slices}/ballast-extender")["endpoints"]


def test_two_ballasts_with_leases_of_their_own_find_each_other(cluster: ControlPlane, tmp_path: Path) -> None:
    names = NODES[:4]
    add_nodes(cluster.api, [node(name) for name in names])
    kubeconfig = cluster.kubeconfig("admin")
    for namespace in ("one", "two"):
        cluster.account_token(namespace, "ballast")
    with Machines(names, memory=0.1) as machines, prometheus(cluster.tools, tmp_path, machines.targets()) as server:
        settings = {**FAST, "BALLAST_PROMETHEUS__URL": server.url, "BALLAST_EVICTION__MODE": "off"}
        with (
            Daemon(cluster, "one", kubeconfig, {**settings, "POD_NAMESPACE": "one"}) as one,
            Daemon(cluster, "two", kubeconfig, {**settings, "POD_NAMESPACE": "two"}) as two,
        ):
            eventually("both lead", lambda: one.leads() and two.leads())
            eventually("all nodes are labelled", lambda: _labels(cluster, "ballast.dev"), every=0.5)
            for name in names:
                machines[name].memory = 0.95
            kind = "SecondBallast"
            said = eventually("one is found", lambda: one.condition(kind) or two.condition(kind))
    assert "another Ballast publishes too: " in said
    assert "BALLAST_CLUSTER__NODE_SELECTOR" in said


def _labels(cluster: ControlPlane, prefix: str = GUARDED) -> dict[str, dict[str, str]]:
    found = {each["metadata"]["name"]: each["metadata"]["labels"] for each in cluster.api.items("/api/v1/nodes")}
    missing = [name for name, labels in found.items() if not {f"{prefix}/score", f"{prefix}/load"} <= labels.keys()]
    assert not missing, f"{len(missing)} nodes have no labels yet"
    return found
