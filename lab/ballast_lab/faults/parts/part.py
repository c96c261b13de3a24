"""What a part under fault is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from ballast_lab.faults.judge import Final, Rules
from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import node

QUIET = {f"BALLAST_{part}__MODE": "off" for part in ("PUBLISHING", "POWER", "EVICTION", "BATCH")}
FAST = {
    **QUIET,
    "BALLAST_TELEMETRY__INTERVAL": "1s",
    "BALLAST_TELEMETRY__RESOURCES": "memory",
    "BALLAST_WINDOWS__LENGTHS": "4s",
    "BALLAST_WINDOWS__MIN_SAMPLES": "1",
    "BALLAST_WINDOWS__MIN_COVERAGE": "0.1",
    "BALLAST_WINDOWS__MAX_AGE": "60s",
    "BALLAST_CLUSTER__QPS": "100",
    "BALLAST_CLUSTER__BURST": "100",
}
LANE = "fault-lane"
"""The label that keeps lanes apart."""


class Part(ABC):
    """In a lane of its own: nodes, a namespace and a prefix that nobody else has.

    `stimulate` gives it something to write, `settled` tells that all of it is done and nothing is open, `calm` asks for
    the state in which nothing of Ballast's may be left.
    """

    name: ClassVar[str]
    kinds: ClassVar[Sequence[str]]
    """The kinds of writes that `stimulate` leads to."""
    count: ClassVar[int] = 3
    """Nodes."""

    def __init__(self, api: Api, lane: str, folder: Path) -> None:
        self.api, self.lane, self.folder = api, lane, folder
        self.second_namespace = f"fault-{lane}b"
        self.namespace, self.prefix = f"fault-{lane}", f"{lane}.ballast.dev"
        self.nodes = [f"{lane}-n{number}" for number in range(self.count)]
        self.turn = 0
        self.prometheus = ""

    def manifests(self) -> list[Json]:
        """Its nodes."""
        return [node(name, labels={LANE: self.lane}) for name in self.nodes]

    def loads(self) -> Mapping[str, float]:
        """Memory by node."""
        return dict.fromkeys(self.nodes, 0.2)

    def settings(self) -> dict[str, str]:
        return {
            **FAST,
            "BALLAST_PUBLISHING__PREFIX": self.prefix,
            "BALLAST_CLUSTER__NODE_SELECTOR": f"{LANE}={self.lane}",
            "BALLAST_LEASE__NAMESPACE": self.namespace,
            "BALLAST_PROMETHEUS__URL": self.prometheus,
        }

    def rules(self) -> Rules:
        return Rules(self.prefix, frozenset(self.nodes), frozenset({self.namespace}))

    def prepare(self) -> None:  # noqa: B027
        """Makes its objects; nodes and the namespace are there."""

    def use(self, machines: Machines) -> None:
        """Loads are turned here."""
        self.machines = machines

    def measured(self, yes: bool) -> None:
        """Whether the exporters of its nodes answer."""
        for name in self.nodes:
            self.machines[name].up = yes

    @abstractmethod
    def stimulate(self) -> None: ...

    @abstractmethod
    def settled(self) -> bool: ...

    @abstractmethod
    def calm(self) -> None: ...

    def final(self) -> Final:
        nodes = [each for each in self.api.items("/api/v1/nodes") if each["metadata"]["name"] in self.nodes]
        pods = self.api.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return Final(nodes, pods, self.autoscalers(), self.state())

    def autoscalers(self) -> list[Json]:
        return []

    def state(self) -> dict[str, str]:
        answer = self.api.raw("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/ballast-state")
        return dict(answer.json()["data"]) if answer.status_code == 200 else {}
