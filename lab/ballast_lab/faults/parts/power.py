"""Replicas and caps under a budget of watts."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from ballast_lab.faults.judge import Rules
from ballast_lab.faults.parts.part import LANE, Part
from ballast_lab.harness.api import Json

_EACH = 10
_BEFORE, _MOST = 6, 8
"""Replicas of each workload that is scaled."""
_PLENTY, _LITTLE = 1000, 140
_AHEAD = 600
_CAPS = {"api": 20, "jobs": 30}
"""Of the HorizontalPodAutoscaler and of the ScaledObject."""
_SCALED = {"web": "deployments", "db": "statefulsets"}


class Power(Part):
    """The watts fall and come back; two workloads are scaled, two autoscalers capped."""

    name = "power"
    kinds = ("plan", "scale", "cap", "state", "lease")

    def prepare(self) -> None:
        self.fed: list[tuple[float, float]] = []
        self._feed(_PLENTY)
        for name, kind in {**_SCALED, "api": "deployments", "jobs": "deployments"}.items():
            self.api.post(f"{self._apps}/{kind}", _workload(self.lane, kind, name))
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": _CAPS["api"]}
        self.api.post(self._hpas, {"metadata": {"name": "api"}, "spec": spec})
        self.api.post(self._scaled_objects, _scaled_object("jobs", _CAPS["jobs"]))

    def settings(self) -> dict[str, str]:
        member = {"min": 1, "max": _MOST, "wattsPerReplica": _EACH}
        policy = {
            "name": "sun",
            "feed": {"csv": str(self.folder / "feed.csv"), "semantics": "available", "maxAge": "2s"},
            "increase": {"window": "2s"},
            "margin": 0,
            "independents": [
                {**member, "ref": f"{self.namespace}/web"},
                {**member, "ref": f"statefulsets.apps/{self.namespace}/db"},
                {**member, "ref": f"{self.namespace}/api", "max": _CAPS["api"]},
                {**member, "ref": f"{self.namespace}/jobs", "max": _CAPS["jobs"]},
            ],
        }
        return {**super().settings(), "BALLAST_POWER__MODE": "on", "BALLAST_POWER__POLICIES": json.dumps([policy])}

    def rules(self) -> Rules:
        home = super().rules()
        return Rules(
            home.prefix,
            home.nodes,
            home.namespaces,
            watts=tuple(self.fed),
            each={f"{self.namespace}/{name}": _EACH for name in _SCALED},
            start={f"{self.namespace}/{name}": _BEFORE for name in _SCALED},
            originals={self._subject(name): cap for name, cap in _CAPS.items()},
        )

    def stimulate(self) -> None:
        self.turn += 1
        self._feed(_LITTLE if self.turn % 2 else _PLENTY)

    def calm(self) -> None:
        self.turn = 0
        self._feed(_PLENTY)

    def settled(self) -> bool:
        if any(key.startswith("power.plan.") for key in self.state()):
            return False
        counts = [self._get(f"{self._apps}/{kind}/{name}", "replicas") for name, kind in _SCALED.items()]
        caps = self.caps()
        if self.turn % 2:
            return sum(counts) * _EACH <= _LITTLE and all(caps[name] < _CAPS[name] for name in _CAPS)
        return min(counts) >= _BEFORE and caps == _CAPS

    def caps(self) -> dict[str, int]:
        return {
            "api": self._get(f"{self._hpas}/api", "maxReplicas"),
            "jobs": self._get(f"{self._scaled_objects}/jobs", "maxReplicaCount"),
        }

    def autoscalers(self) -> list[Json]:
        paths = {"api": self._hpas, "jobs": self._scaled_objects}
        return [{**self.api.get(f"{path}/{name}"), "subject": self._subject(name)} for name, path in paths.items()]

    def _subject(self, name: str) -> str:
        kind = "horizontalpodautoscalers" if name == "api" else "scaledobjects"
        return f"{kind}:{self.namespace}/{name}"

    def _get(self, path: str, field: str) -> int:
        return int(self.api.get(path)["spec"][field])

    def _feed(self, watts: int) -> None:
        """Rows for the next minutes, one a second."""
        begin = int(time.time()) - 2
        rows = "".join(f"{begin + second},{watts}\n" for second in range(_AHEAD))
        fresh = self.folder / "feed.new"
        fresh.write_text(f"time,watts\n{rows}")
        self.fed.append((time.time(), watts))
        fresh.rename(self.folder / "feed.csv")

    @property
    def _apps(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}"

    @property
    def _hpas(self) -> str:
        return f"/apis/autoscaling/v2/namespaces/{self.namespace}/horizontalpodautoscalers"

    @property
    def _scaled_objects(self) -> str:
        return f"/apis/keda.sh/v1alpha1/namespaces/{self.namespace}/scaledobjects"


def _workload(lane: str, kind: str, name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "nodeSelector": {LANE: lane}}}
    spec: dict[str, Any] = {
        "replicas": _BEFORE if name in _SCALED else 2,
        "selector": {"matchLabels": labels},
        "template": template,
    }
    if kind == "statefulsets":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"metadata": {"name": name}, "spec": spec}


def _scaled_object(name: str, most: int) -> Mapping[str, Any]:
    trigger = {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 6 * * *", "end": "0 20 * * *"}}
    spec = {"scaleTargetRef": {"name": name}, "minReplicaCount": 1, "maxReplicaCount": most, "triggers": [trigger]}
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": name}, "spec": spec}
