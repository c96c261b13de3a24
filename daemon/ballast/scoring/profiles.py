"""Typical requests of pods to come: given by the user, or learned from the pods that arrive."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ballast.model.devices import parts_of
from ballast.model.pod import Pod
from ballast.scoring.demand import Units, demand

MOST_TIMES = 5_000
"""Arrivals and departures whose times are known."""


@dataclass(frozen=True)
class Profile:
    """What one kind of pod asks for (milli-cores, bytes, pieces), and how frequent it is; weights need not sum to 1."""

    requests: Units
    weight: float


def asked_by(pod: Pod) -> Units:
    """Its requests, with parts of devices that it asks for by annotations, and devices that it claims."""
    requests, parts = demand(pod.shape).reserved, parts_of(pod)
    return {**requests, **parts, **pod.claimed} if parts or pod.claimed else requests


def observed(pods: Iterable[Pod], limit: int = 256) -> tuple[Profile, ...]:
    """The distinct requests of the unfinished pods on nodes, weighted by their number; the `limit` most frequent.

    Pods that wait may never start: what they ask for says nothing of those that will.
    """
    counts: dict[tuple[tuple[str, int], ...], int] = {}
    for pod in pods:
        if pod.node and not pod.finished:
            key = _key(asked_by(pod))
            counts[key] = counts.get(key, 0) + 1
    kept = sorted(counts, key=lambda key: (-counts[key], key))[:limit]
    return tuple(Profile(dict(key), float(counts[key])) for key in sorted(kept))


class Arrivals:
    """Shares of the kinds of arriving pods, as an exponentially weighted mean over arrivals.

    An arrival counts `rate` of the whole, so that about the last 1/rate arrivals matter; the first 1/rate count alike.
    The rarest of more than `limit` kinds is dropped.
    """

    def __init__(self, rate: float = 0.01, limit: int = 32) -> None:
        self._rate = rate
        self._limit = limit
        self._shares: dict[tuple[tuple[str, int], ...], float] = {}
        self.count = 0
        self._times: deque[float] = deque(maxlen=MOST_TIMES)
        self._left: deque[float] = deque(maxlen=MOST_TIMES)

    def learn(self, requests: Units, time: float = -math.inf) -> None:
        """Counts one pod with these requests that arrived at `time` (Unix seconds)."""
        key = _key(requests)
        self.count += 1
        self._times.append(time)
        rate = max(self._rate, 1 / self.count)
        for other in self._shares:
            self._shares[other] *= 1 - rate
        self._shares[key] = self._shares.get(key, 0.0) + rate
        if len(self._shares) > self._limit:
            del self._shares[min(self._shares, key=lambda each: (self._shares[each], each))]

    def leave(self, time: float) -> None:
        """Counts one pod that made room at `time` (Unix seconds)."""
        self._left.append(time)

    def since(self, time: float) -> tuple[int, int]:
        """How many arrived and how many left after a time; at most MOST_TIMES of each."""
        return sum(arrived > time for arrived in self._times), sum(left > time for left in self._left)

    def profiles(self) -> tuple[Profile, ...]:
        """The kinds of pods with their shares, which sum to 1."""
        return tuple(Profile(dict(key), share) for key, share in sorted(self._shares.items()))


def _key(requests: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, amount) for name, amount in requests.items() if amount and name != "pods"))
