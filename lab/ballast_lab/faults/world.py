"""The control plane with everything the lanes need."""

from __future__ import annotations

import base64
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from ballast_lab.faults.events import POLICY
from ballast_lab.faults.faults import APISERVER, ETCD, SLOW_ETCD, Shared
from ballast_lab.faults.lane import Lane
from ballast_lab.faults.nursery import Nursery
from ballast_lab.faults.parts.registry import PARTS
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually
from tests.worlds.keda import CRD

_PULSE, _PULSES = 0.2, 15
"""Seconds for which etcd works, then rests four times as long, and how often."""


@dataclass
class World:
    plane: ControlPlane
    lanes: Sequence[Lane]

    def happen(self, fault: Shared) -> None:
        """What hits everybody, from its beginning until the API server answers again."""
        if fault is ETCD:
            self._compact()
            self.plane.etcd.kill()
            self.plane.etcd.start()
        if fault is APISERVER:
            self.plane.apiserver.kill()
            self.plane.apiserver.start()
        if fault is SLOW_ETCD:
            for _ in range(_PULSES):
                self.plane.etcd.signal(signal.SIGSTOP)
                time.sleep(4 * _PULSE)
                self.plane.etcd.signal(signal.SIGCONT)
                time.sleep(_PULSE)
        eventually("the API server answers", self.plane.api.ready, every=0.2)

    def _compact(self) -> None:
        url = f"{self.plane.etcd_url}/v3/kv"
        with requests.Session() as session:
            session.trust_env = False
            key = base64.b64encode(b"/").decode()
            found = session.post(f"{url}/range", json={"key": key}, timeout=10).json()
            revision = found["header"]["revision"]
            session.post(f"{url}/compaction", json={"revision": revision, "physical": True}, timeout=10)


@contextmanager
def world(folder: Path, parts: Sequence[str], seed: int) -> Iterator[World]:
    """A lane for each name of a part."""
    tools = Tools.find()
    with ExitStack() as stack:
        nursery = Nursery()
        stack.callback(nursery.stop)
        plane = ControlPlane(tools, folder, audit_policy=POLICY)
        stack.callback(plane.stop)
        body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **CRD}
        plane.api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        path = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
        eventually("ScaledObjects are served", lambda: plane.api.raw("GET", path).status_code == 200)
        stack.enter_context(scheduler(plane, STOCK))
        made = []
        for number, name in enumerate(parts):
            api = stack.enter_context(plane.as_token("token-of-admin"))
            lane = f"l{number}"
            (folder / lane).mkdir()
            made.append(PARTS[name](api, lane, folder / lane))
        loads = {name: load for part in made for name, load in part.loads().items()}
        machines = stack.enter_context(Machines(loads))
        for name, load in loads.items():
            machines[name].memory = load
        server = stack.enter_context(prometheus(tools, folder, machines.targets()))
        add_nodes(plane.api, [each for part in made for each in part.manifests()])
        lanes = []
        for part in made:
            for namespace in (part.namespace, part.second_namespace):
                part.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
            part.use(machines)
            part.prometheus = server.url
            part.prepare()
            lane = Lane(plane, nursery, folder, part, seed)
            stack.callback(lane.close)
            lanes.append(lane)
        eventually(
            "Prometheus knows all", lambda: len(server.query("node_memory_MemTotal_bytes", time.time())) == len(loads)
        )
        yield World(plane, lanes)
