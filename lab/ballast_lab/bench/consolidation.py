"""A week with a daily curve: node-hours of `consolidate`, of HighNodeUtilization's rule by requests, and of neither.

HighNodeUtilization (descheduler, pkg/framework/plugins/nodeutilization): a node is underutilized where its requests of
every resource are below a threshold (20 % by default); its pods are evicted if the others have room for them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.sample import Floats
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.workload import Workload
from ballast.placement.layout import layout
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import make_plan
from ballast_lab.bench.rows import Row

DAY, CORES, HIGH, RULE = 24, 16.0, 0.8, 0.2
RESOURCES = ("cpu", "memory")
GIB = 2.0**30
WAYS = ("none", "HighNodeUtilization", "consolidate")
MOVED_A_DAY = 0.02
CYCLES = 6
EMPTY = "ballast.dev/empty"
RULES = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    rates=(),
    min_pod_age=0.0,
    min_node_age=0.0,
    needs_confirmation=False,
)


@dataclass(frozen=True)
class App:
    """Replicas follow the day between `night` and `most`; `asks` and `uses` are cores, and as many GiB of memory."""

    name: str
    most: int
    night: int
    asks: float
    uses: float

    def wanted(self, day: float) -> int:
        return round(self.night + (self.most - self.night) * day)


@dataclass
class Found:
    """`hot` counts hours of nodes above HIGH, `moved` evictions, `pods` the mean number of pods."""

    node_hours: int = 0
    hot: int = 0
    moved: int = 0
    pods: float = 0.0
    by_day: list[int] = field(default_factory=list)

    def moved_a_day(self) -> float:
        """The largest share of the pods that was moved on one day."""
        return max(self.by_day, default=0) / max(self.pods, 1)


class Week:
    """Pods by node; autoscalers add and remove pods, a scheduler puts them where most is free by requests."""

    def __init__(self, nodes: int, apps: int, seed: int) -> None:
        self.dice = random.Random(seed)
        self.apps = [self._app(number) for number in range(apps)]
        self.names = [f"n{number:03d}" for number in range(nodes)]
        self.pods: dict[str, tuple[App, str, float]] = {}
        self.given_away: set[str] = set()
        self._number = 0
        self._peaks: list[float] = []

    @property
    def usual(self) -> float:
        """The mean number of pods."""
        return sum(app.most + app.night for app in self.apps) / 2

    def _app(self, number: int) -> App:
        most = self.dice.randint(6, 30)
        asks = self.dice.choice([0.25, 0.5, 0.5, 1.0])
        return App(f"a{number:03d}", most, max(2, round(most * 0.4)), asks, asks * self.dice.uniform(0.3, 0.9))

    def requests(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for app, node, _ in self.pods.values():
            found[node] += app.asks  # type: ignore[assignment]
        return found

    def scale(self, hour: int) -> None:
        day = 0.5 - 0.5 * np.cos(2 * np.pi * (hour % DAY - 3) / DAY)
        mine: dict[str, list[str]] = {app.name: [] for app in self.apps}
        for name, (app, _, _) in self.pods.items():
            mine[app.name].append(name)
        asked = self.requests()
        for app in self.apps:
            wanted = app.wanted(float(day))
            while len(mine[app.name]) > wanted:
                gone = mine[app.name].pop(self.dice.randrange(len(mine[app.name])))
                asked[self.pods.pop(gone)[1]] -= app.asks  # type: ignore[assignment]
            for _ in range(wanted - len(mine[app.name])):
                self.start(app, asked)

    def start(self, app: App, asked: Counter[str], without: str = "") -> None:
        """Nodes that are kept empty come last (PreferNoSchedule), and are given back by it."""
        room = [name for name in self.names if name != without and asked[name] + app.asks <= CORES]
        assert room, "the cluster is full"
        node = min(room, key=lambda name: (name in self.given_away, asked[name], name))
        self.given_away.discard(node)
        self._number += 1
        self.pods[f"{app.name}-{self._number:06d}"] = (app, node, app.uses * self.dice.uniform(0.7, 1.3))
        asked[node] += app.asks  # type: ignore[assignment]

    def loads(self) -> Floats:
        found = dict.fromkeys(self.names, 0.0)
        for _, node, use in self.pods.values():
            found[node] += use / CORES
        return np.array([found[name] for name in self.names])

    def peak(self) -> Floats | None:
        """Loads at the p95 of the last day, every node with its share."""
        now = float(self.loads().sum())
        self._peaks = [*self._peaks[-DAY + 1 :], now]
        if now <= 0:
            return None
        return self.loads() * max(1.0, float(np.quantile(self._peaks, 0.95)) / now)


def run(way: str, *, nodes: int, apps: int, days: int, seed: int = 1) -> Found:
    """One way, hour by hour."""
    week, found = Week(nodes, apps, seed), Found()
    moved: Counter[int] = Counter()
    for hour in range(days * DAY):
        week.scale(hour)
        peak = week.peak()
        left = int(MOVED_A_DAY * week.usual) - moved[hour // DAY]
        if way == "consolidate":
            moved[hour // DAY] += _consolidated(week, peak, left)
        elif way == "HighNodeUtilization":
            moved[hour // DAY] += _by_requests(week, left)
        busy = {node for _, node, _ in week.pods.values()}
        found.node_hours += sum(name in busy or name not in week.given_away for name in week.names)
        found.hot += int((week.loads() > HIGH).sum())
        found.pods += len(week.pods) / (days * DAY)
    found.moved, found.by_day = sum(moved.values()), list(moved.values())
    return found


def _by_requests(week: Week, left: int) -> int:
    """Nodes below the threshold are emptied where the others have room by requests; empty ones go."""
    moved, asked = 0, week.requests()
    week.given_away |= {name for name in week.names if not asked[name]} if week.pods else set()
    for name in sorted(week.names, key=lambda each: asked[each]):
        mine = [pod for pod, (_, node, _) in week.pods.items() if node == name]
        if not mine or asked[name] >= RULE * CORES or moved + len(mine) > left:
            continue
        others = [each for each in week.names if each not in week.given_away and each != name]
        free = sum(CORES - asked[each] for each in others if asked[each] >= RULE * CORES)
        if free < asked[name]:
            continue
        week.given_away.add(name)
        for pod in mine:
            app = week.pods.pop(pod)[0]
            asked[name] -= app.asks  # type: ignore[assignment]
            week.start(app, asked, without=name)
        moved += len(mine)
    return moved


def _consolidated(week: Week, peak: Floats | None, left: int) -> int:
    """As often as a node is emptied at once; pods that have to wait for the next day may be scaled away before."""
    moved = 0
    for _ in range(CYCLES):
        done, whole = _planned(week, peak, left - moved)
        moved += done
        if not whole:
            break
    return moved


def _planned(week: Week, peak: Floats | None, left: int) -> tuple[int, bool]:
    """How many pods were moved, and whether a node was emptied by it."""
    objects = ClusterObjects(tuple(_nodes(week)), tuple(pods_of(week)), tuple(workloads_of(week)))
    load = np.repeat(week.loads()[:, None], len(RESOURCES), axis=1)
    usage = {f"shop/{name}": {"cpu": use, "memory": use * GIB} for name, (_, _, use) in week.pods.items()}
    arranged = layout(objects.nodes, objects.pods, RESOURCES, load, usage)
    peaks = None if peak is None else np.repeat(peak[:, None], len(RESOURCES), axis=1)
    gate = Gate(Facts(objects, now=1e9), RULES)
    plan = make_plan("consolidate", arranged, gate, Aims(no_peak=peak is None), peak=peaks)
    before, week.given_away = week.given_away, set(plan.empty or ())
    done = plan.steps[: max(left, 0)]
    for step in done:
        assert step.target is not None
        name = step.pod.partition("/")[2]
        app, _, use = week.pods[name]
        week.pods[name] = (app, step.target, use)
    return len(done), len(done) == len(plan.steps) and bool(week.given_away - before or done)


def _nodes(week: Week) -> Iterator[Node]:
    whole = {"cpu": CORES, "memory": CORES * GIB, "pods": 110.0}
    for name in week.names:
        yield Node(name, allocatable=whole, created=1.0, labels={EMPTY: "true"} if name in week.given_away else {})


def pods_of(week: Week) -> Iterator[Pod]:
    """The pods of the model."""
    shapes = {app.name: shape_of([ContainerShape({"cpu": app.asks, "memory": app.asks * GIB})]) for app in week.apps}
    owners = {app.name: Owner("ReplicaSet", app.name, f"u-{app.name}", True) for app in week.apps}
    for name, (app, node, _) in week.pods.items():
        yield Pod(
            "shop",
            name,
            uid=f"u-{name}",
            node=node,
            phase="Running",
            ready=True,
            created=1.0,
            shape=shapes[app.name],
            owner=owners[app.name],
        )


def workloads_of(week: Week) -> Iterator[Workload]:
    """A ReplicaSet for each app."""
    counts = Counter(app.name for app, _, _ in week.pods.values())
    for app in week.apps:
        yield Workload("ReplicaSet", "shop", app.name, f"u-{app.name}", replicas=counts[app.name])


def measure(nodes: int = 200, apps: int = 100, days: int = 7) -> list[Row]:
    found = {way: run(way, nodes=nodes, apps=apps, days=days) for way in WAYS}
    none = found["none"].node_hours
    return [
        {
            "what": f"consolidate, a week: {way}",
            "at": f"{nodes} nodes, {each.pods:,.0f} pods on average, {days} days with a daily curve",
            "reach": ">= 20 % fewer node-hours than none, fewer than by requests; <= 2 % of pods moved a day",
            "measured": f"{each.node_hours:,} node-hours ({each.node_hours / none - 1:+.1%}), {each.hot} hours of "
            f"nodes above {HIGH:.0%}, at most {each.moved_a_day():.1%} of pods moved a day",
        }
        for way, each in found.items()
    ]


QUICK = {"nodes": 40, "apps": 20, "days": 7}

if __name__ == "__main__":
    for row in measure():
        print(row)
