"""Two Deployments behind a simulated API, a feed in its Prometheus, and a daemon that ticks by hand."""

import json
from typing import Any

from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.daemons import Rig

DEPLOYMENT, AUTOSCALER = BY_NAME["Deployment"], BY_NAME["HorizontalPodAutoscaler"]
FULL = 1000.0
SIDE = {"window": "60s", "tolerance": 0.04}
FEED = {"query": "simulated_power_watts", "semantics": "available"}
TARGETS = ("plant/one", "plant/two")


def policy(**keys: Any) -> dict[str, Any]:
    """Two Deployments of ten replicas; windows of two ticks."""
    members = [{"ref": name, "min": 2, "max": 30} for name in TARGETS]
    return {"name": "sun", "feed": FEED, "increase": SIDE, "decrease": SIDE, "independents": members, **keys}


class Plant:
    """A rig whose feed and targets the test holds in its hands."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.faults = rig.faults
        rig.cluster.resources.create(BY_NAME["Namespace"], "", {"metadata": {"name": "plant"}})
        for name in TARGETS:
            self.deploy(name)
        self.power(FULL)

    def deploy(self, name: str, replicas: int = 10) -> None:
        namespace, _, own = name.partition("/")
        labels = {"app": own}
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        body = {"metadata": {"name": own, "namespace": namespace}, "spec": spec}
        self.rig.cluster.resources.create(DEPLOYMENT, namespace, body)

    def power(self, watts: float) -> None:
        self.faults.power_level(watts)

    def counts(self, *names: str) -> dict[str, int]:
        found = {}
        for name in names or TARGETS:
            namespace, _, own = name.partition("/")
            found[name] = self.rig.cluster.resources.get(DEPLOYMENT, namespace, own).read()["spec"]["replicas"]
        return found

    def scale(self, name: str, replicas: int) -> None:
        namespace, _, own = name.partition("/")
        self.rig.cluster.resources.update(
            DEPLOYMENT, namespace, own, lambda one: {**one, "spec": {**one["spec"], "replicas": replicas}}
        )

    def autoscale(self, name: str, *, most: int) -> None:
        namespace, _, own = name.partition("/")
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": own}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": most}
        self.rig.cluster.resources.create(AUTOSCALER, namespace, {"metadata": {"name": own}, "spec": spec})

    def cap(self, name: str) -> int:
        namespace, _, own = name.partition("/")
        found: int = self.rig.cluster.resources.get(AUTOSCALER, namespace, own).read()["spec"]["maxReplicas"]
        return found

    def annotate(self, name: str, **annotations: str | None) -> None:
        namespace, _, own = name.partition("/")
        keys = {f"ballast.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        patch = {"metadata": {"annotations": keys}}
        self.rig.cluster.resources.patch(DEPLOYMENT, namespace, own, "application/merge-patch+json", patch)

    def daemon(self, *policies: dict[str, Any], mode: str = "on", acting: bool = True, **more: str) -> Daemon:
        """A leader; `acting`: it has taken its baseline."""
        path = self.rig.folder / "ballast.yaml"
        path.write_text(json.dumps({"power": {"policies": list(policies or (policy(),))}}))
        daemon = self.rig.daemon(CONFIG_FILE=str(path), POWER__MODE=mode, PUBLISHING__MODE="off", **more)
        assert daemon.context.workloads.wait_synced(HUNG)
        if acting:
            self.ticks(daemon, 3)
        return daemon

    def tick(self, daemon: Daemon) -> str:
        """One interval later, once the daemon sees the workloads as they are."""
        self.rig.advance()
        until(lambda: self._seen(daemon), "the cache to catch up")
        return daemon.scheduler.run("power").sentence

    def ticks(self, daemon: Daemon, times: int) -> str:
        for _ in range(times):
            sentence = self.tick(daemon)
        return sentence

    def _seen(self, daemon: Daemon) -> bool:
        stored = self.rig.cluster.store.all(DEPLOYMENT, "plant")
        seen = {
            name: daemon.context.workloads.workload("Deployment", "plant", name)
            for name in (one.name for one in stored)
        }
        return all(found is not None for found in seen.values()) and all(
            int(found.version) >= one.revision for one in stored if (found := seen[one.name]) is not None
        )

    def writes(self) -> dict[str, int]:
        return {kind: count for kind, count in self.rig.patches().items() if kind not in ("leases", "events")}
