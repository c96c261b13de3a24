"""The README's way from a cluster without Ballast to labels: each line with what the one before printed."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import yaml

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import add_nodes, node
from tests.worlds.chart import ROOT, environment

README = (ROOT / "README.md").read_text()
OFFLINE = ("--no-hooks",)
"""Hooks are pods, which nothing runs here."""


def blocks() -> list[str]:
    """The lines of the blocks under "On your cluster", without comments."""
    part = README[README.index("## On your cluster") : README.index("[docs/install]")]
    found = re.findall(r"^ +```sh\n(.*?)^ +```$", part, re.MULTILINE | re.DOTALL)
    return [line.partition(" #")[0].strip() for block in found for line in block.splitlines()]


def test_each_line_of_the_readme_finds_what_the_one_before_made(
    cluster: ControlPlane, helms: dict[str, Path], tmp_path: Path
) -> None:
    lines, bare = blocks(), tmp_path / "kubeconfig"
    config = yaml.safe_load(Path(cluster.admin_kubeconfig).read_text())
    for context in config["contexts"]:
        context["context"].pop("namespace", None)
    bare.write_text(yaml.safe_dump(config))
    given = {name: value for name, value in os.environ.items() if not name.startswith(("BALLAST_", "KUBE", "POD_"))}
    given |= {"KUBECONFIG": str(bare)}
    image, doctor, forward, upgrade, get = lines
    assert image.startswith("make image IMAGE=")
    assert doctor == "ballast doctor"
    service = {
        "metadata": {"name": "prometheus-operated", "labels": {"operated-prometheus": "true"}},
        "spec": {"clusterIP": "None", "ports": [{"name": "web", "port": 9090}], "selector": {"a": "b"}},
    }
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": "monitoring"}})
    cluster.api.post("/api/v1/namespaces/monitoring/services", service)
    add_nodes(cluster.api, [node("n1"), node("n2")])
    helm = str(helms["4"])

    def run(line: str, *more: str) -> str:
        program, *arguments = shlex.split(line)
        done = subprocess.run(
            [{"helm": helm}.get(program, program), *arguments, *more],
            cwd=ROOT, env=given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout

    try:
        done = subprocess.run(
            [sys.executable, "-m", "ballast", "doctor", "-o", "json"],
            cwd=ROOT, env=given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout)
        assert "--namespace ballast " in report["install"]
        fixes = " ".join(fix for finding in report["findings"] for fix in finding["fix"])
        assert "exec deploy/ballast" not in fixes, "nothing is installed there"
        run(report["install"].replace("--wait", ""), *OFFLINE)
        _, _, _, _, address, port = shlex.split(forward)
        namespace = shlex.split(forward)[2]
        found = cluster.api.get(f"/api/v1/namespaces/{namespace}/services/{address.removeprefix('service/')}")
        assert int(port) in [each["port"] for each in found["spec"]["ports"]]
        run(upgrade, *OFFLINE)
        deployment = cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/ballast")
        set_now = environment(deployment["spec"]["template"]["spec"]["containers"][0])
        assert set_now["BALLAST_PUBLISHING__MODE"] == "on"
        label = shlex.split(get)[-1]
        assert label == f"{set_now['BALLAST_PUBLISHING__LABEL_PREFIX']}/score"
    finally:
        run(f"helm uninstall ballast --namespace ballast --ignore-not-found {OFFLINE[0]}")
        cluster.api.delete("/api/v1/namespaces/monitoring")
