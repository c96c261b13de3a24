import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ballast.base.errors import BallastError, ClusterError, SettingsError, UsageError
from ballast.cli.app import app
from ballast.cluster.write import Write, WriteOutcome
from ballast.cluster.writer import Writer
from ballast_lab.simulator import EmbeddedCluster, World
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.daemons import LEASE, NODE, OWN, POD
from tests.worlds.logs import log_restored

__all__ = ["log_restored"]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("log_restored")]

FOREIGN_LABELS = {"team": "blue", "other.dev/score": "3"}
FOREIGN_TAINTS = [{"key": "team", "value": "blue", "effect": "NoSchedule"}]
OURS = {"ballast.dev/score": "7", "ballast.dev/load": "normal"}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedCluster]:
    """Three nodes: one with everything of ours, one with `load` alone, one with nothing of ours."""
    for name in ("POD_NAME", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    with EmbeddedCluster(World(nodes=3, scene="calm")) as one:
        for name, value in one.environment(one.kubeconfig(tmp_path / "kubeconfig")).items():
            monkeypatch.setenv(name, value)
        taints = [*FOREIGN_TAINTS, {"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}]
        annotations = {"ballast.dev/window": "{}", "other.dev/window": "{}"}
        patch(one, "node-000", labels=FOREIGN_LABELS | OURS, annotations=annotations, taints=taints)
        patch(one, "node-001", labels={"ballast.dev/load": "unknown"}, taints=FOREIGN_TAINTS)
        patch(one, "node-002", labels=FOREIGN_LABELS, taints=FOREIGN_TAINTS)
        yield one


def patch(
    cluster: EmbeddedCluster,
    name: str,
    *,
    labels: dict[str, str],
    annotations: dict[str, str] | None = None,
    taints: list[dict[str, str]],
) -> None:
    body = {"metadata": {"labels": labels, "annotations": annotations or {}}, "spec": {"taints": taints}}
    cluster.resources.patch(NODE, "", name, "application/merge-patch+json", body)


def ours(cluster: EmbeddedCluster) -> set[str]:
    """Every key of ours on any node."""
    found: set[str] = set()
    for stored in cluster.store.all(NODE, ""):
        node = stored.read()
        keys = {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}.keys()
        found |= {key for key in (*keys, *(t["key"] for t in node["spec"].get("taints", ()))) if "ballast.dev" in key}
    return found


def renewed(cluster: EmbeddedCluster, seconds_ago: float, holder: str = "a") -> None:
    stamp = datetime.fromtimestamp(cluster.world.clock.wall() - seconds_ago, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body: dict[str, Any] = {
        "metadata": {"name": "ballast", "namespace": OWN},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": stamp},
    }
    if cluster.store.get(LEASE, OWN, "ballast") is None:
        cluster.resources.create(LEASE, OWN, body)
    else:
        cluster.resources.update(LEASE, OWN, "ballast", lambda lease: {**lease, "spec": body["spec"]})


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["release", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def test_everything_of_ours_goes_and_nothing_else(cluster: EmbeddedCluster) -> None:
    assert run() == "Released 2 of 3 nodes.\n"
    assert ours(cluster) == set()
    for name in ("node-000", "node-002"):
        node = cluster.resources.get(NODE, "", name).read()
        assert node["metadata"]["labels"].items() >= FOREIGN_LABELS.items()
        assert node["spec"]["taints"] == FOREIGN_TAINTS
    assert "other.dev/window" in cluster.resources.get(NODE, "", "node-000").read()["metadata"]["annotations"]
    assert cluster.requests["patch", "nodes"] == 3
    assert run() == "Released 0 of 3 nodes.\n"
    assert cluster.requests["patch", "nodes"] == 3


def test_a_daemon_that_still_writes_is_warned_of(cluster: EmbeddedCluster) -> None:
    renewed(cluster, 5, holder="ballast-0")
    result = CliRunner().invoke(app, ["release"])
    assert result.exit_code == 0
    assert "warning: ballast-0 is the leader and writes all this again" in result.stderr
    renewed(cluster, 600, holder="ballast-0")
    assert "warning" not in CliRunner().invoke(app, ["release"]).stderr


def test_while_the_lease_is_fresh_if_stale_does_nothing(cluster: EmbeddedCluster) -> None:
    renewed(cluster, 600.0)
    assert run("--if-stale", "15m") == "Released nothing: Lease ballast/ballast was renewed 600 s ago.\n"
    assert cluster.requests["patch", "nodes"] == 0
    assert cluster.requests["list", "nodes"] == 0


def test_once_the_lease_is_stale_if_stale_releases(cluster: EmbeddedCluster) -> None:
    renewed(cluster, 901.0)
    assert run("--if-stale", "15m") == "Released 2 of 3 nodes.\n"
    assert ours(cluster) == set()


def test_without_a_lease_if_stale_does_nothing(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    start = "Released nothing: there is no Lease ballast/ballast, so it is unknown whether a daemon runs."
    assert run("--if-stale", "15m").startswith(start)
    renewed(cluster, 901.0)
    monkeypatch.setenv("BALLAST_LEASE__NAME", "other")
    assert run("--if-stale", "15m").startswith("Released nothing: there is no Lease ballast/other")
    assert len(ours(cluster)) == 4


def test_a_lease_that_nobody_ever_renewed_does_nothing(cluster: EmbeddedCluster) -> None:
    body = {"metadata": {"name": "ballast", "namespace": OWN}, "spec": {"holderIdentity": "a"}}
    cluster.resources.create(LEASE, OWN, body)
    start = "Released nothing: Lease ballast/ballast has no renewTime."
    assert run("--if-stale", "15m").startswith(start)
    assert len(ours(cluster)) == 4


def test_a_lease_that_was_given_back_goes_stale_too(cluster: EmbeddedCluster) -> None:
    renewed(cluster, 901.0, holder="")
    assert run("--if-stale", "15m") == "Released 2 of 3 nodes.\n"


def test_a_daemon_that_comes_back_ends_the_release(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed(cluster, 901.0)
    monkeypatch.setattr("ballast.cli.release.READ_INTERVAL", 0.0)
    submit = Writer.submit

    def returning(writer: Writer, write: Write, **options: Any) -> WriteOutcome:
        outcome = submit(writer, write, **options)
        if write.target.name == "node-000":
            renewed(cluster, 0.0)
        return outcome

    monkeypatch.setattr(Writer, "submit", returning)
    assert re.match(
        r"Released 1 of 3 nodes. Stopped: Lease ballast/ballast was renewed \d+ s ago.\n", run("--if-stale=15m")
    )
    assert cluster.requests["patch", "nodes"] == 1
    assert "ballast.dev/load" in ours(cluster)


def test_the_lease_is_read_every_five_seconds_at_most(cluster: EmbeddedCluster) -> None:
    renewed(cluster, 901.0)
    run("--if-stale", "15m")
    assert cluster.requests["get", "leases"] == 1


def test_another_prefix_is_another_ballast(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALLAST_PUBLISHING__PREFIX", "other.dev")
    assert run() == "Released 2 of 3 nodes.\n"
    assert len(ours(cluster)) == 4


@pytest.mark.parametrize("age", ["soon", "-5m"])
def test_an_age_that_is_none_is_wrong_use(cluster: EmbeddedCluster, age: str) -> None:
    with pytest.raises(UsageError, match="--if-stale"):
        run(f"--if-stale={age}")


@pytest.mark.parametrize(
    ("verb", "resource", "arguments"),
    [("list", "nodes", ()), ("patch", "nodes", ()), ("get", "leases", ("--if-stale", "15m"))],
)
def test_a_missing_right_is_named_and_nothing_is_hidden(
    cluster: EmbeddedCluster, verb: str, resource: str, arguments: tuple[str, ...]
) -> None:
    cluster.faults.kube_forbidden(verb, resource)
    with pytest.raises(BallastError, match=f"Ballast needs verb `{verb}` on `{resource}`"):
        run(*arguments)
    assert len(ours(cluster)) == 4


def test_without_an_api_server_the_address_is_named(cluster: EmbeddedCluster) -> None:
    cluster.faults.kube_reset()
    with pytest.raises(ClusterError, match="No answer from the Kubernetes API at http"):
        run()


def test_a_wrong_setting_is_named(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BALLAST_CLUSTER__QPS", "fast")
    with pytest.raises(SettingsError, match="BALLAST_CLUSTER__QPS"):
        run()


HPA, SCALED_OBJECT = BY_NAME["HorizontalPodAutoscaler"], BY_NAME["ScaledObject"]
CAPPED = {"ballast.dev/original-max-replicas": "20", "ballast.dev/power-cap": "4"}


def autoscaler(cluster: EmbeddedCluster, name: str, cap: int, annotations: dict[str, str]) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    meta = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": cap}
    cluster.resources.create(HPA, "default", {"metadata": meta, "spec": spec})


def cap(cluster: EmbeddedCluster, name: str) -> tuple[int, dict[str, str]]:
    found = cluster.resources.get(HPA, "default", name).read()
    return found["spec"]["maxReplicas"], found["metadata"].get("annotations", {})


def test_caps_of_ours_are_given_back(cluster: EmbeddedCluster) -> None:
    autoscaler(cluster, "api", 4, {**CAPPED, "other": "stays"})
    autoscaler(cluster, "moved", 12, CAPPED)
    autoscaler(cluster, "foreign", 5, {"other": "stays"})
    body = {"metadata": {"name": "web", "annotations": CAPPED}, "spec": {"maxReplicaCount": 4}}
    cluster.resources.create(SCALED_OBJECT, "default", body)
    assert run() == "Released 2 of 3 nodes. Gave back 3 of 3 caps.\n"
    assert cap(cluster, "api") == (20, {"other": "stays"})
    assert cap(cluster, "moved") == (12, {})
    assert cap(cluster, "foreign") == (5, {"other": "stays"})
    released = cluster.resources.get(SCALED_OBJECT, "default", "web").read()
    assert released["spec"] == {"maxReplicaCount": 20}
    assert "annotations" not in released["metadata"]
    assert run("power") == "Released nothing: no autoscaler has a cap of Ballast.\n"


def test_parts_can_be_released_alone(cluster: EmbeddedCluster) -> None:
    autoscaler(cluster, "api", 4, CAPPED)
    assert run("publishing") == "Released 2 of 3 nodes.\n"
    assert cap(cluster, "api") == (4, CAPPED)
    assert cluster.requests["list", "horizontalpodautoscalers"] == 0
    assert run("power") == "Gave back 1 of 1 caps.\n"


def test_an_original_that_cannot_be_read_fails(cluster: EmbeddedCluster) -> None:
    autoscaler(cluster, "api", 4, {"ballast.dev/original-max-replicas": "many"})
    with pytest.raises(BallastError, match="'many', expected a decimal number"):
        run("power")


def test_rights_for_caps_are_asked_for_by_name(cluster: EmbeddedCluster) -> None:
    cluster.faults.kube_forbidden("list", "horizontalpodautoscalers")
    with pytest.raises(BallastError, match="Ballast needs verb `list` on `horizontalpodautoscalers`"):
        run()
    assert ours(cluster) == set()


def test_crane_s_annotations_go_while_ballast_writes_them(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    crane = {"cpu_usage_avg_5m": "0.10000,2023-10-17T15:04:32Z", "node_hot_value": "0,2023-10-17T15:04:34Z"}
    others = {"cpu_usage_active": "0.1,2023-10-17T15:04:32Z"}
    patch(cluster, "node-002", labels=FOREIGN_LABELS, annotations=crane | others, taints=[])

    def carried() -> set[str]:
        return set(cluster.resources.get(NODE, "", "node-002").read()["metadata"]["annotations"])

    run()
    assert crane.keys() | others.keys() <= carried(), "somebody else may write them"
    monkeypatch.setenv("BALLAST_PUBLISHING__CRANE", "true")
    run()
    assert carried() & (crane.keys() | others.keys()) == others.keys()


def gated(cluster: EmbeddedCluster, name: str, *gates: str) -> None:
    spec = {"containers": [{"name": "main", "image": "none"}], "schedulingGates": [{"name": gate} for gate in gates]}
    cluster.resources.create(POD, "default", {"metadata": {"name": name}, "spec": spec})


def gates(cluster: EmbeddedCluster, name: str) -> list[str]:
    spec = cluster.resources.get(POD, "default", name).read()["spec"]
    return [gate["name"] for gate in spec.get("schedulingGates") or ()]


def test_gates_of_ours_go_and_those_of_others_stay(cluster: EmbeddedCluster) -> None:
    gated(cluster, "ours", "ballast.dev/batch")
    gated(cluster, "both", "other.dev/quota", "ballast.dev/batch")
    gated(cluster, "theirs", "other.dev/quota")
    assert run("batch") == "Removed the gate of 2 of 2 pods.\n"
    left = {name: gates(cluster, name) for name in ("ours", "both", "theirs")}
    assert left == {"ours": [], "both": ["other.dev/quota"], "theirs": ["other.dev/quota"]}
    assert run("batch") == "Released nothing: no pod has the gate of Ballast.\n"
    assert ours(cluster) != set()


def test_gates_go_with_all_else_and_not_while_a_leader_renews(cluster: EmbeddedCluster) -> None:
    gated(cluster, "web", "ballast.dev/batch")
    renewed(cluster, 30)
    assert run("batch", "--if-stale", "1m").startswith("Released nothing: Lease ballast/ballast was renewed")
    assert gates(cluster, "web") == ["ballast.dev/batch"]
    renewed(cluster, 90)
    assert run("batch", "--if-stale", "1m") == "Removed the gate of 1 of 1 pods.\n"
    gated(cluster, "api", "ballast.dev/batch")
    assert run().endswith("Removed the gate of 1 of 1 pods.\n")
    assert gates(cluster, "api") == []
