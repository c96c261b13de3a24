"""One run through recorded time: where its pods are, and what its nodes use therefore."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.layout import PARTS_OF_HOUR, Layout, layout
from ballast.placement.node_constraints import NodeConstraints
from ballast.settings import Settings
from ballast_lab.rehearse import stock
from ballast_lab.rehearse.history import RESOURCES, History
from ballast_lab.rehearse.recording import Use

HOUR = 3600.0
KEEPS_NAMES = "StatefulSet"
"""The kind whose pods come back under the same name, so that Prometheus has their past."""


class Course:
    """A pod that was moved takes its use along, until it ends as it did in history.

    The load of a node is what was measured there, less what left, plus what came.
    """

    def __init__(self, history: History, settings: Settings) -> None:
        self.history = history
        self.nodes: list[Node] = list(history.nodes)
        """As they are now: those that are to be empty carry a taint."""
        self.version = 0
        """Changes with what runs where."""
        self.pods: list[Pod] = list(history.pods)
        """As they are now."""
        self.on: Ints = history.home.copy()
        """[pod]: the row of its node now, also before it starts."""
        self.time = -np.inf
        self.there: Bools = np.zeros(len(self.pods), bool)
        """[pod]: whether it runs."""
        self.present: Bools = np.zeros(len(history.nodes), bool)
        """[node]: whether it is there."""
        self.displaced = 0
        """Pods that started elsewhere than in history, since moved pods had taken the room."""
        self.preferred: Floats | None = None
        """[node]: points 0..100 of what else the scheduler goes by, such as labels."""
        self._moved: set[int] = set()
        self._hour: deque[Use] = deque(maxlen=PARTS_OF_HOUR)
        """One use of every five minutes."""
        self._since = np.full(len(self.pods), -np.inf)
        """[pod]: when it was moved last: what a replacement of another name used is known from then on."""
        weights, label = settings.scoring.resources, settings.cluster.pool_label
        nothing = np.zeros((len(history.nodes), len(RESOURCES)))
        arranged = layout(history.nodes, history.pods, RESOURCES, nothing, None, label, weights)
        self.base = arranged.weighted(settings.scoring.node_weights)
        self._shapes, self._shape = np.unique(self.base.asked[:, 1:], axis=0, return_inverse=True)
        self._sites = NodeConstraints(history.nodes)
        self._whole = np.array([[node.capacity.get(name, np.inf) for node in history.nodes] for name in RESOURCES])
        self.free: Ints = self.base.total.copy()
        """[node, kind]"""

    def remember(self, uses: Iterable[Use]) -> None:
        """What was used before the course begins, one use of every five minutes."""
        self._hour.extend(uses)

    def advance(self, use: Use) -> None:
        """The time of `use`: pods start and end as they did."""
        self.time, self._use = use.time, use
        if not self._hour or use.time - self._hour[-1].time >= HOUR / PARTS_OF_HOUR:
            self._hour.append(use)
        there = self.history.there(use.time)
        present = self.history.present(use.time)
        gone, new = np.flatnonzero(self.there & ~there), np.flatnonzero(there & ~self.there)
        np.add.at(self.free, self.on[gone], self.base.asked[gone])
        self._moved.difference_update(gone.tolist())
        changed = len(gone) or len(new) or (present != self.present).any()
        self.version += bool(changed)
        self.there, self.present = there, present
        for row in new.tolist():
            self._start(row)
        homeless = [row for row in self._moved if not present[self.on[row]]]
        for row in sorted(homeless):
            self._displace(row)

    def _start(self, row: int) -> None:
        """On its own node if there is still room; the first pods of all were there before anything moved."""
        home, asked = int(self.on[row]), self.base.asked[row]
        self.free[home] -= asked
        if self._moved and (self.free[home] < 0)[asked > 0].any():
            self._displace(row)

    def _displace(self, row: int) -> None:
        target = self.choose(row, self.present)
        if target is not None:
            self.displaced += 1
            self.move(row, target, restart=False)

    def choose(self, row: int, among: Bools) -> int | None:
        """Where kube-scheduler puts the pod, besides where it is; None where it fits nowhere."""
        asked = self.base.asked[row]
        fits = ((self.free >= asked) | (asked == 0)).all(axis=1) & among & self.present
        fits &= self._sites.allowed(self.pods[row].template)
        fits[self.on[row]] = False
        return stock.choose(self.base, self.free, asked, fits, row, self.preferred)

    def move(self, row: int, target: int, *, at: float | None = None, restart: bool = True) -> None:
        """A pod of this name runs there from now on, or from `at` on; a new pod, unless it has only just started."""
        at = self.time if at is None else at
        asked = self.base.asked[row]
        self.free[self.on[row]] += asked
        self.free[target] -= asked
        self.on[row] = target
        owner = self.pods[row].owner
        if owner is None or owner.kind != KEEPS_NAMES:
            self._since[row] = at
        if target == self.history.home[row]:
            self._moved.discard(row)
        else:
            self._moved.add(row)
        pod, name = self.pods[row], self.history.nodes[target].name
        changes = {"uid": f"{pod.uid}'", "created": at, "scheduled_at": at} if restart else {}
        self.put(row, msgspec.structs.replace(pod, node=name, **changes))

    def put(self, row: int, pod: Pod) -> None:
        """The pod is like this from now on."""
        self.pods[row] = pod
        self.version += 1

    def put_node(self, node: Node) -> None:
        """The node is like this from now on."""
        self.nodes[self.history.rows[node.name]] = node
        self.version += 1

    def used(self) -> Floats:
        """[resource, node]: cores and bytes, NaN where unknown."""
        used = self._use.nodes.copy()
        if self._moved:
            history, rows, there = self.history, np.array(sorted(self._moved), np.int64), self.running()
            latest = np.nan_to_num(self._use.latest)
            most = np.maximum(used, self._whole)
            for resource, took in enumerate(latest):
                # A node that was full shows no more than it has; what its pods wanted beyond that is there too.
                wanted = np.bincount(history.home[there], took[history.number[there]], len(self.present))
                used[resource] = np.maximum(used[resource], wanted)
                np.subtract.at(used[resource], history.home[rows], took[history.number[rows]])
                np.add.at(used[resource], self.on[rows], took[history.number[rows]])
            used = np.clip(used, 0.0, most)
        used[:, ~self.present] = np.nan
        return used

    def load(self) -> Floats:
        """[resource, node]: fractions of allocatable."""
        whole = self.history.capacity
        return np.asarray(np.divide(self.used(), whole, out=np.full(whole.shape, np.nan), where=whole > 0))

    def empty(self) -> Bools:
        """[node]: whether it is there without pods other than those of DaemonSets."""
        counts = np.bincount(self.on[self.there & ~self.history.everywhere], minlength=len(self.present))
        return np.asarray(self.present & (counts == 0))

    def of_pods(self, rows: Ints) -> Floats:
        """[pod, resource]: what these pods use, NaN where unknown."""
        return np.asarray(self._use.pods[:, self.history.number[rows]].T)

    def over_the_hour(self, rows: Ints) -> Floats:
        """[pod, resource]: what they used on average over the last hour, since they were moved."""
        times = np.array([use.time for use in self._hour])
        kept = (times[:, None] > self._since[rows]) & (times > self.time - HOUR)[:, None]
        used = np.array([use.pods[:, self.history.number[rows]].T for use in self._hour])
        counts = (kept[:, :, None] & np.isfinite(used)).sum(axis=0)
        sums = np.where(kept[:, :, None], np.nan_to_num(used), 0.0).sum(axis=0)
        return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

    def running(self) -> Ints:
        """The rows of the pods that run."""
        return np.flatnonzero(self.there)

    def row_of(self, title: str) -> int | None:
        """The pod of this namespace/name that runs, None where there is none."""
        rows = np.flatnonzero(self.there & (self.history.number == self.history.titles.get(title, -1)))
        return int(rows[0]) if len(rows) else None

    def arrange(self, load: Floats, error: Floats | None, columns: Sequence[int]) -> Layout:
        """What planners look at.

        `load` and `error` are [node, resource] of the present nodes; `columns` are the resources that count. A pod of
        unknown use counts with its requests.
        """
        base, rows, nodes = self.base, self.running(), np.flatnonzero(self.present)
        place = np.full(len(base.nodes), -1)
        place[nodes] = np.arange(len(nodes))
        rows = rows[place[self.on[rows]] >= 0]
        picked = list(columns)
        used = self.of_pods(rows)[:, picked]
        asked = base.used[rows][:, picked]
        hour = self.over_the_hour(rows)[:, picked]
        some = np.isfinite(used).any(axis=1, keepdims=True)
        used = np.where(np.isfinite(used), used, np.where(some, np.nan_to_num(asked), asked))
        weights = base.weights[picked]
        frequency = np.bincount(self._shape.reshape(-1)[rows], minlength=len(self._shapes))
        return replace(
            base,
            nodes=tuple(self.nodes[row] for row in nodes.tolist()),
            pods=tuple([self.pods[row] for row in rows.tolist()]),
            on=place[self.on[rows]],
            present=np.ones(len(rows), bool),
            resources=tuple(RESOURCES[column] for column in picked),
            load=load,
            whole=base.whole[nodes][:, picked],
            used=used,
            hour=np.where(np.isfinite(hour), hour, used),
            total=base.total[nodes],
            free=self.free[nodes],
            asked=base.asked[rows],
            pool=base.pool[nodes],
            profiles=self._shapes[frequency > 0],
            frequency=frequency[frequency > 0],
            there=np.ones(load.shape, bool),
            weights=weights / weights.sum() if weights.sum() else weights,
            error=np.zeros(load.shape) if error is None else np.nan_to_num(error),
            factor=base.factor[nodes][:, picked],
        )

    def most_of_one(self) -> int:
        """The most pods that a workload of at least two has on one node."""
        rows = self.running()
        rows = rows[self.history.workload[rows] >= 0]
        if not len(rows):
            return 0
        sizes = np.bincount(self.history.workload[rows])
        rows = rows[sizes[self.history.workload[rows]] >= 2]
        pairs = self.history.workload[rows] * len(self.present) + self.on[rows]
        return int(np.unique(pairs, return_counts=True)[1].max(initial=0))
