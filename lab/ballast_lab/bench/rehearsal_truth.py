"""Whether a rehearsal foretells what happens: hours of recorded load on the real control plane with the daemon on,
against the rehearsal of the same hours without it.

Each pod follows a recorded machine wherever it runs. Its trace is played as memory, since the rate of a counter reaches
two minutes back; 90 times as fast, with the daemon's times as many times shorter. What happened without Ballast stands
in a real Prometheus beside the series of kube-state-metrics, and is all that the rehearsal reads. Each case has a
control plane of its own: what an earlier one left behind would hold evictions back.
"""

from __future__ import annotations

import math
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ballast.eviction import price
from ballast.model.sample import Bools, Floats
from ballast.publishing.scheduler_profiles import extender_profile
from ballast.settings.loading import load
from ballast_lab.bench.rows import Row
from ballast_lab.bench.trace_day import CORES, trace_day
from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import is_ready
from ballast_lab.harness.objects import PODS, add_nodes, node
from ballast_lab.harness.prometheus import Prometheus, prometheus
from ballast_lab.harness.scheduler import scheduler
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually
from ballast_lab.harness.work import Use, Work
from ballast_lab.rehearse.ballast_run import BallastRun
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.measures import Estimate, Measures, estimate
from ballast_lab.rehearse.recorder import Asked, record
from ballast_lab.rehearse.recording import open_recording

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
SPEED, HOURS, STEP = 90.0, 6.0, 1.0
NODES, EACH, MEAN = 20, 10, 0.62
RESTART = 1.0
"""Seconds after which kwok has a pod Ready."""
ORDINARY = 30.0 / SPEED
HASTE = f"""
import ballast.eviction.price
import ballast.telemetry.pod_usage_cache
ballast.eviction.price.ORDINARY_RESTART = {ORDINARY}
ballast.telemetry.pod_usage_cache.SELDOM = {60 / SPEED}
"""
"""What makes the daemon's two times faster that no setting changes."""
BEFORE, CALM = 20, 0.3
"""Seconds before the trace begins, and the share of its first value that pods use in them: windows fill."""
MOST = 0.2
"""Of a node that a pod uses: memory does not go beyond what there is."""
GIB = 2.0**30
BYTES = 64 * GIB
CASES = (
    *((day, 1) for day in ("20110303", "20110309", "20110325", "20110409", "20110412")),
    *((trace, seed) for trace in ("Bitbrains", "Alibaba") for seed in (1, 2)),
    ("20110303", 2),
)
"""Days of PlanetLab or other traces, and the seed of the cluster that they are played on."""
QUICK = {"cases": CASES[:1]}
AWAY = ("refused", "failed")
"""States of evictions that did not happen."""
SETTINGS = {
    "BALLAST_TELEMETRY__INTERVAL": "1s",
    "BALLAST_TELEMETRY__RESOURCES": "memory",
    "BALLAST_WINDOWS__LENGTHS": "10s,7s,4s",
    "BALLAST_WINDOWS__MIN_SAMPLES": "3",
    "BALLAST_WINDOWS__MAX_AGE": "10s",
    "BALLAST_PUBLISHING__MODE": "off",
    "BALLAST_POWER__MODE": "off",
    "BALLAST_EVICTION__MODE": "on",
    "BALLAST_EVICTION__INTERVAL": "1s",
    "BALLAST_EVICTION__RATE": "20/40s",
    "BALLAST_EVICTION__WORKLOAD_WINDOW": "20s",
    "BALLAST_EVICTION__COOLDOWN": "7s",
    "BALLAST_EVICTION__MIN_POD_AGE": "7s",
    "BALLAST_EVICTION__MIN_NODE_AGE": "4s",
    "BALLAST_EVICTION__QUIET_AFTER_SCALE": "4s",
    "BALLAST_LOG__FORMAT": "text",
}
"""The defaults, 90 times as fast, without the bound of 1 % a day."""


@dataclass(frozen=True)
class Replica:
    """A pod of a StatefulSet: where it begins, and [minute] what it uses, in bytes."""

    workload: str
    name: str
    node: str
    cores: float
    bytes: Floats


@dataclass(frozen=True)
class Play:
    """The pods, and the nodes that they begin on."""

    replicas: Sequence[Replica]
    nodes: Sequence[str]

    @property
    def seconds(self) -> int:
        return round(HOURS * 3600 / SPEED)

    def use(self, replica: Replica, passed: float) -> float:
        """Bytes so many seconds after the begin."""
        if passed < 0:
            return CALM * float(replica.bytes[0])
        at = passed * SPEED / 60
        return float(np.interp(at, np.arange(len(replica.bytes)), replica.bytes))


@dataclass
class Outcome:
    """What came of the time: node-seconds that were hot, deviation of memory, evictions."""

    hot: Estimate
    deviation: Estimate
    evictions: int
    by_planner: Mapping[str, int] = field(default_factory=dict)


def play_of(data: Path, trace: str, seed: int) -> Play:
    """The pods of a drawn cluster."""
    drawn = trace_day(data, trace, MEAN, nodes=NODES, each=EACH, seed=seed, minutes=int(HOURS * 60) + 2)
    counts: Counter[str] = Counter()
    replicas = []
    for pod, cores in zip(drawn.history.pods, drawn.cores.T, strict=True):
        assert pod.owner is not None
        name = f"{pod.owner.name}-{counts[pod.owner.name]}"
        counts[pod.owner.name] += 1
        asked = pod.shape.requests["cpu"]
        used = np.minimum(cores / CORES, MOST) * BYTES
        replicas.append(Replica(pod.owner.name, name, pod.node, asked, used))
    return Play(replicas, [entry.name for entry in drawn.history.nodes])


def foretell(tools: Tools, folder: Path, play: Play) -> tuple[Outcome, Outcome]:
    """What a rehearsal says of the hours without Ballast: as they were, and with it."""
    end = math.floor(time.time() / 60) * 60 - 600.0
    begin = end - play.seconds
    text = folder / "history.txt"
    text.write_text("".join(f"{line}\n" for line in _exposition(play, begin)))
    price.ORDINARY_RESTART = ORDINARY
    command = [tools.prometheus / "promtool", "tsdb", "create-blocks-from", "openmetrics", text, folder / "tsdb"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    with prometheus(tools, folder, []) as server:
        settings = load({**SETTINGS, "BALLAST_PROMETHEUS__URL": server.url})
        record(settings, folder / "recording", Asked(begin - BEFORE, end, STEP))
    recording = open_recording(folder / "recording")
    run = BallastRun("ballast", Course(recording.history, settings), settings, STEP)
    without = Measures(STEP)
    for use in recording.play(begin - BEFORE, end, STEP):
        without.observe(use.nodes / recording.history.capacity, *_all_there(play))
        run.advance(use)
    return _outcome(without), _outcome(run.measures)


def _all_there(play: Play) -> tuple[Bools, Bools]:
    """No node is missing, and none is empty."""
    return np.ones(len(play.nodes), bool), np.zeros(len(play.nodes), bool)


def _exposition(play: Play, begin: float) -> Iterator[str]:
    """The series of node_exporter, cadvisor and kube-state-metrics in the OpenMetrics format."""
    times = [begin - BEFORE + second for second in range(BEFORE + play.seconds + 1)]
    used = np.array([[play.use(replica, at - begin) for at in times] for replica in play.replicas])
    rows = [play.nodes.index(replica.node) for replica in play.replicas]
    of_nodes = np.zeros((len(play.nodes), len(times)))
    np.add.at(of_nodes, rows, used)
    titles = [f'namespace="default",pod="{replica.name}"' for replica in play.replicas]
    yield from _family("up", ((f'instance="{name}"', np.ones(len(times))) for name in play.nodes), times)
    whole = np.full(len(times), BYTES)
    for metric, values in (("MemTotal", np.tile(whole, (len(play.nodes), 1))), ("MemAvailable", whole - of_nodes)):
        series = zip((f'instance="{name}"' for name in play.nodes), values, strict=True)
        yield from _family(f"node_memory_{metric}_bytes", series, times)
    containers = (f'{title},container="main"' for title in titles)
    yield from _family("container_memory_working_set_bytes", zip(containers, used, strict=True), times)
    for name, labels, value in _states(play, titles, begin):
        yield from _family(name, ((title, np.full(len(times), value)) for title in labels), times)
    yield "# EOF"


def _states(play: Play, titles: Sequence[str], begin: float) -> Iterator[tuple[str, Sequence[str], float]]:
    uids = [f'{title},uid="{replica.name}"' for title, replica in zip(titles, play.replicas, strict=True)]
    yield (
        "kube_pod_info",
        [
            f'{uid},node="{replica.node}",created_by_kind="StatefulSet",created_by_name="{replica.workload}"'
            for uid, replica in zip(uids, play.replicas, strict=True)
        ],
        1.0,
    )
    yield "kube_pod_created", uids, begin - 86_400
    yield "kube_pod_status_ready_time", uids, begin - 86_400 + RESTART
    for uid, replica in zip(uids, play.replicas, strict=True):
        yield "kube_pod_container_resource_requests", [f'{uid},container="main",resource="cpu"'], replica.cores
    memory = [f'{uid},container="main",resource="memory"' for uid in uids]
    yield "kube_pod_container_resource_requests", memory, 2 * GIB
    yield "kube_node_info", [f'node="{name}"' for name in play.nodes], 1.0
    for resource, amount in (("cpu", CORES), ("memory", BYTES), ("pods", 110.0)):
        labels = [f'node="{name}",resource="{resource}"' for name in play.nodes]
        yield "kube_node_status_allocatable", labels, amount


def _family(name: str, series: Iterable[tuple[str, Floats]], times: Sequence[float]) -> Iterator[str]:
    for labels, values in series:
        for at, value in zip(times, values, strict=True):
            yield f"{name}{{{labels}}} {value:.14g} {at:.0f}"


class Traced(Work):
    """Each pod follows the trace of its name, wherever it is."""

    def __init__(self, plane: ControlPlane, play: Play) -> None:
        super().__init__(plane.api, list(play.nodes), (CORES, BYTES), {}, every=0.2)
        self._play = play
        self._by_name = {replica.name: replica for replica in play.replicas}
        self.began = math.inf

    def _use(self, pod: Json) -> Use:
        replica = self._by_name[pod["metadata"]["name"]]
        return 0.0, self._play.use(replica, time.time() - self.began)


def happen(plane: ControlPlane, folder: Path, play: Play) -> Outcome:
    """The hours on the real control plane with the daemon on."""
    add_nodes(plane.api, [node(name, cpu=f"{CORES:g}", memory="64Gi") for name in play.nodes])
    _start(plane, play)
    with Traced(plane, play) as work, prometheus(plane.tools, folder, work.targets()) as server:
        (folder / "sitecustomize.py").write_text(HASTE)
        settings = {**SETTINGS, "BALLAST_PROMETHEUS__URL": server.url, "POD_NAMESPACE": "default"}
        settings["PYTHONPATH"] = str(folder)
        with (
            Daemon(plane, "acts", plane.kubeconfig("admin"), settings) as daemon,
            scheduler(plane, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True),
        ):
            eventually("it knows the nodes", lambda: _known(daemon, len(play.nodes)), every=0.5)
            work.began = math.ceil(time.time()) + float(BEFORE)
            end = work.began + play.seconds
            time.sleep(work.began - time.time())
            _hurry(daemon)
            time.sleep(end - time.time() + 2)
            recent = daemon.get("/api/v1/evictions").json()["recent"]
        measures = Measures(STEP)
        for load_of_nodes in _loads(server, work.began - BEFORE, end, play.nodes):
            measures.observe(load_of_nodes, *_all_there(play))
    outcome = _outcome(measures)
    rows = [row for row in recent if row["status"] not in AWAY]
    outcome.evictions, outcome.by_planner = len(rows), Counter(row["kind"] for row in rows)
    return outcome


def _hurry(daemon: Daemon) -> None:
    """Its planning process gets as much time as all else here; by itself it takes what others leave, which in a pod is
    the rest of the pod's own share."""
    for listed in Path(f"/proc/{daemon.pid}/task").glob("*/children"):
        for pid in map(int, listed.read_text().split()):
            os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))


def _start(plane: ControlPlane, play: Play) -> None:
    """The pods where they begin; nobody else decides that."""
    sizes = Counter(replica.workload for replica in play.replicas)
    cores = {replica.workload: replica.cores for replica in play.replicas}
    for name, size in sizes.items():
        plane.api.post(SETS, _stateful_set(name, size, cores[name]))
    eventually("all pods are there", lambda: len(plane.api.items(PODS)) == len(play.replicas), every=0.5)
    for replica in play.replicas:
        target = {"apiVersion": "v1", "kind": "Node", "name": replica.node}
        body = {"metadata": {"name": replica.name}, "target": target}
        plane.api.post(f"{PODS}/{replica.name}/binding", body)
    eventually("all are Ready", lambda: all(map(is_ready, plane.api.items(PODS))), every=0.5)


def _stateful_set(name: str, size: int, cores: float) -> Json:
    requests = {"cpu": f"{cores * 1000:.0f}m", "memory": "2Gi"}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "replicas": size,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _known(daemon: Daemon, nodes: int) -> bool:
    listed = daemon.get("/api/v1/nodes").json()
    rows = listed["nodes"] if isinstance(listed, dict) else listed
    values = {name: value for name, _, value in daemon.samples()}
    return len(rows) == nodes and values.get("ballast_nodes_unknown") == 0


def _loads(server: Prometheus, begin: float, end: float, nodes: Sequence[str]) -> Iterator[Floats]:
    """[resource, node] at each second; cpu is not played."""
    text = "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
    for second in range(int(end - begin) + 1):
        known = server.query(text, begin + second)
        memory = [known.get(name, math.nan) for name in nodes]
        yield np.array([[math.nan] * len(nodes), memory])


def _outcome(measures: Measures) -> Outcome:
    """Of the time since the trace began."""
    hot = np.array(measures.hot["0.8"], float)[BEFORE:]
    deviation = np.array(measures.deviation)[BEFORE:, 1]
    evictions = dict(measures.evictions)
    return Outcome(
        estimate(hot, STEP, total=True), estimate(deviation, STEP, total=False), sum(evictions.values()), evictions
    )


def measure(cases: Sequence[tuple[str, int]] = CASES) -> list[Row]:
    """The traces are read from BALLAST_DATA, a folder with load/ in it."""
    data, tools = Path(os.environ.get("BALLAST_DATA", "data")), Tools.find()
    results = []
    for trace, seed in cases:
        with tempfile.TemporaryDirectory(prefix="ballast-bench-") as name:
            results.append(compare(tools, Path(name), play_of(data, trace, seed), f"{trace}, seed {seed}"))
    return [*(_row(result) for result in results), _together(results)]


@dataclass(frozen=True)
class Comparison:
    """A case: as it was, with Ballast as foretold, and with Ballast as it happened."""

    name: str
    before: Outcome
    foretold: Outcome
    happened: Outcome

    def off(self) -> tuple[float, float, float]:
        """By which share hot time, deviation and evictions were foretold too high."""
        ours, true = self.foretold, self.happened
        return (
            _off(ours.hot.value, true.hot.value),
            _off(ours.deviation.value, true.deviation.value),
            _off(ours.evictions, true.evictions),
        )

    def holds(self) -> tuple[bool, bool]:
        """Whether the intervals of hot time and deviation hold the truth."""
        pairs = ((self.foretold.hot, self.happened.hot), (self.foretold.deviation, self.happened.deviation))
        return pairs[0][0].holds(pairs[0][1].value), pairs[1][0].holds(pairs[1][1].value)


def compare(tools: Tools, folder: Path, play: Play, name: str) -> Comparison:
    """One case."""
    for part in ("past", "present"):
        (folder / part).mkdir(parents=True)
    before, foretold = foretell(tools, folder / "past", play)
    plane = ControlPlane(tools, folder)
    try:
        return Comparison(name, before, foretold, happen(plane, folder / "present", play))
    finally:
        plane.stop()


REACH = (0.15, 0.1, 0.2)
"""How far hot time, deviation and evictions may be off."""


def _row(result: Comparison) -> Row:
    before, foretold, happened, off = result.before, result.foretold, result.happened, result.off()
    met = all(abs(share) <= reach for share, reach in zip(off, REACH, strict=True))
    return {
        "what": f"what a rehearsal foretold, beside what happened: {result.name}",
        "at": f"{HOURS:g} h {SPEED:g} times as fast, real scheduler and kwok, {NODES} x {EACH} pods",
        "reach": "node-minutes above 80 % ±15 %, deviation ±10 %, evictions ±20 %",
        "measured": (
            f"node-minutes above 80 % {_minutes(before.hot.value)} without, foretold {_interval(foretold.hot)}, "
            f"happened {_minutes(happened.hot.value)} ({off[0]:+.0%}); deviation {before.deviation.value:.3f} without, "
            f"foretold {foretold.deviation.value:.3f} ({foretold.deviation.low:.3f} to {foretold.deviation.high:.3f}), "
            f"happened {happened.deviation.value:.3f} ({off[1]:+.0%}); evictions foretold {foretold.evictions} "
            f"({_counted(foretold)}), happened {happened.evictions} ({_counted(happened)}; {off[2]:+.0%})"
        ),
        "verdict": "met" if met else "not met",
    }


def _together(results: Sequence[Comparison]) -> Row:
    offs = np.abs([result.off() for result in results])
    within = [f"{int((column <= reach).sum())}" for column, reach in zip(offs.T, REACH, strict=True)]
    holds = np.array([result.holds() for result in results])
    shares = holds.mean(axis=0)
    return {
        "what": "all of these runs together",
        "at": f"{len(results)} runs",
        "reach": "each interval holds the truth in at least 80 % of the runs",
        "measured": (
            f"node-minutes within 15 % in {within[0]}, deviation within 10 % in {within[1]}, evictions within 20 % in "
            f"{within[2]}; the interval holds the node-minutes in {shares[0]:.0%}, the deviation in {shares[1]:.0%}; "
            f"median distances {np.median(offs[:, 0]):.0%}, {np.median(offs[:, 1]):.0%}, {np.median(offs[:, 2]):.0%}"
        ),
        "verdict": "met" if shares.min() >= 0.8 else "not met",
    }


def _off(foretold: float, happened: float) -> float:
    return foretold / happened - 1 if happened else float(foretold > 0)


def _minutes(seconds: float) -> str:
    return f"{seconds * SPEED / 60:,.0f}"


def _interval(number: Estimate) -> str:
    return f"{_minutes(number.value)} ({_minutes(number.low)} to {_minutes(number.high)})"


def _counted(outcome: Outcome) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(outcome.by_planner.items()))
