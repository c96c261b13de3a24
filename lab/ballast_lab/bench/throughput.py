"""What listening to Ballast costs a real kube-scheduler, in pods a second."""

from __future__ import annotations

import re
import tempfile
from datetime import datetime
from pathlib import Path

import yaml

from ballast.publishing.scheduler_profiles import extender_profile, labels_profile
from ballast_lab.bench.rows import Row
from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

NODES, COUNT, ROUNDS = 1_000, 5_000, 4
QUICK = {"nodes": 200, "pods": 1_000}
STRATEGY = "dominant-residual"
SHARE = 0.7
DAY = 86_400


def measure(nodes: int = NODES, pods: int = COUNT) -> list[Row]:
    """The pods of a run wait before the scheduler starts, so that it alone sets the pace. The ways take turns, there
    and back, because the control plane needs the same cores and grows slower with the pods that stay.
    """
    at = f"real kube-scheduler, {nodes:,} kwok nodes, {pods:,} pods in {ROUNDS} runs, there and back, by {STRATEGY}"
    seconds = dict.fromkeys(("alone", "labels", "asked"), 0.0)
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{"what": "scheduling with Ballast", "at": at, "reach": "", "measured": f"not measured: {error}"}]
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        plane = ControlPlane(tools, Path(folder))
        try:
            fleet = [_node(number) for number in range(nodes)]
            add_nodes(plane.api, fleet)
            settings = {"BALLAST_PUBLISHING__MODE": "off", "BALLAST_PROMETHEUS__URL": "http://127.0.0.1:9"}
            with Daemon(plane, "throughput", plane.kubeconfig("admin"), settings) as daemon:
                ways = {
                    "alone": STOCK,
                    "labels": labels_profile("ballast.dev", "default-scheduler"),
                    "asked": _asking(daemon.url),
                }
                for run in range(ROUNDS):
                    for way, configuration in reversed(ways.items()) if run % 2 else ways.items():
                        seconds[way] += _seconds(plane, f"{way}-{run}", pods // ROUNDS, configuration)
        finally:
            plane.stop()
    pace = {way: pods / each for way, each in seconds.items()}
    return [_row(f"scheduling with the {what}", at, pace[way], pace["alone"]) for way, what in _WAYS.items()]


def _row(what: str, at: str, pace: float, alone: float) -> Row:
    share = pace / alone
    return {
        "what": what,
        "at": at,
        "reach": f"≥ {SHARE:.0%} of without it",
        "measured": f"{share:.0%}: {pace:.0f} of {alone:.0f} pods/s",
        "verdict": "met" if share >= SHARE else f"{100 * (SHARE - share):.0f} points short",
    }


def _node(number: int) -> Json:
    labels = {"ballast.dev/score": str(number % 25)}
    return node(f"n{number:04d}", cpu="32", memory="128Gi", pods=250, labels=labels)


def _asking(url: str) -> str:
    document = yaml.safe_load(extender_profile(url, "default-scheduler"))
    document["extenders"][0]["prioritizeVerb"] = f"prioritize?profile={STRATEGY}"
    return yaml.safe_dump(document)


def _seconds(plane: ControlPlane, run: str, pods: int, configuration: str) -> float:
    """From the first pod that is bound to the last one, by the scheduler's log; they stay where they are."""
    for number in range(pods):
        plane.api.post(PODS, pod(f"{run}-{number:05d}", cpu="200m", memory="256Mi"))
    with scheduler(plane, configuration) as process:
        eventually("all are bound", lambda: len(_bound(process.log.read_text())) >= pods)
        times = _bound(process.log.read_text())
        return (times[-1] - times[0]).total_seconds() % DAY


def _bound(log: str) -> list[datetime]:
    """When each pod was bound, all on one day."""
    return [datetime.strptime(time, "%H:%M:%S.%f") for time in _BOUND.findall(log)]  # noqa: DTZ007


_BOUND = re.compile(r"^I\d{4} ([\d:.]+) .*Successfully bound", re.MULTILINE)
_WAYS = {"asked": "extender", "labels": "labels"}


if __name__ == "__main__":
    for row in measure():
        print(row)
