"""The closed loop of `ballast experiment schedule`, where a real kube-scheduler chooses the node of every pod.

The load moves by the clock of the loop, for a day of true time is too long for a test: a cycle measures it, labels are
patched and the extender is told of it, and kube-scheduler then decides about each pod as it arrives. SCHEDULE_TRACES is
a folder with recorded load, SCHEDULE_DAYS are TRACE/DAY of it, SCHEDULE_HOURS how much of each day is lived through.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.extender.decisions import ExtenderService
from ballast.model.sample import Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.publishing.node_keys import NodeKeys
from ballast.publishing.scheduler_profiles import extender_profile, labels_profile
from ballast.serving.extender import Priorities, Rejections
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast.settings.plain_parts import HttpSettings
from ballast_lab.experiments.load_traces import load_traces
from ballast_lab.experiments.schedule.contestants import Extender, Labels, Plain, contestant
from ballast_lab.experiments.schedule.loop import Day, simulate
from ballast_lab.experiments.schedule.workloads import HOUR, Workload, days_of, draw
from ballast_lab.harness.api import Api
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, add_nodes, node, pod, set_labels, sweep
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually

TRACES, DAYS = os.environ.get("SCHEDULE_TRACES"), os.environ.get("SCHEDULE_DAYS")
HOURS, FILL = float(os.environ.get("SCHEDULE_HOURS", "3")), 0.95
RUNS, T95, T999 = 6, 2.571, 6.869
"""Of the loop with other random ties, and the quantiles of Student's t with a freedom less."""
GATES = [{"name": "tests.ballast.dev/known"}]
SHOWN_WITHIN = 0.5
"""Seconds in which kube-scheduler sees a label; between two cycles it has thirty."""
SCORE = NodeKeys.of("ballast.dev").score


class Heard:
    """The extender's decisions, and the node that the last one was for."""

    def __init__(self, service: ExtenderService) -> None:
        self._service, self.best = service, ""

    def prioritize(
        self, pod: wire.Pod, names: Sequence[str], profile: str | None, *, proved: bool = False
    ) -> Priorities:
        answer = self._service.prioritize(pod, names, profile, proved=proved)
        self.best = max(json.loads(answer.body), key=lambda entry: int(entry["Score"]))["Host"]
        return answer

    def filter(self, pod: wire.Pod, names: Sequence[str]) -> Rejections:
        return self._service.filter(pod, names)

    def follow(self, busy: Callable[[], bool]) -> None:
        pass

    def awaits(self, pod: wire.Pod) -> bool:
        return self._service.awaits(pod)


class RealScheduler:
    """A contestant by kube-scheduler's choices; `as_expected` tells for each whether `rule` would have made it too."""

    def __init__(self, api: Api, day: Day, rule: Plain | Extender, heard: Heard | None = None) -> None:
        self._api, self._day, self._rule, self._heard = api, day, rule, heard
        self._labels: dict[str, str] = {}
        self.as_expected: list[bool] = []

    @property
    def writes(self) -> int | None:
        return self._rule.writes

    def observe(self, snapshot: Snapshot) -> None:
        self._rule.observe(snapshot)
        if isinstance(self._rule, Labels):
            labels = self._rule.labels()
            changed = [name for name, text in labels.items() if self._labels.get(name) != text]
            for name in changed:
                set_labels(self._api, name, {SCORE: labels[name]})
            if changed:
                time.sleep(SHOWN_WITHIN)
            self._labels = labels

    def choose(self, number: int, at: float, feasible: Ints) -> int:
        best: Ints | None = None
        load, name = self._day.load, f"p{number}"
        body = pod(
            name, cpu=f"{load.cpu[number] * 1000:.0f}m", memory=f"{load.memory[number]:.0f}", schedulingGates=GATES
        )
        self._day.uids[number] = self._api.post(PODS, body)["metadata"]["uid"]
        if isinstance(self._rule, Extender):
            self._rule.show(number, at)
        else:
            scores = self._rule.scores(number)[feasible]
            best = feasible[scores >= scores.max() - 1e-9]
        self._api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": []}})
        where = eventually(
            f"{name} is bound", lambda: self._api.get(f"{PODS}/{name}")["spec"].get("nodeName"), every=0.005
        )
        row = self._day.names.index(where)
        if best is None:
            assert self._heard is not None
            self.as_expected.append(where == self._heard.best)
        else:
            self.as_expected.append(row in best)
        return row

    def bound(self, number: int, row: int, at: float) -> None:
        self._rule.bound(number, row, at)

    def left(self, number: int, row: int, at: float) -> None:
        self._rule.left(number, row, at)
        self._api.delete(f"{PODS}/p{number}", {"gracePeriodSeconds": 0})

    def evict(self, at: float) -> Sequence[int]:
        return ()


@contextmanager
def real(cluster: ControlPlane, day: Day, name: str) -> Iterator[RealScheduler]:
    """kube-scheduler as it comes, with the printed labels profile, or with the printed extender profile."""
    rule = contestant(name)(day, 0)
    assert isinstance(rule, Plain | Extender)
    sizes = zip(day.names, day.load.nodes.cpu, day.load.nodes.memory, strict=True)
    add_nodes(
        cluster.api, [node(each, cpu=f"{cpu:g}", memory=f"{memory:.0f}", pods=1000) for each, cpu, memory in sizes]
    )
    if not isinstance(rule, Extender):
        profile = labels_profile("ballast.dev", "default-scheduler") if isinstance(rule, Labels) else STOCK
        with scheduler(cluster, profile):
            yield RealScheduler(cluster.api, day, rule)
    else:
        heard = Heard(rule.service)
        server = Server(create_app(rule.board, Metrics(), heard), HttpSettings(host="127.0.0.1", port=0))
        profile = extender_profile(f"http://127.0.0.1:{server.start()}", "default-scheduler")
        try:
            with scheduler(cluster, profile, patient=True):
                yield RealScheduler(cluster.api, day, rule, heard)
        finally:
            server.stop()
    sweep(cluster.api)


def recorded() -> dict[str, Floats]:
    """The days that are named, or one that is drawn."""
    if TRACES and DAYS:
        known = {f"{trace.name}/{day}": load for trace in load_traces(Path(TRACES))[0] for day, load in days_of(trace)}
        return {name: known[name] for name in DAYS.split(",")}
    return {"drawn": drawn()}


def drawn() -> Floats:
    """[300 series, 288 samples]: means of a skewed distribution, and slow random walks around them."""
    random = np.random.default_rng(0)
    steps = random.normal(size=(300, 288))
    walks = np.zeros((300, 288))
    for at in range(1, 288):
        walks[:, at] = 0.97 * walks[:, at - 1] + 0.24 * steps[:, at]
    return np.asarray(np.clip(random.beta(1.5, 4, (300, 1)) * np.exp(0.7 * walks - 0.25), 0, 1))


def arrivals(series: Floats) -> Workload:
    """With whole milli-cores and bytes, as the API server keeps them."""
    load = draw(series, 0, fill=FILL)
    return replace(load, cpu=np.round(load.cpu, 3), memory=np.round(load.memory))


def interval(values: Sequence[float], quantile: float) -> tuple[float, float]:
    """In which another run with other ties is expected."""
    half = quantile * float(np.std(values, ddof=1)) * math.sqrt(1 + 1 / len(values))
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def loop(load: Workload, name: str, ties: int) -> float:
    """Percent of node-minutes above 80 %, where the rules of the loop choose."""
    day = Day(load)
    day.uids = {number: f"{ties}-{number}" for number in range(len(load.start))}
    return simulate(day, contestant(name)(day, ties), until=HOURS * HOUR).hot80


@pytest.mark.nightly
@pytest.mark.timeout(1200 if DAYS is None else 7200)
def test_the_loop_predicts_the_hot_minutes_of_the_real_scheduler(cluster: ControlPlane) -> None:
    within: dict[str, list[bool]] = {}
    hot: dict[str, list[float]] = {}
    for where, series in recorded().items():
        load = arrivals(series)
        for name in ("stock", "labels", "default"):
            predicted = [loop(load, name, ties) for ties in range(1, RUNS + 1)]
            day = Day(load)
            with real(cluster, day, name) as chooser:
                measured = simulate(day, chooser, until=HOURS * HOUR)
            low, high = interval(predicted, T95)
            within.setdefault(name, []).append(low <= measured.hot80 <= high)
            hot.setdefault(name, []).append(measured.hot80)
            alike = float(np.mean(chooser.as_expected))
            print(
                f"{where}, {name}: {measured.hot80:.2f} % of node-minutes hot, the loop {np.mean(predicted):.2f} "
                f"({low:.2f} to {high:.2f}); {alike:.1%} of {len(chooser.as_expected)} choices are the loop's"
            )
            assert alike >= 0.9
            low, high = interval(predicted, T999)
            assert low - 0.2 <= measured.hot80 <= high + 0.2
    for name, days in within.items():
        print(f"{name}: within the interval in {sum(days)} of {len(days)}; {np.mean(hot[name]):.2f} % on average")
