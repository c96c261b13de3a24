"""A stock kube-scheduler with a given configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
import yaml

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.waiting import HUNG

STOCK = yaml.safe_dump(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
)


@contextmanager
def scheduler(
    plane: ControlPlane,
    configuration: str,
    *,
    verbosity: int = 2,
    binary: Path | None = None,
    kubeconfig: Path | None = None,
    features: str = "",
    patient: bool = False,
) -> Iterator[Process]:
    """Runs it until the block ends, with what a user would give it; only the way to the API server is added.

    `binary` is another build of it. With a `kubeconfig` it has those rights, and elects a leader as configured.
    `features` are feature gates. If `patient`, it waits for extenders longer than their profile says: on a busy
    machine it would go on without them, and the test would see that.
    """
    document = yaml.safe_load(configuration)
    document["clientConnection"] = {
        "kubeconfig": str(kubeconfig or plane.kubeconfig("system:kube-scheduler")),
        "qps": 500,
        "burst": 500,
    }
    if kubeconfig is None:
        document["leaderElection"] = {**document.get("leaderElection", {}), "leaderElect": False}
    for each in document.get("extenders", ()) if patient else ():
        each["httpTimeout"] = "5s"
    port = free_port()
    folder = plane.folder / f"scheduler-{port}"
    folder.mkdir()
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump(document))
    command = [
        binary or plane.tools.kubernetes / "kube-scheduler",
        f"--config={config}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder}",
        "--authentication-skip-lookup",
        f"-v={verbosity}",
        f"--feature-gates={features}",
    ]
    ready = f"https://127.0.0.1:{port}/readyz"

    def is_ready() -> bool:
        with requests.Session() as session:
            session.trust_env = False
            return session.get(ready, verify=str(folder / "kube-scheduler.crt"), timeout=HUNG).status_code == 200

    process = Process("kube-scheduler", command, folder / "log", ready=is_ready, port=port)
    try:
        yield process
    except BaseException as error:
        error.add_note(process.tail())
        raise
    finally:
        process.stop()


def plugin_scores(process: Process, pod: str) -> dict[tuple[str, str], int]:
    """{(plugin, node): score times weight} of one pod, from a log at verbosity 10."""
    found = re.findall(
        rf'"Plugin scored node for pod" pod="[^"/]*/{re.escape(pod)}" plugin="(\w+)" node="([\w.-]+)" score=(-?\d+)',
        process.log.read_text(),
    )
    return {(plugin, node): int(score) for plugin, node, score in found}
