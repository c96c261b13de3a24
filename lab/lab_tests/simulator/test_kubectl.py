import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator import EmbeddedCluster

KUBECTL = shutil.which("kubectl")
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on the PATH")

Run = Callable[..., str]


@pytest.fixture
def kubectl(cluster: EmbeddedCluster, tmp_path: Path) -> Run:
    kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments: str) -> str:
        environment = {**os.environ, "HOME": str(tmp_path), "NO_PROXY": "*"}
        command = [str(KUBECTL), f"--kubeconfig={kubeconfig}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HUNG, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_kubectl_reads(kubectl: Run) -> None:
    everything = kubectl("get", "nodes,pods", "-A")
    assert "node/node-000" in everything
    assert "pod/" in everything
    kinds = "nodes,pods,pdb,deploy,rs,sts,ds,hpa,ns,pvc"
    listed = json.loads(kubectl("get", kinds, "-A", "-o", "json"))["items"]
    assert {item["kind"] for item in listed} >= {"Node", "Pod", "Deployment", "ReplicaSet", "DaemonSet", "Namespace"}
    assert "NodeMetricsList" in kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes")
    assert "node-000" in kubectl("top", "nodes")
    assert "Capacity:" in kubectl("describe", "node", "node-000")
    assert "kind: List" in kubectl("get", "lease", "-A", "-o", "yaml")


def test_kubectl_writes(kubectl: Run) -> None:
    kubectl("label", "node", "node-001", "tier=gold")
    kubectl("annotate", "node", "node-001", "example.com/note=hello")
    kubectl("cordon", "node-001")
    kubectl("taint", "node", "node-001", "a=b:NoSchedule")
    kubectl("patch", "node", "node-001", "--type=merge", '--patch={"metadata":{"labels":{"more":"yes"}}}')
    node = json.loads(kubectl("get", "node", "node-001", "-o", "json"))
    assert node["metadata"]["labels"].items() >= {"tier": "gold", "more": "yes"}.items()
    assert node["metadata"]["annotations"]["example.com/note"] == "hello"
    assert node["spec"]["unschedulable"] is True
    assert node["spec"]["taints"] == [{"key": "a", "value": "b", "effect": "NoSchedule"}]
    kubectl("uncordon", "node-001")
    kubectl("taint", "node", "node-001", "a-")
    kubectl("label", "node", "node-001", "tier-")
    node = json.loads(kubectl("get", "node", "node-001", "-o", "json"))
    assert node["spec"].keys().isdisjoint({"unschedulable", "taints"})
    assert "tier" not in node["metadata"]["labels"]


def test_kubectl_makes_and_removes(kubectl: Run, tmp_path: Path) -> None:
    manifest = tmp_path / "map.json"
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "b"}}
    manifest.write_text(json.dumps(document))
    kubectl("apply", "-f", str(manifest))
    manifest.write_text(json.dumps({**document, "data": {"a": "c"}}))
    assert "configured" in kubectl("apply", "-f", str(manifest))
    assert json.loads(kubectl("get", "configmap", "one", "-o", "json"))["data"] == {"a": "c"}
    assert "deleted" in kubectl("delete", "configmap", "one")
