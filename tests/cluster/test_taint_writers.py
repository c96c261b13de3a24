"""Several writers change one node's taints at the same time, and nobody's taint gets lost."""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.client import connect
from ballast.cluster.node_writes import replace_taints, with_taint
from ballast.cluster.write import Result
from ballast_lab.harness.api import Refused
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node
from tests.worlds.writing import writer_on

ROUNDS = 40
KEY = "ballast.dev/overloaded"
NODE = "/api/v1/nodes/contested"


def _ballast(cluster: ControlPlane) -> int:
    """Sets and removes Ballast's taint in turn; returns how often someone else was first."""
    metrics = Metrics()
    api = connect(SimpleNamespace(kubeconfig=cluster.admin_kubeconfig, context=None), metrics)
    writer = writer_on(api, SystemClock(), metrics, modes={"publishing": "on"})
    try:
        for number in range(ROUNDS + 1):
            wanted = number % 2 == 0
            result = Result.CONFLICT
            while result is Result.CONFLICT:
                result = replace_taints(
                    api,
                    writer,
                    "contested",
                    lambda taints, wanted=wanted: with_taint(taints, KEY, wanted),
                    part="publishing",
                    reason="test",
                ).result
            assert result is Result.DONE
    finally:
        api.close()
    lost = metrics.registry.get_sample_value("ballast_writes_total", {"kind": "taint", "result": "conflict"})
    return int(lost or 0)


def _someone(cluster: ControlPlane, name: str) -> None:
    """Adds one taint after another, as a well-behaved controller does."""
    with cluster.as_token("token-of-admin") as api:
        for number in range(ROUNDS):
            taint = {"key": f"example.com/{name}-{number}", "effect": "PreferNoSchedule"}
            while True:
                found = api.get(NODE)
                spec = {"taints": [*found["spec"].get("taints", []), taint]}
                version = {"resourceVersion": found["metadata"]["resourceVersion"]}
                try:
                    api.patch(NODE, {"metadata": version, "spec": spec})
                    break
                except Refused as refused:
                    if refused.status != 409:
                        raise


def test_taint_writers_in_parallel_lose_nothing(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, [node("contested")])
    with ThreadPoolExecutor(3) as pool:
        ballast = pool.submit(_ballast, cluster)
        others = [pool.submit(_someone, cluster, name) for name in ("one", "two")]
        conflicts = ballast.result()
        for other in others:
            other.result()
    found = [taint["key"] for taint in cluster.api.get(NODE)["spec"]["taints"]]
    expected = {f"example.com/{name}-{number}" for name in ("one", "two") for number in range(ROUNDS)}
    assert sorted(found) == sorted({*expected, KEY})
    assert conflicts > 0, "the writers never met, so this test showed nothing"
