"""Where pods can go, held against what a real kube-scheduler says of thousands of random pods and nodes.

The scheduler asks an extender of the test about each pod, with the nodes that its own plugins have left; the extender
takes none of them, so nothing is placed. NODE_FIT_WORLDS is the number of worlds, of 20 nodes and 50 pods each.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import yaml

from ballast.cli import files
from ballast.cli.supporting_objects import supporting_objects
from ballast.placement.planners.layout import layout
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from tests.cluster.harness.api import Api, Refused
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.objects import PODS, add_nodes, node, pod, sweep
from tests.cluster.harness.scheduler import scheduler
from tests.cluster.harness.waiting import eventually
from tests.http_answers import AnsweringHandler

Json = dict[str, Any]

WORLDS = int(os.environ.get("NODE_FIT_WORLDS", "1"))
NODES, STANDING, PROBES, CLAIMS = 20, 60, 50, 24
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER, OTHER = "csi.example.com", "other.example.com"
STRICTER = {
    "held": "a volume for one node that a pod of another node holds",
    "driver": "a node without the driver of the volume",
    "cordoned": "a cordoned node that the pod tolerates",
}
"""Where Ballast says no and kube-scheduler yes."""


@pytest.mark.timeout(120 + 60 * WORLDS)
def test_node_fit_is_never_better_than_kube_scheduler(cluster: ControlPlane) -> None:
    found: Counter[str] = Counter()
    wrong: list[str] = []
    with _asked() as (url, asked):
        extender = {
            "urlPrefix": url,
            "filterVerb": "filter",
            "nodeCacheCapable": True,
            "weight": 1,
            "httpTimeout": "30s",
        }
        profile: Json = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "podInitialBackoffSeconds": 60,
            "podMaxBackoffSeconds": 60,
            "profiles": [{"schedulerName": "fuzz"}],
            "extenders": [extender],
        }
        with scheduler(cluster, yaml.safe_dump(profile)):
            for number in range(WORLDS):
                world = _World(cluster.api, number)
                try:
                    world.compare(asked, found, wrong)
                finally:
                    world.clear()
    print(dict(found))
    assert not wrong, "\n".join(wrong[:5])
    assert found["pairs"] + found["errors of kube-scheduler"] == WORLDS * NODES * PROBES
    assert found["pairs"] >= WORLDS * NODES * PROBES / 2
    assert found["both"] >= found["pairs"] / 20
    assert found["missed"] <= found["pairs"] / 100


class _World:
    """Nodes, volumes and pods on nodes that do not change while the scheduler is asked."""

    def __init__(self, api: Api, number: int) -> None:
        self._api, self._number, self._dice = api, number, random.Random(number)
        self._claims: list[str] = []
        self._held: set[str] = set()

    def compare(self, asked: dict[str, set[str]], found: Counter[str], wrong: list[str]) -> None:
        self._build()
        names = [self._name(f"probe-{n}") for n in range(PROBES)]
        for name in names:
            self._api.post(PODS, self._probe(name))
        eventually("every pod was judged", lambda: self._judge(names), within=120, every=0.5)
        ours = self._ours(names)
        for name in names:
            if name not in ours:
                found["errors of kube-scheduler"] += NODES
                continue
            theirs, mine = asked.get(name, set()), ours[name][0]
            found["pairs"] += NODES
            found["both"] += len(theirs & mine)
            found["missed"] += len(theirs - mine)
            if theirs - mine:
                found[f"missed: {ours[name][1]}"] += len(theirs - mine)
            if mine - theirs:
                wrong.append(f"world {self._number} {name}: {sorted(mine - theirs)} {json.dumps(ours[name][2])}")

    def _name(self, name: str) -> str:
        return f"w{self._number}-{name}"

    def _build(self) -> None:
        dice, api = self._dice, self._api
        nodes = [self._node(n) for n in range(NODES)]
        add_nodes(api, nodes)
        self._hosts = [each["metadata"]["name"] for each in nodes]
        for name in self._hosts:
            drivers = [{"name": DRIVER, "nodeID": name, "allocatable": {"count": dice.randint(1, 3)}}]
            if dice.random() < 0.02:
                drivers = [{"name": OTHER, "nodeID": name}]
            api.post("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": name}, "spec": {"drivers": drivers}})
            spec: Json = {}
            if dice.random() < 0.25:
                effect = dice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
                spec["taints"] = [{"key": dice.choice("tu"), "value": dice.choice("vw"), "effect": effect}]
            if dice.random() < 0.05:
                spec["unschedulable"] = True
            if spec:
                api.patch(f"/api/v1/nodes/{name}", {"spec": spec})
        self._classes()
        for n in range(CLAIMS):
            self._claim(n)
        for n in range(STANDING):
            api.post(PODS, self._standing(n))
        eventually("the pods run", lambda: self._running(), within=60, every=0.5)
        self._change()

    def _node(self, n: int) -> Json:
        dice = self._dice
        labels = {"disk": dice.choice(("fast", "slow")), "cores": str(dice.randint(1, 9))}
        if dice.random() < 0.9:
            labels[ZONE] = dice.choice("abc")
        if dice.random() < 0.8:
            labels["rack"] = dice.choice("rst")
        return node(
            self._name(f"n{n}"), cpu=str(dice.randint(2, 8)), memory="8Gi", pods=dice.choice((4, 110)), labels=labels
        )

    def _classes(self) -> None:
        for name, mode, zones in (
            ("late", "WaitForFirstConsumer", None),
            ("now", "Immediate", None),
            ("late-a", "WaitForFirstConsumer", ["a"]),
        ):
            body: Json = {"metadata": {"name": self._name(name)}, "provisioner": DRIVER, "volumeBindingMode": mode}
            if zones:
                body["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
            self._api.post("/apis/storage.k8s.io/v1/storageclasses", body)

    def _claim(self, n: int) -> None:
        """Bound to a volume, or waiting for its first pod, or never bound."""
        dice, name = self._dice, self._name(f"c{n}")
        self._claims.append(name)
        modes = [dice.choice(("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"))]
        spec: Json = {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}}
        kind = dice.choice(("any", "any", "local", "zone", "label", "late", "late-a", "now"))
        if kind in ("late", "late-a", "now"):
            spec["storageClassName"] = self._name(kind)
        else:
            volume: Json = {
                "accessModes": modes,
                "capacity": {"storage": "1Gi"},
                "csi": {"driver": DRIVER, "volumeHandle": name},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
                "persistentVolumeReclaimPolicy": "Retain",
            }
            values = dice.sample(self._hosts, 4) if kind == "local" else dice.sample("abc", 2)
            term = {"key": HOST if kind == "local" else ZONE, "operator": "In", "values": list(values)}
            if kind in ("local", "zone"):
                volume["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
            labels = {ZONE: "__".join(values)} if kind == "label" else {}
            self._api.post("/api/v1/persistentvolumes", {"metadata": {"name": name, "labels": labels}, "spec": volume})
            spec |= {"storageClassName": "", "volumeName": name}
        path = "/api/v1/namespaces/default/persistentvolumeclaims"
        self._api.post(path, {"metadata": {"name": name}, "spec": spec})
        if "volumeName" in spec:
            eventually(
                "the claim is bound", lambda: self._api.get(f"{path}/{name}")["status"]["phase"] == "Bound", within=60
            )

    def _standing(self, n: int) -> Json:
        dice = self._dice
        found = pod(self._name(f"p{n}"), cpu=f"{dice.randint(1, 9)}00m", nodeName=dice.choice(self._hosts))
        found["metadata"]["labels"] = {"app": dice.choice("xyz"), "version": dice.choice("12")}
        spec = found["spec"]
        if dice.random() < 0.1:
            spec["containers"][0]["ports"] = [self._port()]
        if dice.random() < 0.15:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [self._term()]}}
        if dice.random() < 0.2:
            claim = dice.choice(self._claims)
            self._held.add(claim)
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        if dice.random() < 0.15:
            found["metadata"]["finalizers"] = ["example.com/stays"]
        return found

    def _running(self) -> bool:
        return all(each["status"]["phase"] == "Running" for each in self._api.items(PODS))

    def _change(self) -> None:
        """Some pods are terminating, have succeeded, or are being resized."""
        for each in self._api.items(PODS):
            path = f"{PODS}/{each['metadata']['name']}"
            if each["metadata"].get("finalizers"):
                self._api.delete(path, {"gracePeriodSeconds": 0})
            elif self._dice.random() < 0.05:
                self._api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
            elif self._dice.random() < 0.15:
                given = {"cpu": f"{self._dice.randint(1, 20)}00m", "memory": "256Mi"}
                state: Json = {"name": "main", "image": "none", "imageID": "none", "ready": True, "restartCount": 0}
                state |= {"allocatedResources": given, "resources": {"requests": given}}
                self._api.patch(f"{path}/status", {"status": {"containerStatuses": [state]}})

    def _probe(self, name: str) -> Json:
        dice = self._dice
        found = pod(name, cpu=f"{dice.randint(1, 15)}00m", scheduler="fuzz")
        found["metadata"]["labels"] = {"app": dice.choice("xyz"), "version": dice.choice("12")}
        spec = found["spec"]
        affinity: Json = {}
        if dice.random() < 0.15:
            spec["nodeSelector"] = {"disk": "fast"}
        if dice.random() < 0.2:
            terms = [{"matchExpressions": [self._requirement()]} for _ in range(dice.randint(1, 2))]
            affinity["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        for kind, chance in (("podAffinity", 0.15), ("podAntiAffinity", 0.25)):
            if dice.random() < chance:
                terms = [self._term() for _ in range(dice.randint(1, 2))]
                affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        if affinity:
            spec["affinity"] = affinity
        if dice.random() < 0.3:
            keys = dice.sample((ZONE, "rack", HOST), dice.randint(1, 2))
            spec["topologySpreadConstraints"] = [self._spread(key) for key in keys]
        if dice.random() < 0.3:
            spec["tolerations"] = [self._toleration()]
        if dice.random() < 0.15:
            spec["containers"][0]["ports"] = [self._port()]
        if dice.random() < 0.4:
            free = [claim for claim in self._claims if claim not in self._held or dice.random() < 0.1]
            chosen = dice.sample(free, min(len(free), dice.randint(1, 2)))
            if dice.random() < 0.05:
                chosen = ["missing"]
            spec["volumes"] = [
                {"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}} for n, claim in enumerate(chosen)
            ]
        return found

    def _requirement(self) -> Json:
        dice = self._dice
        operator = dice.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in ("Gt", "Lt"):
            return {"key": "cores", "operator": operator, "values": [str(dice.randint(1, 9))]}
        key = dice.choice((ZONE, "rack"))
        values = {"values": dice.sample("abcrst", 2)} if operator in ("In", "NotIn") else {}
        return {"key": key, "operator": operator, **values}

    def _term(self) -> Json:
        dice = self._dice
        term: Json = {
            "topologyKey": dice.choice((ZONE, "rack", HOST, HOST)),
            "labelSelector": {"matchLabels": {"app": dice.choice("xyz")}},
        }
        if dice.random() < 0.2:
            term[dice.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
        if dice.random() < 0.2:
            term |= dice.choice(({"namespaceSelector": {}}, {"namespaces": ["elsewhere"]}))
        return term

    def _spread(self, key: str) -> Json:
        dice = self._dice
        found: Json = {
            "maxSkew": dice.randint(1, 4),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": dice.choice("xyz")}},
        }
        if dice.random() < 0.2:
            found["minDomains"] = dice.randint(1, 4)
        if dice.random() < 0.2:
            found["matchLabelKeys"] = ["version"]
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if dice.random() < 0.3:
                found[policy] = dice.choice(("Honor", "Ignore"))
        return found

    def _toleration(self) -> Json:
        dice = self._dice
        if dice.random() < 0.15:
            return {"operator": "Exists"}
        effect = dice.choice(({}, {"effect": "NoSchedule"}))
        operator = dice.choice(({"operator": "Exists"}, {"operator": "Equal", "value": dice.choice("vw")}))
        return {"key": dice.choice("tu"), **operator, **effect}

    def _port(self) -> Json:
        address = self._dice.choice(({}, {"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}))
        return {"containerPort": 80, "hostPort": self._dice.choice((80, 81)), **address}

    def _judge(self, names: list[str]) -> bool:
        judged = set()
        for each in self._api.items(PODS):
            conditions = each["status"].get("conditions") or ()
            if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions):
                judged.add(each["metadata"]["name"])
        missing = set(names) - judged
        assert not missing, f"not judged: {sorted(missing)}"
        return True

    def _ours(self, names: list[str]) -> dict[str, tuple[set[str], str, Json]]:
        """Of each pod where it can go, why Ballast may be stricter there, and what the pod asks for."""
        paths = (
            "/api/v1/nodes",
            "/api/v1/pods",
            "/api/v1/namespaces",
            "/api/v1/persistentvolumes",
            "/api/v1/persistentvolumeclaims",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes",
        )
        document = {"kind": "List", "items": [self._api.get(path) for path in paths]}
        read = files.cluster(document)
        behind = supporting_objects(read, "cluster", lambda key: True)
        arranged = layout(read.nodes, read.pods, (), np.zeros((len(read.nodes), 0)))
        standing = SimulatedPlacement(
            arranged,
            targets=np.ones(len(arranged.nodes), bool),
            ceiling=np.inf,
            namespaces={each.name: each.labels for each in behind.namespaces},
            attachments=behind.attachments,
        )
        raw = {each["metadata"]["name"]: each["spec"] for each in self._api.items(PODS)}
        found = {}
        for row, each in enumerate(arranged.pods):
            if each.name in names:
                mask = standing.feasible(row)
                fits = {host.name for host, fit in zip(arranged.nodes, mask.tolist(), strict=True) if fit}
                held = any(claim in self._held for _, claim in each.template.claims)
                everything = any(not t.key for t in each.template.tolerations)
                why = "held" if held else "cordoned" if everything else "driver" if each.template.claims else "?"
                found[each.name] = (fits, STRICTER.get(why, why), raw[each.name])
        return found

    def clear(self) -> None:
        """Pods first: they hold the claims."""
        for each in self._api.items(PODS):
            if each["metadata"].get("finalizers"):
                self._api.patch(f"{PODS}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
        self._api.delete(PODS, {"gracePeriodSeconds": 0})
        for path in (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes",
        ):
            with suppress(Refused):
                self._api.delete(path, {"gracePeriodSeconds": 0})
        sweep(self._api)


@contextmanager
def _asked() -> Iterator[tuple[str, dict[str, set[str]]]]:
    """The address of an extender that takes no node, and by pod the nodes that it was first asked about."""
    seen: dict[str, set[str]] = {}

    class Answer(AnsweringHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = {key.lower(): value for key, value in asked.items()}
            names = body.get("nodenames") or []
            seen.setdefault(body["pod"]["metadata"]["name"], set(names))
            answer = json.dumps({"nodenames": [], "failedNodes": dict.fromkeys(names, "asked")}).encode()
            self.answer(answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
