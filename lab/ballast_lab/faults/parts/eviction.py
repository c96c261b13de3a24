"""Evictions, written down, limited, and with the taint that keeps replacements away."""

from __future__ import annotations

from ballast_lab.faults.judge import Rules
from ballast_lab.faults.parts.part import LANE, Part
from ballast_lab.harness.api import Json
from ballast_lab.harness.evicting import budget, deployment, is_ready
from ballast_lab.harness.waiting import eventually

_SLOT = "slot"
_REPLICAS = 2
_RATE = (8, 30)
_PER_WORKLOAD = (4, 15)


class Eviction(Part):
    """The nodes that the pods ask for become others: `repair` moves them, one at a time."""

    name = "eviction"
    kinds = ("plan", "taint", "eviction", "state", "lease")
    count = 4
    _deployed = 0

    def manifests(self) -> list[Json]:
        made = super().manifests()
        for number, each in enumerate(made):
            each["metadata"]["labels"][_SLOT] = "in" if number < 2 else "out"
        return made

    def settings(self) -> dict[str, str]:
        return {
            **super().settings(),
            "BALLAST_EVICTION__MODE": "on",
            "BALLAST_EVICTION__PLANNERS": "repair",
            "BALLAST_EVICTION__INTERVAL": "1s",
            "BALLAST_EVICTION__LANDING": "taint",
            "BALLAST_EVICTION__CONFIDENCE": "0",
            "BALLAST_EVICTION__PRICE": "0",
            "BALLAST_EVICTION__RATE": f"{_RATE[0]}/{_RATE[1]}s",
            "BALLAST_EVICTION__LIMIT_WORKLOAD": str(_PER_WORKLOAD[0]),
            "BALLAST_EVICTION__WORKLOAD_WINDOW": f"{_PER_WORKLOAD[1]}s",
            "BALLAST_EVICTION__MAX_MOVES": "4",
            **{f"BALLAST_EVICTION__LIMIT_{what}": "0" for what in ("TOTAL", "NODE", "NAMESPACE")},
            **{f"BALLAST_EVICTION__{what}": "0s" for what in ("COOLDOWN", "MIN_POD_AGE", "MIN_NODE_AGE")},
            "BALLAST_EVICTION__QUIET_AFTER_SCALE": "0s",
            "BALLAST_EVICTION__MAX_UNAVAILABLE": "1",
        }

    def rules(self) -> Rules:
        home = super().rules()
        return Rules(home.prefix, home.nodes, home.namespaces, rate=_RATE, per_workload=_PER_WORKLOAD)

    def prepare(self) -> None:
        self._deploy()
        path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets"
        self.api.post(path, budget("all", "", selector={}, minAvailable=_REPLICAS - 1))

    def stimulate(self) -> None:
        """With a new workload: one that was moved to its limit twice is left alone for a day, and so is a pod whose
        eviction was written down and never sent.
        """
        self.api.delete(self._deployments)
        self.api.delete(self._pods, {"gracePeriodSeconds": 0})
        self._deploy()
        eventually("all pods are new and Ready", self._fresh, every=0.3)
        self.turn += 1
        for number, name in enumerate(self.nodes):
            slot = "in" if (number < 2) == (self.turn % 2 == 0) else "out"
            self.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {_SLOT: slot}}})

    def calm(self) -> None:
        """Where the pods are is as good as anywhere."""

    def settled(self) -> bool:
        state = self.state()
        if "eviction.plan" in state or not self._fresh(state.get("eviction.history", "")):
            return False
        nodes = [self.api.get(f"/api/v1/nodes/{name}") for name in self.nodes]
        return not any(each["spec"].get("taints") for each in nodes)

    def _fresh(self, known: str = "") -> bool:
        """Whether all pods are Ready, and where they belong unless their eviction is `known`."""
        wanted = self.nodes[:2] if self.turn % 2 == 0 else self.nodes[2:]
        pods = self.api.items(self._pods)
        return len(pods) == _REPLICAS and all(
            pod["metadata"]["labels"]["app"] == self._app
            and is_ready(pod)
            and (pod["spec"]["nodeName"] in wanted or pod["metadata"]["uid"] in known)
            for pod in pods
        )

    def _deploy(self) -> None:
        self._deployed += 1
        chosen = {LANE: self.lane, _SLOT: "in"}
        made = deployment(self._app, _REPLICAS, cpu="1m", memory="1Mi", nodeSelector=chosen)
        self.api.post(self._deployments, made)

    @property
    def _app(self) -> str:
        return f"web-{self._deployed}"

    @property
    def _deployments(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"
