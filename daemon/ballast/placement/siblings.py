"""How many pods of a workload are on a node and in a zone: a move should raise neither above what its source had.

Losing a node then takes no more of a workload than before, whatever the pods' own rules say. Upstream leaves this to
the scores of kube-scheduler (podtopologyspread, "system default" constraints); a planned landing passes them by.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from ballast.model.node import Node
from ballast.model.sample import Bools, Ints

_DENSE = 200
"""Workloads whose pods are kept by node at a time."""

ZONE = "topology.kubernetes.io/zone"


class SiblingCounts:
    """Follows a placement. `workload` [pod] is a number that the pods of a workload share, -1 without owner."""

    def __init__(self, workload: Ints, on: Ints, nodes: Sequence[Node]) -> None:
        """`on` [pod] is the row of a node, -1 for pods that are on none or do not count."""
        self._workload = workload
        names: dict[str, int] = {}
        zones = [node.labels.get(ZONE) for node in nodes]
        self._zone: Ints = np.array([-1 if zone is None else names.setdefault(zone, len(names)) for zone in zones])
        self._on_nodes: dict[int, Counter[int]] = defaultdict(Counter)
        self._in_zones: dict[int, Counter[int]] = defaultdict(Counter)
        self._total: Counter[int] = Counter()
        self._dense: dict[int, Ints] = {}
        """{workload: [node]} of those that were asked about."""
        there = (on >= 0) & (workload >= 0)
        pairs, counts = np.unique(np.stack([workload[there], on[there]]), axis=1, return_counts=True)
        for number, row, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            self._count(number, row, count)

    def move(self, pod: int, home: int, target: int) -> None:
        """From a node to a node; -1 is none."""
        if self._workload[pod] >= 0:
            for row, sign in ((home, -1), (target, 1)):
                if row >= 0:
                    self._count(int(self._workload[pod]), row, sign)

    def there(self, pod: int, row: int) -> int:
        """Pods of its workload on a node."""
        number = int(self._workload[pod])
        return self._on_nodes[number][row] if number >= 0 else 0

    def mates(self, pod: int) -> Ints:
        """The pods of its workload, with itself; none without a workload."""
        return np.flatnonzero((self._workload == self._workload[pod]) & (self._workload >= 0))

    def freed(self, pod: int, home: int, target: int, on: Ints) -> Ints:
        """The pods of its workload that may go to another zone since it went from `home` to `target`, itself among
        them. `on` [pod] is where pods are now.

        `crowding` opens a zone where its count falls below that of the pod's own zone, or to none. A node opens only
        where the pod left, for pods of other nodes, or to pods of the node that it came to.
        """
        number, left, came = int(self._workload[pod]), int(self._zone[home]), int(self._zone[target])
        if number < 0 or left == came:
            return np.zeros(0, np.int64)
        now = self._in_zones[number]
        before = now + Counter({left: 1})
        before[came] -= 1

        def opened(zone: int, own: int) -> bool:
            return 0 < before[zone] >= before[own] and not 0 < now[zone] >= now[own]

        zones = [own for own in now if own >= 0 and left >= 0 and opened(left, own)]
        if came >= 0 and any(opened(zone, came) for zone in now):
            zones.append(came)
        return np.flatnonzero((self._workload == number) & (on >= 0) & np.isin(self._zone[on], zones))

    def alone(self, pod: int) -> bool:
        """Whether it has no siblings on any node."""
        number = int(self._workload[pod])
        return number < 0 or self._total[number] <= 1

    def worse(self, pod: int, home: int, row: int) -> bool:
        """Whether one node is among `stacked` or `crowding`."""
        number = int(self._workload[pod])
        if number < 0 or home < 0:
            return False
        counts, zone = self._on_nodes[number], int(self._zone[row])
        if row != home and counts[row] and counts[row] >= counts[home]:
            return True
        zones, own = self._in_zones[number], int(self._zone[home])
        return own >= 0 and zone not in (-1, own) and zones[zone] > 0 and zones[zone] >= zones[own]

    def stacked(self, pod: int, home: int) -> Bools:
        """[node]: where the pod would make more of its workload than `home` has with it."""
        there = self.on_nodes(pod)
        mask: Bools = np.asarray(there >= max(1, there[home]))
        mask[home] = False
        return mask

    def on_nodes(self, pod: int) -> Ints:
        """[node]: pods of its workload there. Not to be changed."""
        number = int(self._workload[pod])
        there = self._dense.get(number)
        if there is None:
            if len(self._dense) >= _DENSE:
                self._dense.clear()
            there = self._dense[number] = np.zeros(len(self._zone), np.int32)
            for row, count in self._on_nodes[number].items():
                there[row] = count
        return there

    def crowding(self, pod: int, home: int) -> Bools:
        """[node]: the same by zone; never within the zone of `home`, nor for nodes without a zone."""
        zone = int(self._zone[home])
        if zone < 0:
            return np.zeros(len(self._zone), bool)
        counts = self._in_zones[int(self._workload[pod])]
        more = np.zeros(int(self._zone.max()) + 2, bool)
        more[[place for place, count in counts.items() if place != zone and 0 < count >= counts[zone]]] = True
        return more[self._zone]

    def most(self) -> int:
        """The most pods of one workload on one node, of workloads that have at least two."""
        several = (counts for number, counts in self._on_nodes.items() if self._total[number] > 1)
        return max((max(counts.values()) for counts in several), default=0)

    def _count(self, number: int, row: int, sign: int) -> None:
        zone = int(self._zone[row])
        self._total[number] += sign
        self._on_nodes[number][row] += sign
        if number in self._dense:
            self._dense[number][row] += sign
        if zone >= 0:
            self._in_zones[number][zone] += sign


def numbers_of(owners: Sequence[object]) -> Ints:
    """[pod]: a number that those of the same owner share, -1 where it is None."""
    numbers: dict[object, int] = {}
    return np.array([-1 if owner is None else numbers.setdefault(owner, len(numbers)) for owner in owners], np.int64)
