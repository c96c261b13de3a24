"""An absolute budget on a real control plane: whoever changes what, the load stays within the watts."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ballast_lab.harness.api import Api
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually, throughout

CORE = "/api/v1/namespaces/default"
APPS = "/apis/apps/v1/namespaces/default"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/ballast"
EACH = 10
"""Watts of a replica."""
AHEAD = 600
"""Seconds for which a feed is written beforehand, a row each second."""


@dataclass
class Site:
    """Deployments in a cluster that runs their pods, and a feed in a file."""

    cluster: ControlPlane
    folder: Path
    stack: ExitStack

    @property
    def api(self) -> Api:
        return self.cluster.api

    def watts(self, watts: int) -> None:
        begin = int(time.time()) - 2
        rows = "".join(f"{begin + second},{watts}\n" for second in range(AHEAD))
        fresh = self.folder / "feed.new"
        fresh.write_text(f"time,watts\n{rows}")
        fresh.rename(self.folder / "feed.csv")

    def deployment(self, name: str, replicas: int, **spec: Any) -> None:
        labels = {"app": name}
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        self.api.post(f"{APPS}/deployments", {"metadata": {"name": name}, "spec": body})

    def autoscaler(self, name: str, most: int) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": most}
        self.api.post(HPAS, {"metadata": {"name": name}, "spec": spec})

    def scale(self, name: str, replicas: int) -> None:
        self.api.patch(f"{APPS}/deployments/{name}/scale", {"spec": {"replicas": replicas}})

    def replicas(self, *names: str) -> int:
        return sum(self.api.get(f"{APPS}/deployments/{name}")["spec"]["replicas"] for name in names)

    def caps(self, *names: str) -> list[int]:
        return [self.api.get(f"{HPAS}/{name}")["spec"]["maxReplicas"] for name in names]

    def running(self, name: str) -> int:
        pods = self.api.items(f"{CORE}/pods")
        mine = (pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == name)
        return sum(pod["status"].get("phase") == "Running" for pod in mine)

    def follow(self, *members: dict[str, Any], **keys: Any) -> Daemon:
        policy = {
            "name": "sun",
            "feed": {"csv": str(self.folder / "feed.csv"), "semantics": "available"},
            "increase": {"window": "2s"},
            "margin": 0,
            "independents": [
                {"min": 1, "max": 40, "wattsPerReplica": EACH, **each, "ref": f"default/{each['ref']}"}
                for each in members
            ],
            **keys,
        }
        config = self.folder / "ballast.yaml"
        config.write_text(json.dumps({"power": {"policies": [policy]}}))
        settings = {
            **FAST,
            "BALLAST_PROMETHEUS__URL": "http://127.0.0.1:9",
            "BALLAST_PUBLISHING__MODE": "off",
            "BALLAST_EVICTION__MODE": "off",
            "BALLAST_POWER__MODE": "on",
            "BALLAST_LEASE__NAMESPACE": "default",
            "BALLAST_CONFIG_FILE": str(config),
        }
        daemon = Daemon(self.cluster, "budget", self.cluster.admin_kubeconfig, settings)
        return self.stack.enter_context(daemon)


@pytest.fixture
def site(cluster: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    add_nodes(cluster.api, [node(f"n{number}") for number in range(2)])
    with ExitStack() as stack:
        stack.enter_context(scheduler(cluster, STOCK))
        stack.callback(_remove, cluster.api)
        yield Site(cluster, tmp_path, stack)


def test_both_autoscalers_are_capped_in_a_shortage_and_free_when_the_watts_are_back(site: Site) -> None:
    for name, replicas in (("a", 20), ("b", 1)):
        site.deployment(name, replicas)
        site.autoscaler(name, 40)
    site.watts(1000)
    site.follow({"ref": "a"}, {"ref": "b"})
    throughout("nobody is capped at first", lambda: site.caps("a", "b") == [40, 40], seconds=4)
    site.watts(500)
    eventually("both are capped", lambda: sum(site.caps("a", "b")) <= 50)
    site.scale("b", 39)
    eventually("the load is within the watts again", lambda: site.replicas("a", "b") <= 50)
    throughout("and stays there", lambda: site.replicas("a", "b") <= 50, seconds=5)

    site.scale("a", 5)
    site.watts(300)
    eventually("a cloud caps them further", lambda: sum(site.caps("a", "b")) <= 30)
    site.watts(1000)
    eventually("nobody is starved afterwards", lambda: site.caps("a", "b") == [40, 40])


def test_a_reset_or_re_created_workload_at_night_is_trimmed(site: Site) -> None:
    site.deployment("web", 10)
    site.deployment("other", 10)
    site.watts(200)
    site.follow({"ref": "web"}, {"ref": "other"})
    site.watts(120)
    eventually("night", lambda: site.replicas("web", "other") == 12)
    site.watts(60)
    eventually("deep night", lambda: site.replicas("web", "other") == 6)
    site.scale("web", 10)
    eventually("a reset is trimmed", lambda: site.replicas("web", "other") <= 6)
    site.api.delete(f"{APPS}/deployments/web")
    eventually("it is gone", lambda: not site.running("web"))
    site.deployment("web", 10)
    eventually("so is a workload that is created again", lambda: site.replicas("web", "other") <= 6)
    site.watts(200)
    eventually("the morning brings what the watts carry", lambda: site.replicas("web", "other") == 20)
    throughout("and no more", lambda: site.replicas("web", "other") == 20, seconds=4)


def test_what_someone_stops_and_starts_again_is_not_stopped_by_enforcement(site: Site) -> None:
    site.deployment("web", 10)
    site.watts(200)
    site.follow({"ref": "web", "min": 2}, onForeignChange="enforce")
    eventually("pods run", lambda: site.running("web") == 10)
    site.scale("web", 0)
    throughout("a stop is left alone", lambda: site.replicas("web") == 0, seconds=5)
    site.scale("web", 5)
    throughout("a start too", lambda: site.replicas("web") >= 2, seconds=8)


def test_pods_that_a_quota_forbids_hand_on_their_watts(site: Site) -> None:
    site.api.post(f"{CORE}/resourcequotas", {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "24"}}})
    few = f"{CORE}/resourcequotas/few"
    eventually("the quota is in force", lambda: site.api.get(few)["status"].get("used"))
    site.deployment("web", 6)
    site.deployment("other", 4)
    site.watts(100)
    daemon = site.follow({"ref": "web", "priority": 1, "max": 60}, {"ref": "other", "max": 8})
    eventually("pods run", lambda: site.running("web") + site.running("other") == 10)
    site.watts(500)
    eventually("it asks for no more than can be created", lambda: 6 < site.replicas("web") <= 20)
    eventually("the other has its part", lambda: "default/other 4 → 8" in daemon.log.read_text())
    site.watts(100)
    eventually("and all fall by what they have", lambda: site.replicas("web", "other") <= 10)


def test_a_rollout_that_does_not_end_blocks_no_reduction(site: Site) -> None:
    site.deployment("web", 10)
    site.deployment("other", 10)
    site.watts(200)
    daemon = site.follow({"ref": "web"}, {"ref": "other"})
    eventually("pods run", lambda: site.running("web") + site.running("other") == 20)
    stuck = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "nowhere"}}}}}
    site.api.patch(f"{APPS}/deployments/web", stuck)
    site.watts(80)
    eventually("both give", lambda: site.replicas("web", "other") <= 8)
    assert site.replicas("other") > 1
    targets = {each["ref"]: each for each in daemon.get("/api/v1/power").json()["policies"][0]["targets"]}
    assert targets["default/web"]["problem"]


def _remove(api: Api) -> None:
    for path in (HPAS, f"{APPS}/deployments", f"{CORE}/resourcequotas"):
        api.raw("DELETE", path, {"propagationPolicy": "Background"})
    for path in (f"{CORE}/configmaps/ballast-state", LEASE):
        api.raw("DELETE", path)
    eventually("no replicas are left", lambda: not api.items(f"{APPS}/replicasets"))
