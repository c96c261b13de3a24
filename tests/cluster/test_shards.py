"""Three Ballasts share one cluster: each has a namespace (so a Lease and a state), a pool of nodes and a prefix."""

import json
from contextlib import ExitStack
from pathlib import Path

from typer.testing import CliRunner

from ballast.cli.app import app
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.waiting import eventually

POOLS = ("a", "b", "c")
POOL_OF = {f"{pool}{number}": pool for pool in POOLS for number in range(3)}
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def test_three_ballasts_divide_a_cluster_and_status_shows_them_together(cluster: ControlPlane, tmp_path: Path) -> None:
    add_nodes(cluster.api, [node(name, labels={"pool": pool}) for name, pool in POOL_OF.items()])
    since = cluster.audit.here()
    with ExitStack() as stack:
        machines = stack.enter_context(Machines(list(POOL_OF), memory=0.1))
        server = stack.enter_context(prometheus(cluster.tools, tmp_path, machines.targets()))
        daemons = {pool: stack.enter_context(_ballast(cluster, pool, server.url)) for pool in POOLS}
        eventually("all lead", lambda: all(daemon.leads() for daemon in daemons.values()))
        eventually("each node carries its pool's prefix", lambda: _prefixes(cluster) == _own_prefixes())
        for name in ("a0", "b0", "c0"):
            machines[name].memory = 0.95
        eventually("the hot ones are high", lambda: all(_class(cluster, name) == "high" for name in ("a0", "b0", "c0")))
        cluster.api.post(PODS, pod("stranger", nodeName="b0"))
        path = "/api/v1/pods/default/stranger/explain"
        eventually("its own Ballast knows it", lambda: daemons["b"].get(path).status_code == 200)
        assert daemons["a"].get(path).status_code == 404
        for daemon in daemons.values():
            assert {daemon.condition(kind) for kind in ("SecondBallast", "Contended", "UnmatchedSeries")} == {""}
        urls = [part for daemon in daemons.values() for part in ("--url", daemon.url)]
        answer = CliRunner().invoke(app, ["status", "-o", "json", *urls])
    together = json.loads(answer.stdout)
    assert (together["nodes"]["nodes"], together["nodes"]["known"]) == (9, 9)
    assert {node["node"] for node in together["hot"]} == {"a0", "b0", "c0"}
    wrong = {trouble["type"]: trouble["message"] for trouble in together["wrong"]}
    assert {"SecondBallast", "Contended", "NoAnswer"}.isdisjoint(wrong), wrong
    assert len(together["daemons"]) == 3
    assert _prefixes(cluster) == _own_prefixes()
    _check_writes(cluster, since)


def _ballast(cluster: ControlPlane, pool: str, prometheus_url: str) -> Daemon:
    """With an account of its own, so that the audit log tells who wrote."""
    namespace = f"ballast-{pool}"
    kubeconfig = cluster.account_kubeconfig(namespace, "ballast")
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "ballast", "namespace": namespace}
    cluster.api.raw("POST", BINDING, {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]})
    settings = {
        **FAST,
        "BALLAST_PROMETHEUS__URL": prometheus_url,
        "BALLAST_CLUSTER__NODE_SELECTOR": f"pool={pool}",
        "BALLAST_PUBLISHING__PREFIX": f"{pool}.ballast.dev",
        "POD_NAMESPACE": namespace,
    }
    return Daemon(cluster, pool, kubeconfig, settings)


def _own_prefixes() -> dict[str, set[str]]:
    return {name: {f"{pool}.ballast.dev"} for name, pool in POOL_OF.items()}


def _prefixes(cluster: ControlPlane) -> dict[str, set[str]]:
    """{node: the prefixes of the scores that it carries}."""
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in cluster.api.items("/api/v1/nodes")}
    return {
        name: {prefix for prefix, _, key in (label.partition("/") for label in of_node) if key == "score"}
        for name, of_node in labels.items()
    }


def _class(cluster: ControlPlane, name: str) -> str | None:
    labels: dict[str, str] = cluster.api.get(f"/api/v1/nodes/{name}")["metadata"]["labels"]
    return labels.get(f"{POOL_OF[name]}.ballast.dev/load")


def _check_writes(cluster: ControlPlane, since: int) -> None:
    """Each wrote its own nodes, its own Lease and its own state alone; Events about nodes are in `default`."""
    for pool in POOLS:
        calls = [
            call
            for call in cluster.audit.calls(user=f"system:serviceaccount:ballast-{pool}:ballast", since=since)
            if call.verb in {"create", "update", "patch", "delete"} and call.resource != "events"
        ]
        written = {call.name for call in calls if call.resource.startswith("nodes")}
        assert written == {name for name, its_pool in POOL_OF.items() if its_pool == pool}
        elsewhere = [call.uri for call in calls if "/namespaces/" in call.uri and f"/ballast-{pool}/" not in call.uri]
        assert elsewhere == []
