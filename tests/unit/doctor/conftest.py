"""A simulated cluster to be examined."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ballast.answers.evictions import Plan
from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.client import connect
from ballast.doctor.checks import examine
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding, Report
from ballast.settings import load
from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator import EmbeddedCluster, World
from ballast_lab.simulator.kube.kinds import BY_NAME


@dataclass
class Patient:
    """A simulated cluster of six nodes and the settings of Ballast there; its answers may take long."""

    cluster: EmbeddedCluster
    environment: dict[str, str]
    plans: Callable[[], list[Plan]] | None = None
    """Of the daemon that runs."""

    def examine(self, *only: str, within: float = math.inf, **more: str) -> Report:
        settings = load(self.environment | {f"BALLAST_{name}": value for name, value in more.items()})
        api = connect(settings.cluster, Metrics())
        evidence = Evidence(settings, api, SystemClock())
        evidence.plans = self.plans or evidence.plans
        try:
            return examine(evidence, only, within)
        finally:
            evidence.close()
            api.close()

    def only(self, check: str, **more: str) -> Finding:
        """The worst finding of one check."""
        return self.examine(check, **more).findings[0]

    def create(self, kind: str, name: str, namespace: str = "ballast", **more: Any) -> None:
        """An object; `labels` and `annotations` go to its metadata."""
        meta = {key: more.pop(key) for key in ("labels", "annotations") if key in more}
        self.cluster.resources.create(
            BY_NAME[kind], namespace, {"metadata": {"name": name, "namespace": namespace, **meta}, **more}
        )

    def pod(self, name: str = "ballast-0", **spec: Any) -> None:
        """A pod of Ballast that runs."""
        container = {"name": "ballast", "image": "ballast", "ports": [{"name": "http", "containerPort": 2020}]}
        labels = {"app.kubernetes.io/name": "ballast"}
        self.create("Pod", name, labels=labels, spec={"containers": [container], **spec}, status={"phase": "Running"})

    def lease(self, holder: str, renewed: str, namespace: str = "ballast") -> None:
        """The Lease, as its holder renewed it last."""
        self.create("Lease", "ballast", namespace, spec={"holderIdentity": holder, "renewTime": renewed})


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    for name in ("POD_NAME", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("ballast.doctor.power.PATIENCE", HUNG)
    with EmbeddedCluster(World(nodes=6, scene="calm")) as cluster:
        environment = cluster.environment(cluster.kubeconfig(tmp_path / "kubeconfig"))
        yield Patient(cluster, environment | {"BALLAST_PROMETHEUS__TIMEOUT": "300s"})


def wrong(found: Report) -> Mapping[str, Finding]:
    """What is above `ok`, by check."""
    return {each.check: each for each in found.findings if each.status in ("fail", "warn")}
