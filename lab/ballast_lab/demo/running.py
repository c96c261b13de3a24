"""The real daemon against the embedded cluster, over real sockets."""

from __future__ import annotations

import gc
import json
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ballast.base.errors import UsageError
from ballast.runtime.daemon import Daemon
from ballast.serving.board import CycleRecord
from ballast.settings import explain, load
from ballast_lab.demo import hotspot
from ballast_lab.demo.recording import leave_recording
from ballast_lab.scaled_clock import ScaledClock
from ballast_lab.simulator import EmbeddedCluster, World
from ballast_lab.simulator.objects import GeneratedWorkload
from ballast_lab.simulator.observations import SCRAPE_INTERVAL

SENTENCES = 20
FASTEST = 300.0
INTERVAL = 5.0
SOLAR_INTERVAL = 1.0
TARGETS = 8
"""Seconds of the machine's time between two ticks of the power scene, whose day is short; and who shares its power."""

LOOK: Mapping[str, tuple[str, ...]] = {
    "breathing": (
        "#overview    how even the load is, and the wall of nodes",
        "#nodes?show=unknown  after a minute one node is silent, and one exporter sends NaN: unknown, never idle",
        "#plans       what evictions would do: they are in dry-run",
    ),
    "calm": (
        "#overview    how even the load is, and the wall of nodes",
        "#nodes      what each node's score is made of",
    ),
    "burst": (
        "#pods       after half a minute a deployment of a pod for each node arrives",
        "#nodes      where it went",
    ),
    "power": ("#power       replicas follow the sun: a day in two minutes",),
    "hotspot": (
        "#overview    the line of balance falls while hot nodes on the wall cool down",
        "#evictions   each move: where to, whether it landed there, and what it brought",
        "#plans       what was refused, and by which check",
    ),
}
"""What to open first, by scene."""

SHORTEST_CYCLE = 0.2
"""Seconds of the machine's time that a cycle has at least, however fast the world runs."""


@dataclass(frozen=True)
class Options:
    """`seconds` of the machine's time, None until stopped; `speed` is how much faster the world's time passes."""

    nodes: int = 200
    seconds: float | None = None
    speed: float = 1.0
    host: str = "127.0.0.1"
    port: int = 2020
    headless: bool = False
    seed: int = 1
    scene: str = "breathing"
    kubeconfig: Path | None = None
    record: Path | None = None
    """Where a recording of the last day is left."""


def run(options: Options, stop: threading.Event, say: Callable[[str], None]) -> dict[str, Any]:
    """Runs until `stop` or for `options.seconds`, telling `say` the address and every sentence; returns the summary."""
    if not 0 < options.speed <= FASTEST:
        raise UsageError(f"--speed {options.speed:g} cannot be used: more than 0 and at most {FASTEST:g} is allowed.")
    clock = ScaledClock(options.speed)
    world = World(options.nodes, options.seed, clock, scene=options.scene)
    embedded = EmbeddedCluster(world, scrape_seconds=min(SCRAPE_INTERVAL, _interval(options)))
    with tempfile.TemporaryDirectory(prefix="ballast-demo-") as folder, embedded as cluster:
        kubeconfig = cluster.kubeconfig((options.kubeconfig or Path(folder) / "kubeconfig").absolute())
        environment = cluster.environment(kubeconfig) | _environment(options)
        if options.record is not None:
            say(leave_recording(world, environment, options.record))
        if options.scene == "power":
            policies = _policies(world, options, Path(folder), cluster.power_url)
            environment |= {"BALLAST_POWER__MODE": "on", "BALLAST_CONFIG_FILE": policies}
        daemon = Daemon(load(environment), clock=clock, config=explain(environment))
        spread = hotspot.SpreadChange() if options.scene == "hotspot" else None

        ended = threading.Event()

        def on_cycle(cycle: CycleRecord) -> None:
            if ended.is_set() or stop.is_set():
                return
            say(_line(cycle))
            if spread is not None and cycle.job == "telemetry":
                spread.see(daemon.board.snapshot)
                say(hotspot.words(spread.document()))

        daemon.on_cycle = on_cycle
        try:
            daemon.start(stop)
            gc.freeze()
            if not options.headless:
                say(f"page       {daemon.url}")
                for place in LOOK[options.scene]:
                    say(f"look at    {daemon.url.rstrip('/')}/{place}")
            if spread is not None:
                hotspot.steer(cluster, daemon.url, say)
            stop.wait(options.seconds)
            ended.set()
            # Before the stop, which ends the queries of a cycle under way: its snapshot would lack their samples.
            # A copy in one step, as the cluster's thread goes on counting.
            summary = _summary(daemon, dict(cluster.requests))
            return summary if spread is None else summary | {"spread": spread.document()}
        finally:
            daemon.stop()


def _environment(options: Options) -> dict[str, str]:
    interval = _interval(options)
    return {
        "BALLAST_TELEMETRY__INTERVAL": f"{interval:g}s",
        "BALLAST_TELEMETRY__RESOURCES": "cpu,memory,disk,network",
        "BALLAST_WINDOWS__MAX_AGE": f"{3 * max(interval, INTERVAL):g}s",
        "BALLAST_PUBLISHING__MODE": "on",
        "BALLAST_PUBLISHING__LABEL_PREFIX": "ballast.node-restriction.kubernetes.io",
        "BALLAST_CLUSTER__QPS": "200",
        "BALLAST_CLUSTER__BURST": "400",
        "BALLAST_HTTP__HOST": options.host,
        "BALLAST_HTTP__PORT": "0" if options.headless else str(options.port),
    } | (hotspot.ENVIRONMENT if options.scene == "hotspot" else {})


def _interval(options: Options) -> float:
    usual = SOLAR_INTERVAL * options.speed if options.scene == "power" else INTERVAL
    return max(usual, SHORTEST_CYCLE * options.speed)


def _policies(world: World, options: Options, folder: Path, feed: str) -> str:
    """Three of four workloads follow how the power changes that there is; each fourth has a budget in watts, with a
    meter that tells what its replicas draw. The file's name."""
    tick = _interval(options)
    scaled = [each for each in world.workloads if each.kind != "DaemonSet"][:TARGETS]
    metered = scaled[1::4]
    members = [_member(each) for each in scaled if each not in metered]
    half = len(members) // 2
    side = {"window": 3 * tick, "tolerance": 0.04}
    policies = [
        {
            "name": "sun",
            "feed": {"query": "simulated_power_watts", "semantics": "available"},
            "increase": side,
            "decrease": side,
            "groups": [{"name": "front", "members": members[:half]}] if half else [],
            "independents": members[half:],
        }
    ]
    if metered:
        pods = "|".join(f"{each.name}-.+" for each in metered)
        policies.append(
            {
                "name": "rack",
                "feed": {"url": feed, "jsonPath": "$.watts", "timePath": "$.time", "semantics": "available"},
                "consumption": {"query": f'simulated_drawn_watts{{pod=~"{pods}"}}'},
                "increase": side,
                "independents": [{**_member(each), "wattsPerReplica": "measured"} for each in metered],
            }
        )
    path = folder / "ballast.yaml"
    path.write_text(json.dumps({"power": {"policies": policies}}), encoding="utf-8")
    return str(path)


def _member(workload: GeneratedWorkload) -> dict[str, Any]:
    return {
        "ref": f"{workload.kind.lower()}s.apps/{workload.namespace}/{workload.name}",
        "min": max(1, workload.replicas // 4),
        "max": max(2, workload.replicas * 3 // 2),
    }


def _line(cycle: CycleRecord) -> str:
    return f"{cycle.job:<10} {cycle.sentence}"


def _summary(daemon: Daemon, requests: Mapping[tuple[str, str], int]) -> dict[str, Any]:
    snapshot = daemon.board.snapshot
    written = {
        sample.labels["kind"]: int(sample.value)
        for family in daemon.context.metrics.writes.collect()
        for sample in family.samples
        if sample.name.endswith("_total") and sample.labels["result"] == "done"
    }
    return {
        "cycles": daemon.progress.cycles,
        "queries": sum(count for (verb, _), count in requests.items() if verb == "query"),
        "reads": sum(count for (verb, _), count in requests.items() if verb in ("get", "list", "watch")),
        "writes": written,
        "nodes": len(snapshot.nodes) if snapshot else 0,
        "unknown_nodes": snapshot.unknown if snapshot else 0,
        "scores": {name: score for name, score in daemon.board.scores.items() if score is not None},
        "sentences": [cycle.sentence for cycle in daemon.board.cycles[-SENTENCES:]],
    }
