import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ballast.cli.app import app
from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator import EmbeddedCluster, World
from tests.worlds.daemons import CONFIG_MAP, LEASE, OWN

KUBECTL = """#!{python}
import json, sys
import requests
assert sys.argv[1:3] == ["-n", "{namespace}"], sys.argv
verb, rest = sys.argv[3], sys.argv[4:]
url = "{url}/api/v1/namespaces/{namespace}/configmaps"
if verb == "patch":
    assert rest[:2] == ["configmap", "ballast-switches"] and rest[2:4] == ["--type", "merge"] and rest[4] == "-p", rest
    headers = {{"Content-Type": "application/merge-patch+json"}}
    answer = requests.patch(url + "/ballast-switches", data=rest[5], headers=headers, timeout=600)
else:
    assert [verb, *rest] == ["create", "-f", "-"], rest
    answer = requests.post(url, data=sys.stdin.read(), headers={{"Content-Type": "application/json"}}, timeout=600)
sys.exit(0 if answer.ok else 1)
"""


def line(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    return result.stdout


def test_the_printed_lines_switch_parts_off_and_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell runs each line with a kubectl of a few lines, before and after the ConfigMap is there."""
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    monkeypatch.setenv("BALLAST_LEASE__NAMESPACE", OWN)
    with EmbeddedCluster(World(nodes=1, scene="calm")) as cluster:
        monkeypatch.setenv("BALLAST_CLUSTER__KUBECONFIG", str(cluster.kubeconfig(tmp_path / "kubeconfig")))
        lease(cluster, OWN)
        kubectl = tmp_path / "kubectl"
        kubectl.write_text(KUBECTL.format(python=sys.executable, url=cluster.url, namespace=OWN))
        kubectl.chmod(0o700)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        switches = []
        for arguments in (
            ["pause", "publishing"],
            ["pause"],
            ["resume", "publishing"],
            ["pause", "eviction"],
            ["resume"],
        ):
            subprocess.run(["sh", "-c", line(*arguments)], check=True, env={"PATH": path}, timeout=HUNG)
            switches.append(cluster.resources.get(CONFIG_MAP, OWN, "ballast-switches").read()["data"])
    assert switches == [
        {"paused.publishing": "true"},
        {"paused.publishing": "true", "paused": "true"},
        {"paused.publishing": "false", "paused": "true"},
        {"paused.publishing": "false", "paused": "true", "paused.eviction": "true"},
        {"paused.publishing": "false", "paused": "false", "paused.eviction": "true"},
    ]


def run(*arguments: str, kubeconfig: Path) -> Any:
    return CliRunner().invoke(app, [*arguments, "--kubeconfig", str(kubeconfig)])


def lease(cluster: EmbeddedCluster, namespace: str) -> None:
    metadata = {"name": "ballast", "namespace": namespace}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
    cluster.resources.create(LEASE, namespace, body)


def test_it_is_found_and_never_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POD_NAMESPACE", "BALLAST_LEASE__NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    with EmbeddedCluster(World(nodes=1, scene="calm")) as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        cluster.kubeconfig(kubeconfig)
        refused = run("pause", kubeconfig=kubeconfig)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "No Ballast was found in any namespace" in str(refused.exception)
        lease(cluster, OWN)
        found = run("pause", kubeconfig=kubeconfig)
        assert found.stdout.startswith(f"kubectl --kubeconfig {kubeconfig} -n {OWN} patch configmap ballast-switches ")
        other = run("resume", "power", "-n", "shop", kubeconfig=kubeconfig)
        assert (other.exit_code, other.stdout) == (1, "")
        assert "No Ballast is in namespace shop" in str(other.exception)
        lease(cluster, "shop")
        both = run("pause", kubeconfig=kubeconfig)
        assert f"Ballast is in {OWN} and shop" in str(both.exception)
        assert run("resume", "-n", "shop", kubeconfig=kubeconfig).stdout.startswith("kubectl")


def test_a_part_that_is_none_is_wrong_use() -> None:
    assert CliRunner().invoke(app, ["pause", "everything"]).exit_code == 2
