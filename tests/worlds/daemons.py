"""The whole daemon against the simulator over real sockets, with its cycles run by hand."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import requests

from ballast.cluster import switches
from ballast.cluster.lease import LONGEST_FOREIGN, Elector, LeaseTimes
from ballast.model.snapshot import Snapshot
from ballast.runtime.daemon import Daemon
from ballast.settings import load
from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.simulator import EmbeddedCluster, World
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.clock import FakeClock

NODE, POD, CONFIG_MAP, LEASE = (BY_NAME[name] for name in ("Node", "Pod", "ConfigMap", "Lease"))
PLANNER = (sys.executable, "-c", "from ballast.planning.worker import main; main()")
"""The planning process at the priority of the test, so that a busy machine does not starve it."""

ENDPOINT_SLICE = BY_NAME["EndpointSlice"]
INTERVAL = 30.0
OWN = "ballast"
SCORE, LOAD, WINDOW, TAINT = (f"ballast.dev/{key}" for key in ("score", "load", "window", "overloaded"))
PATIENT = LeaseTimes(duration=LONGEST_FOREIGN, deadline=0.9 * LONGEST_FOREIGN)
"""A machine that is too busy to renew a Lease for a while costs nobody its leadership."""

WRITES = ("create", "update", "patch", "delete", "deletecollection")


class HandClock(FakeClock):
    """Moves only by `advance`; who waits on it waits the machine's time."""

    def __init__(self) -> None:
        super().__init__(wall=1_700_000_010.1)

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.wait(timeout)


class Rig:
    """One simulated cluster and the daemons that watch it."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 10,
        scene: str = "calm",
        interval: float = INTERVAL,
        world: Callable[..., World] = World,
    ) -> None:
        self.clock = HandClock()
        self.interval = interval
        self.world = world(nodes, 1, self.clock, scene=scene)
        self.cluster = EmbeddedCluster(self.world)
        self.folder = folder
        self.daemons: list[Daemon] = []

    @property
    def faults(self) -> Any:
        return self.cluster.faults

    @property
    def names(self) -> list[str]:
        return self.world.node_names

    def environment(self, **overrides: str) -> dict[str, str]:
        return {
            **self.cluster.environment(self.cluster.kubeconfig(self.folder / "kubeconfig")),
            "BALLAST_TELEMETRY__INTERVAL": f"{self.interval:g}s",
            "BALLAST_PUBLISHING__MODE": "on",
            "BALLAST_EVICTION__MODE": "off",
            "BALLAST_POWER__MODE": "off",
            "BALLAST_CLUSTER__QPS": "1000",
            "BALLAST_CLUSTER__BURST": "1000",
            "BALLAST_PROMETHEUS__TIMEOUT": "300s",
            "BALLAST_HTTP__HOST": "127.0.0.1",
            "BALLAST_HTTP__PORT": "0",
            **{name if name.startswith("POD_") else f"BALLAST_{name}": value for name, value in overrides.items()},
        }

    def daemon(self, *, leads: bool = True, **overrides: str) -> Daemon:
        """A started daemon; its first cycle of telemetry has ended."""
        daemon = Daemon(load(self.environment(**overrides)), clock=self.clock)
        self.daemons.append(daemon)
        daemon.eviction._worker._command, daemon.eviction._worker._deadline = PLANNER, HUNG
        if isinstance(daemon.context.leadership, Elector):
            daemon.context.leadership._times = PATIENT
        daemon.start()
        daemon.scheduler._scheduler.pause()
        if leads:
            until(daemon.context.leadership.is_leader, "leading")
        return daemon

    def advance(self, cycles: int = 1) -> None:
        """To just after the next multiples of the interval."""
        for _ in range(cycles):
            self.clock.advance(self.interval - (self.clock.wall() - 0.1) % self.interval)

    def watch(self, daemon: Daemon) -> str:
        return daemon.scheduler.run("telemetry").sentence

    def publish(self, daemon: Daemon) -> str:
        """One round, once the daemon's cache has seen what was written before."""
        self.seen(daemon)
        return daemon.scheduler.run("publishing").sentence

    def cycle(self, daemon: Daemon, times: int = 1) -> tuple[str, str]:
        """Advances by one interval and runs both jobs, so often; the last two sentences."""
        for _ in range(times):
            self.advance()
            told = self.watch(daemon), self.publish(daemon)
        return told

    def first_round(self, daemon: Daemon) -> str:
        """Cycles until a new leader acts; the sentence of that round."""
        while (sentence := self.publish(daemon)).startswith("published nothing"):
            self.advance()
            self.watch(daemon)
        return sentence

    def settled(self, **overrides: str) -> Daemon:
        """A daemon that has published and has nothing left to write."""
        daemon = self.daemon(**overrides)
        self.cycle(daemon, 5)
        assert ": 0 of" not in self.cycle(daemon)[1]
        return daemon

    def seen(self, daemon: Daemon) -> None:
        """Waits until the daemon's cache holds the nodes as they are."""
        if daemon.context.cache.problem("nodes") is None:
            until(lambda: all(self._cached(daemon, name) for name in self.names), "the cache to catch up")

    def _cached(self, daemon: Daemon, name: str) -> bool:
        node = daemon.context.cache.node(name)
        return node is None or node.resource_version == self.node(name)["metadata"]["resourceVersion"]

    def node(self, name: str) -> dict[str, Any]:
        return self.cluster.resources.get(NODE, "", name).read()

    def own(self, name: str) -> dict[str, Any]:
        """Ballast's keys on a node, and whether it is tainted."""
        node = self.node(name)
        found = {**node["metadata"].get("labels", {}), **node["metadata"].get("annotations", {})}
        taints = [taint["key"] for taint in node["spec"].get("taints") or []]
        return {key: value for key, value in found.items() if key.startswith("ballast.dev/")} | (
            {TAINT: True} if TAINT in taints else {}
        )

    def published(self) -> dict[str, dict[str, Any]]:
        return {name: self.own(name) for name in self.names}

    def patches(self) -> dict[str, int]:
        """How many writes there were, by resource; Lease and state apart from what they are."""
        found: Counter[str] = Counter()
        for (verb, resource), count in dict(self.cluster.requests).items():
            if verb in WRITES:
                found[resource] += count
        return dict(found)

    def put_config_map(self, name: str, data: dict[str, Any]) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": OWN}, "data": data}
        if self.cluster.store.get(CONFIG_MAP, OWN, name) is None:
            self.cluster.resources.create(CONFIG_MAP, OWN, body)
        else:
            self.cluster.resources.replace(CONFIG_MAP, OWN, name, body)

    def lease(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.cluster.resources.get(LEASE, OWN, "ballast").read()["spec"]
        return spec

    def steal_lease(self, holder: str) -> None:
        self.cluster.resources.update(
            LEASE, OWN, "ballast", lambda lease: {**lease, "spec": {**lease["spec"], "holderIdentity": holder}}
        )

    def lose_lease(self, daemon: Daemon) -> None:
        self.steal_lease("someone-else")
        daemon.context.leadership.tick()
        assert not daemon.context.leadership.is_leader()

    def lead_again(self, daemon: Daemon) -> None:
        self.steal_lease("")
        daemon.context.leadership.tick()
        until(daemon.context.leadership.is_leader, "leading again")

    def set_taints(self, name: str, taints: list[dict[str, str]]) -> None:
        self.cluster.resources.update(NODE, "", name, lambda node: {**node, "spec": {**node["spec"], "taints": taints}})

    def strip(self, name: str) -> None:
        """Someone removes our labels."""
        labels = {SCORE: None, LOAD: None}
        self.cluster.resources.patch(NODE, "", name, "application/merge-patch+json", {"metadata": {"labels": labels}})

    def leader_endpoint(self) -> str | None:
        """The pod to which the extender's Service leads."""
        found = self.cluster.store.get(ENDPOINT_SLICE, OWN, "ballast-extender")
        endpoints = [] if found is None else found.read()["endpoints"]
        return endpoints[0]["targetRef"]["name"] if endpoints else None

    def state(self) -> dict[str, str]:
        found = self.cluster.store.get(CONFIG_MAP, OWN, "ballast-state")
        return dict(found.read()["data"]) if found is not None else {}

    def close(self) -> None:
        self.faults.clear()
        for daemon in self.daemons:
            daemon.stop()
        self.cluster.stop()


@contextmanager
def rig(folder: Path, **options: Any) -> Iterator[Rig]:
    """Watches may be as late as a busy machine makes them."""
    one = Rig(folder, **options)
    one.cluster.start()
    try:
        with patch.object(switches, "SWITCHES_SILENT", HUNG):
            yield one
    finally:
        one.close()


def get(daemon: Daemon, path: str) -> requests.Response:
    return requests.get(daemon.url.rstrip("/") + path, timeout=HUNG)


def watcher(daemon: Daemon) -> dict[str, Any]:
    """The nodes of `/watcher`, which answers 200."""
    answer = get(daemon, "/watcher")
    assert answer.status_code == 200
    nodes: dict[str, Any] = answer.json()["data"]["NodeMetricsMap"]
    return nodes


def verbose(daemon: Daemon) -> str:
    return get(daemon, "/readyz?verbose").text


def metric(daemon: Daemon, sample: str) -> float | None:
    """The value of one line of `/metrics`, such as `ballast_leader`, None without it."""
    for line in get(daemon, "/metrics").text.splitlines():
        name, _, value = line.rpartition(" ")
        if name == sample:
            return float(value)
    return None


def condition(daemon: Daemon, kind: str) -> str | None:
    """The message of a condition that holds, else None."""
    found = [item for item in daemon.context.conditions.list() if item.type == kind and item.status == "True"]
    return found[0].message if found else None


def snapshot(daemon: Daemon) -> Snapshot:
    found = daemon.board.snapshot
    assert found is not None
    return found


def window(annotation: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(annotation)
    assert annotation == json.dumps(document, sort_keys=True, separators=(",", ":"))
    return document
