"""Devices as bins inside a node: a pod's share sits on one device, and two shares of a pod on different ones.

A sum over devices says too much: two of 1000 thousandths each hold two pods of 600, not three. `pack` searches the
devices of a node depth first, the largest shares first, each on the fullest device with room; devices that are alike
are tried once (Martello and Toth, Knapsack Problems, 1990, 8.5).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

MOST_STEPS = 20_000
"""Steps of one search. What is not found by then counts as impossible, so an answer is always true."""

MOST_KNOWN = 200_000
"""Answers that are remembered."""

UNCOUNTED = 1e18
"""More than anybody asks for."""

ROUNDING = 1e-9

Amount = tuple[float, ...]


@dataclass(frozen=True, order=True)
class DeviceShare:
    """What a pod needs of one device, or what a device has: a kind, and an amount of each of its dimensions."""

    kind: str
    amount: Amount


DeviceShares = tuple[DeviceShare, ...]
"""Of one pod, or of the devices of one node."""


@dataclass(frozen=True, eq=False)
class Devices:
    """`there` [node] are its devices, None where nobody counts them one by one; `asked` [pod] what each pod needs."""

    there: tuple[DeviceShares | None, ...]
    asked: tuple[DeviceShares, ...]
    _known: dict[tuple[DeviceShares, tuple[DeviceShares, ...]], bool] = field(default_factory=dict)

    def fit(self, node: int, pods: Iterable[int]) -> bool:
        """Whether the devices of a node hold these pods together."""
        there = self.there[node]
        if there is None:
            return True
        key = there, tuple(sorted(shares for pod in pods if (shares := self.asked[pod])))
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            answer = self._known[key] = pack(there, key[1]) is not None
        return answer

    def places(self, node: int, pods: Sequence[int]) -> dict[int, tuple[int, ...]]:
        """{pod: the device of each of its shares}, of those that need any and of a node whose devices hold them."""
        there, asking = self.there[node], [pod for pod in pods if self.asked[pod]]
        packed = pack(there, [self.asked[pod] for pod in asking]) if there is not None else None
        return dict(zip(asking, packed, strict=True)) if packed is not None else {}

    def of(self, nodes: Sequence[int], pods: Sequence[int]) -> Devices:
        """Those of some nodes and pods, in this order."""
        return Devices(tuple(self.there[node] for node in nodes), tuple(self.asked[pod] for pod in pods))


def pack(there: DeviceShares, pods: Sequence[DeviceShares]) -> list[tuple[int, ...]] | None:
    """[pod] the device of each of its shares, as positions in `there`; None where they do not fit."""
    chosen: list[list[int]] = [[-1] * len(shares) for shares in pods]
    kinds = {share.kind for shares in pods for share in shares}
    for kind in sorted(kinds):
        bins = [row for row, device in enumerate(there) if device.kind == kind]
        items = [
            (pod, at, s.amount) for pod, shares in enumerate(pods) for at, s in enumerate(shares) if s.kind == kind
        ]
        search = _Search([there[row].amount for row in bins], sorted(items, key=lambda item: (-max(item[2]), item)))
        if not search.fits():
            return None
        for (pod, at, _), position in zip(search.items, search.chosen, strict=True):
            chosen[pod][at] = bins[position]
    return [tuple(positions) for positions in chosen]


class _Search:
    """The shares of one kind, the largest first, on the devices of that kind."""

    def __init__(self, devices: Sequence[Amount], items: Sequence[tuple[int, int, Amount]]) -> None:
        self.items, self.chosen = items, [-1] * len(items)
        self._left = [list(amount) for amount in devices]
        self._slack = [ROUNDING * max(map(max, devices), default=0.0)] * (len(devices[0]) if devices else 0)
        self._holds: list[set[int]] = [set() for _ in devices]
        self._steps = 0

    def fits(self) -> bool:
        """Whether all have a device, which `chosen` then names."""
        for dimension, slack in enumerate(self._slack):
            asked = sum(amount[dimension] for _, _, amount in self.items)
            if asked > sum(left[dimension] for left in self._left) + slack * len(self.items):
                return False
        return self._place(0)

    def _place(self, number: int) -> bool:
        if number == len(self.items):
            return True
        self._steps += 1
        pod, _, amount = self.items[number]
        for device in self._candidates(pod, amount):
            self._shift(device, amount, -1.0)
            self._holds[device].add(pod)
            self.chosen[number] = device
            if self._place(number + 1):
                return True
            self._holds[device].discard(pod)
            self._shift(device, amount, 1.0)
            if self._steps > MOST_STEPS:
                return False
        return False

    def _candidates(self, pod: int, amount: Amount) -> list[int]:
        """Devices with room, the fullest first, one of those that are alike for what is still to come."""
        several = any(other == pod for other, _, _ in self.items)
        alike: dict[tuple[float, ...], int] = {}
        for device, left in enumerate(self._left):
            roomy = all(more <= free + slack for more, free, slack in zip(amount, left, self._slack, strict=True))
            if roomy and not (several and pod in self._holds[device]):
                alike.setdefault((*left, *sorted(self._holds[device] if several else ())), device)
        return sorted(alike.values(), key=lambda device: (self._left[device], device))

    def _shift(self, device: int, amount: Amount, sign: float) -> None:
        self._left[device] = [free + sign * more for free, more in zip(self._left[device], amount, strict=True)]


class DeviceRelation:
    """What `relations.Relations` asks: whether the devices of a node hold the units that are there and one more."""

    def __init__(self, devices: Devices, of: Sequence[int], size: int) -> None:
        """`of` [pod] is its unit."""
        self._devices = devices
        self._pods: dict[int, list[int]] = defaultdict(list)
        for pod, unit in enumerate(of):
            if devices.asked[pod]:
                self._pods[unit].append(pod)
        self.members = sorted(self._pods)
        self._on: list[set[int]] = [set() for _ in range(size)]

    def shift(self, unit: int, node: int, count: int) -> None:
        """A unit comes (1) or goes (-1)."""
        (self._on[node].add if count > 0 else self._on[node].discard)(unit)

    def permits(self, unit: int, node: int) -> bool:
        """Whether its pods find devices beside those that are there."""
        return self.fit(node, {*self._on[node], unit})

    def holds(self, node: int) -> bool:
        """What has gone leaves no device too full."""
        return True

    def fit(self, node: int, units: Iterable[int]) -> bool:
        """Whether the devices of a node hold these units."""
        return self._devices.fit(node, (pod for unit in units for pod in self._pods.get(unit, ())))

    def collisions(self, on: Sequence[int]) -> Iterator[tuple[list[int], Callable[[int], bool]]]:
        """Of each node that cannot hold what is there: as few units as collide, and whether a node cannot hold them."""
        by_node: dict[int, list[int]] = defaultdict(list)
        for unit in self.members:
            by_node[on[unit]].append(unit)
        for node, units in by_node.items():
            if self.fit(node, units):
                continue
            kept = list(units)
            for unit in units:
                rest = [other for other in kept if other != unit]
                if not self.fit(node, rest):
                    kept = rest
            yield kept, lambda other, kept=tuple(kept): not self.fit(other, kept)  # type: ignore[misc]


def total(shares: DeviceShares | None, kinds: Sequence[tuple[str, int]]) -> list[float]:
    """[(kind, dimension)]: the sums; UNCOUNTED where devices are not counted."""
    if shares is None:
        return [UNCOUNTED] * len(kinds)
    return [sum(share.amount[at] for share in shares if share.kind == kind) for kind, at in kinds]


def dimensions(devices: Devices) -> list[tuple[str, int]]:
    """(kind, dimension) of all that is asked."""
    kinds = {(share.kind, at) for shares in devices.asked for share in shares for at in range(len(share.amount))}
    return sorted(kinds)
