"""Where pods can go, held against what a real kube-scheduler says of thousands of random pods and nodes.

The scheduler asks an extender of the test about each pod, with the nodes that its own plugins have left; the extender
takes none of them, so nothing is placed. Pods with devices come in twos: the scheduler places one, and the nodes that
Ballast would move it to are held against those that the scheduler has for the other. NODE_FIT_WORLDS is the number of
worlds, of 20 nodes and 50 pods each, NODE_FIT_FIRST the seed of the first.
"""

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import yaml

from ballast.cli import files
from ballast.cli.planning.gather import supporting_objects
from ballast.placement.layout import layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast_lab.harness.api import Api, Refused
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, add_nodes, node, sweep
from ballast_lab.harness.random_devices import DEVICES, make_devices
from ballast_lab.harness.random_pods import EAGER, HOST, TESTED, ZONE, RandomPods
from ballast_lab.harness.scheduler import scheduler
from ballast_lab.harness.waiting import eventually
from tests.worlds.http_handler import AnsweringHandler

Json = dict[str, Any]

WORLDS = int(os.environ.get("NODE_FIT_WORLDS", "1"))
FIRST = int(os.environ.get("NODE_FIT_FIRST", "0"))
NODES, STANDING, PROBES, CLAIMS, NOMINATED, TWINS = 20, 60, 50, 24, 5, 4
DRIVER, OTHER = "csi.example.com", "other.example.com"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BEHIND = (
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/storage.k8s.io/v1/csinodes",
    f"{DEVICES}/resourceslices",
)
KINDS = ("ephemeral volumes", "nominated pods", "devices", "resized pods")
STRICTER = {
    "held": "a volume for one node that a pod of another node holds",
    "driver": "a node without the driver of the volume",
    "cordoned": "a cordoned node that the pod tolerates",
    "devices": "devices unlike those of the pod's own node, or others of that node claimed",
    "promised": "a node promised to a pod of lower priority",
    "shy": "a node promised to a pod that repels it, as no pod on a node does: kube-scheduler skips that filter then",
}
"""Where Ballast says no and kube-scheduler yes."""


@pytest.mark.timeout(120 + 120 * WORLDS)
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
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [{"schedulerName": TESTED}],
            "extenders": [extender],
        }
        with scheduler(cluster, yaml.safe_dump(profile)):
            for number in range(FIRST, FIRST + WORLDS):
                world = _World(cluster.api, number)
                try:
                    world.compare(asked, found, wrong)
                finally:
                    world.clear()
    print(dict(found))
    assert not wrong, "\n".join(wrong[:5])
    assert found["pairs"] + found["errors of kube-scheduler"] >= WORLDS * NODES * PROBES
    assert all(found[kind] >= 20 * (WORLDS - 1) for kind in KINDS), "one world may have no pod with devices"
    assert found["pairs"] >= WORLDS * NODES * PROBES / 2
    assert found["both"] >= found["pairs"] / 20
    assert found["missed"] <= found["pairs"] / 100


class _World:
    """Nodes, volumes and pods on nodes that do not change while the scheduler is asked."""

    def __init__(self, api: Api, number: int) -> None:
        self._api, self._number, self._dice = api, number, random.Random(number)
        self._claims: list[str] = []
        self._nominees: dict[str, int] = {}
        """The least priority of the pods that are nominated to a node."""
        self._resized, self._foreign, self._cordoned, self._shy = (set[str]() for _ in range(4))

    def compare(self, asked: dict[str, set[str]], found: Counter[str], wrong: list[str]) -> None:
        self._build()
        names = [self._name(f"probe-{n}") for n in range(PROBES)]
        twins = self._twins()
        # A scheduler that was still putting the pod aside has missed to which node it was nominated.
        for name in self._promised:
            self._api.patch(f"{PODS}/{name}", {"metadata": {"annotations": {"settled": "true"}}})
        for name in names:
            self._api.post(PODS, self._pods.probe(name))
        likes = {twin: f"like-{twin}" for twin in twins}
        for twin, like in likes.items():
            self._api.post(PODS, self._pods.with_devices(like, *twins[twin]))
        pairs = {**dict(zip(names, names, strict=True)), **likes}
        eventually("every pod was judged", lambda: self._judge(list(pairs.values())), every=0.5)
        ours = self._ours(list(pairs))
        for name, like in pairs.items():
            if name in ours:
                self._count(name, asked.get(like, set()), ours[name], found, wrong)
            else:
                found["errors of kube-scheduler"] += NODES

    def _count(
        self, name: str, theirs: set[str], ours: tuple[set[str], Json], found: Counter[str], wrong: list[str]
    ) -> None:
        """`ours` as in `_ours`; a pod that is on a node is held against the scheduler on the other nodes."""
        mine, spec = ours
        nodes = set(self._hosts) - {spec.get("nodeName")}
        theirs, mine = theirs & nodes, mine & nodes
        found["pairs"] += len(nodes)
        found["devices"] += len(nodes) if "resourceClaims" in spec else 0
        found["ephemeral volumes"] += len(nodes) if any("ephemeral" in v for v in spec.get("volumes", ())) else 0
        found["nominated pods"] += len(nodes & self._nominees.keys())
        found["resized pods"] += len(nodes & self._resized)
        found["both"] += len(theirs & mine)
        why = {host: self._stricter(host, spec) for host in theirs - mine}
        found["missed"] += len(why)
        found.update(STRICTER[each] for each in why.values() if each)
        unexplained = sorted(host for host, each in why.items() if not each)
        if mine - theirs or unexplained:
            told = f"world {self._number} {name}: better on {sorted(mine - theirs)}, worse on {unexplained}"
            wrong.append(f"{told}: {json.dumps(spec)}")

    def _stricter(self, host: str, spec: Json) -> str:
        """Why Ballast may say no of a node to which kube-scheduler says yes; empty where there is no reason."""
        volumes = spec.get("volumes", ())
        claims = {each.get("persistentVolumeClaim", {}).get("claimName") for each in volumes}
        if host in self._cordoned and any(not each.get("key") for each in spec["tolerations"]):
            return "cordoned"
        if "resourceClaims" in spec:
            return "devices"
        if self._nominees.get(host, spec["priority"]) < spec["priority"]:
            return "promised"
        if host in self._shy and "affinity" not in spec:
            return "shy"
        if claims & self._pods.held:
            return "held"
        return "driver" if volumes and host in self._foreign else ""

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
                self._foreign.add(name)
                drivers = [{"name": OTHER, "nodeID": name}]
            api.post("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": name}, "spec": {"drivers": drivers}})
            spec: Json = {}
            if dice.random() < 0.25:
                effect = dice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
                spec["taints"] = [{"key": dice.choice("tu"), "value": dice.choice("vw"), "effect": effect}]
            if dice.random() < 0.05:
                self._cordoned.add(name)
                spec["unschedulable"] = True
            if spec:
                api.patch(f"/api/v1/nodes/{name}", {"spec": spec})
        self._classes()
        for n in range(CLAIMS):
            self._claim(n)
        api.post(CLASSES, {"metadata": {"name": EAGER}, "value": 1000, "preemptionPolicy": "Never"})
        self._pods = RandomPods(dice, self._name("")[:-1], self._hosts, self._claims)
        for n in range(STANDING):
            api.post(PODS, self._pods.standing(self._name(f"p{n}")))
        eventually("the pods run", lambda: {each["status"]["phase"] for each in api.items(PODS)} == {"Running"})
        self._change()
        self._nominate()

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
            eventually("the claim is bound", lambda: self._api.get(f"{path}/{name}")["status"]["phase"] == "Bound")

    def _change(self) -> None:
        """Some pods are terminating, have succeeded, or are being resized."""
        for each in self._api.items(PODS):
            path = f"{PODS}/{each['metadata']['name']}"
            if each["metadata"].get("finalizers"):
                self._api.delete(path, {"gracePeriodSeconds": 0})
            elif self._dice.random() < 0.05:
                self._api.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})
            elif self._dice.random() < 0.25:
                self._api.patch(f"{path}/status", {"status": self._resizing(each)})
                self._resized.add(each["spec"]["nodeName"])

    def _resizing(self, pod: Json) -> Json:
        """The status of a pod, or of its containers, whose resources are not those that it asks for now."""
        dice, found = self._dice, dict[str, Any]()

        def amounts() -> Json:
            return {"cpu": f"{dice.randint(1, 20)}00m", "memory": "256Mi"}

        for key, field in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
            for each in pod["spec"].get(key, ()):
                state: Json = {"name": each["name"], "image": "none", "imageID": "none", "ready": True}
                given = amounts()
                actual = given if dice.random() < 0.5 else amounts()
                state |= {"restartCount": 0, "allocatedResources": given, "resources": {"requests": actual}}
                found[field] = [state]
        if "resources" in pod["spec"]:
            found |= {"allocatedResources": amounts(), "resources": {"requests": amounts()}}
        if dice.random() < 0.3:
            found["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
        return found

    def _nominate(self) -> None:
        """Pods that wait for room on a node that they are promised to."""
        names = [self._name(f"nominated-{n}") for n in range(NOMINATED)]
        for name in names:
            self._api.post(PODS, self._pods.nominated(name))
        eventually("they wait", lambda: self._judge(names), every=0.2)
        for name in names:
            host = self._dice.choice(self._hosts)
            made = self._api.patch(f"{PODS}/{name}/status", {"status": {"nominatedNodeName": host}})
            self._shy |= {host} if "affinity" in made["spec"] else set()
            priority = made["spec"]["priority"]
            self._nominees[host] = min(priority, self._nominees.get(host, priority))
        self._promised = names

    def _twins(self) -> dict[str, tuple[str, str]]:
        """Pods that were given devices: of each its claim template and its label `app`."""
        dice, api = self._dice, self._api
        templates = make_devices(api, dice, self._name("")[:-1], dice.sample(self._hosts, 10))
        made = {}
        for n in range(TWINS):
            name = self._name(f"twin-{n}")
            made[name] = (dice.choice(templates), dice.choice("xyz"))
            api.post(PODS, self._pods.with_devices(name, *made[name]))
        eventually("they were tried", lambda: self._tried(made), every=0.5)
        there = {each["metadata"]["name"] for each in api.items(PODS) if each["spec"].get("nodeName")}
        for name in made.keys() - there:
            api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        return {name: each for name, each in made.items() if name in there}

    def _tried(self, names: Iterable[str]) -> bool:
        placed = {each["metadata"]["name"] for each in self._api.items(PODS) if each["status"]["phase"] == "Running"}
        return self._judge([name for name in names if name not in placed])

    def _judge(self, names: list[str]) -> bool:
        judged = set()
        for each in self._api.items(PODS):
            conditions = each["status"].get("conditions") or ()
            no = (c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False")
            if any("waiting for" not in c["message"] for c in no):
                judged.add(each["metadata"]["name"])
        return judged >= set(names)

    def _ours(self, names: list[str]) -> dict[str, tuple[set[str], Json]]:
        """Of each pod where it can go, and its spec."""
        paths = ("/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/api/v1/persistentvolumeclaims", *BEHIND)
        document = {"kind": "List", "items": [self._api.get(path) for path in paths]}
        behind = supporting_objects(read := files.cluster(document), "cluster", lambda key: True)
        arranged = layout(read.nodes, read.pods, (), np.zeros((len(read.nodes), 0)))
        standing = SimulatedPlacement(
            arranged,
            targets=np.ones(len(arranged.nodes), bool),
            ceiling=np.inf,
            namespaces={each.name: each.labels for each in behind.namespaces},
            attachments=behind.attachments,
        )
        specs = {each["metadata"]["name"]: each["spec"] for each in self._api.items(PODS)}
        rows = {each.name: row for row, each in enumerate(arranged.pods) if each.name in names}
        places = {name: np.flatnonzero(standing.feasible(row)).tolist() for name, row in rows.items()}
        return {name: ({arranged.nodes[at].name for at in there}, specs[name]) for name, there in places.items()}

    def clear(self) -> None:
        """Pods first: they hold the claims."""
        for each in self._api.items(PODS):
            if each["metadata"].get("finalizers"):
                self._api.patch(f"{PODS}/{each['metadata']['name']}", {"metadata": {"finalizers": None}})
        self._api.delete(PODS, {"gracePeriodSeconds": 0})
        for path in (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            *BEHIND,
            f"{DEVICES}/namespaces/default/resourceclaimtemplates",
            f"{DEVICES}/deviceclasses",
        ):
            with suppress(Refused):
                self._api.delete(path, {"gracePeriodSeconds": 0})
        self._api.raw("DELETE", f"{CLASSES}/{EAGER}")
        sweep(self._api)


@contextmanager
def _asked() -> Iterator[tuple[str, dict[str, set[str]]]]:
    """The address of an extender that takes no node but for twins; by pod the nodes that it was first asked about."""
    seen: dict[str, set[str]] = {}

    class Answer(AnsweringHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = {key.lower(): value for key, value in asked.items()}
            names = body.get("nodenames") or []
            name = body["pod"]["metadata"]["name"]
            seen.setdefault(name, set(names))
            twin = "-twin-" in name and not name.startswith("like-")
            taken = {"nodenames": names} if twin else {"nodenames": [], "failedNodes": dict.fromkeys(names, "asked")}
            self.answer(json.dumps(taken).encode())

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
