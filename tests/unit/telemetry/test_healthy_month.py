"""Restarts, rollouts, new and reborn nodes: what happens in every healthy month finds no job and no node at fault."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from ballast.telemetry.origins import JobNaming, Origins, Told
from ballast.telemetry.several_jobs import Job, JobsOfNodes

STEP, STEPS = 60.0, 2_000
"""A check a minute; with the events of one month in a day and a half."""


@dataclass
class _Exporter:
    """That of one node: its pod, since when the watch shows it, and pods before it whose series are still answered."""

    node: str
    pod: str
    shown_at: float
    before: list[tuple[str, float]] = field(default_factory=list)
    down_until: float = 0.0


class _Month:
    def __init__(self, seed: int, *, marks: bool, jobs: tuple[str, ...], pods: bool) -> None:
        self.dice, self.marks, self.jobs, self.pods = Random(seed), marks, jobs, pods
        self.count = 0
        self.exporters: dict[str, _Exporter] = {}
        for row in range(12):
            self.start(f"n{row}", 0.0)

    def start(self, node: str, at: float) -> None:
        self.count += 1
        old = self.exporters.get(node)
        before = [] if old is None else [*old.before, (old.pod, at + (0 if self.marks else 300))]
        shown = at + self.dice.choice([0.0, 0.0, 5.0, 30.0])
        self.exporters[node] = _Exporter(
            node, f"ne-{self.count}", shown, before, at + self.dice.choice([0.0, 20.0, 90.0])
        )

    def pass_to(self, at: float) -> None:
        """What happens in a minute."""
        event = self.dice.random()
        node = self.dice.choice(sorted(self.exporters))
        if event < 0.02:
            self.start(node, at - self.dice.uniform(0, STEP))
        elif event < 0.03:
            self.exporters[node].down_until = at + self.dice.uniform(60, 3_000)
        elif event < 0.034:
            # The machine is replaced by one of the same name, or goes and another one comes.
            del self.exporters[node]
            self.start(node if event < 0.032 else f"m{self.count}", at)
        elif event < 0.035:
            for name in sorted(self.exporters):
                self.start(name, at - self.dice.uniform(0, STEP))

    def series(self, at: float, *, fading: bool) -> Iterator[tuple[str, dict[str, str]]]:
        for exporter in self.exporters.values():
            told = [pod for pod, until in exporter.before if at < until] if fading else [exporter.pod]
            for pod in told if fading or at >= exporter.down_until else []:
                for job in self.jobs:
                    of = {"namespace": "monitoring", "pod": pod} if self.pods else {"namespace": "monitoring"}
                    yield exporter.node, {"job": job, **of}

    def shown(self, at: float) -> dict[str, str]:
        return {f"monitoring/{each.pod}": each.node for each in self.exporters.values() if at >= each.shown_at}


@pytest.mark.parametrize("marks", [True, False], ids=["staleness marks", "none"])
@pytest.mark.parametrize(
    ("jobs", "pods"),
    # Without labels of pods two jobs are two tellers: their nodes are disputed.
    [(("node-exporter",), True), (("node-exporter",), False), (("node-exporter", "pods"), True)],
    ids=["one job", "no label of pods", "two jobs of the same pods"],
)
def test_no_series_is_left_out_and_no_node_is_doubtful(marks: bool, jobs: tuple[str, ...], pods: bool) -> None:
    month, judge = _Month(7, marks=marks, jobs=jobs, pods=pods), JobsOfNodes()
    wrong: list[tuple[float, str]] = []
    since: dict[str, float] = {}
    for step in range(STEPS):
        at = step * STEP
        month.pass_to(at)
        told: dict[str, list[dict[str, str]]] = {}
        old: dict[str, list[dict[str, str]]] = {}
        for series, fading in ((told, False), (old, True)):
            for node, labels in month.series(at, fading=fading):
                series.setdefault(node, []).append(labels)
        for node in old.keys() - told.keys():
            told[node] = old.pop(node)
        several = judge.judge(at, told, month.shown(at).get, fading=old)
        bad = set()
        if several is not None:
            bad |= set(several.doubtful)
            bad |= {node for node, each in month.series(at, fading=False) if several.leaves_out(each)}
        since = {node: since.get(node, at) for node in bad}
        wrong += [(at, node) for node, first in since.items() if at - first >= STEP]
    assert not wrong


def test_guesses_outlive_nodes_that_come_and_go() -> None:
    dice, naming = Random(3), JobNaming()
    job, nodes = Job("monitoring", "node"), [f"n{row}" for row in range(20)]
    gone: dict[str, float] = {}
    for step in range(STEPS):
        at = step * STEP
        if dice.random() < 0.05 and len(nodes) > 3:
            gone[nodes.pop(dice.randrange(len(nodes)))] = at
        if dice.random() < 0.05:
            nodes.append(f"m{step}")
        told = [Told(f"{node}.example:9100", job, "", node, "short-name") for node in nodes]
        told += [Told(f"{node}.example:9100", job, "", "", "") for node, left in gone.items() if at - left < 240]
        origins = naming.judge(at, told, lambda pod: None)
        new = {each.value for each in told if each.node == f"m{step}"}
        assert origins.doubted <= new | {
            each for each in origins.doubted if at - max(gone.values(), default=-1e9) < 300
        }
        assert origins == Origins(doubted=origins.doubted)
