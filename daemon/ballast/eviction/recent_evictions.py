"""What was evicted in the last day, as far as limits, rests and loops ask for it; small enough for a ConfigMap."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from ballast.eviction.facts import WorkloadKey
from ballast.eviction.history import History
from ballast.model.duration import DAY
from ballast.model.stamps import Stamps

MOST = 4000
"""Evictions that are remembered; without limits of one's own it is a tenth of that."""

MOST_RESTARTS = 1000
"""Workloads whose restart time is remembered."""

FIRST_REST = 60.0
"""Seconds for which a workload is left alone after the API server refused one of its pods; doubled each time."""

LONGEST_REST = 1800.0
"""Seconds for which it is left alone at most."""

STOP_FOR = 3600.0
"""Seconds for which a planner that did not do what it said makes no moves."""

SEVERAL = 3
"""Workloads whose replacements were late within STOP_FOR, from which on the planner is to blame and not they."""

LOOP = DAY
"""Seconds for which a node keeps the pods of a workload that it gave one of, and that came back to it."""


class PastEviction(msgspec.Struct, frozen=True, array_like=True):
    """`at` is Unix seconds.

    What was only `imagined`, in a dry run, counts and is not written down.
    """

    at: float
    uid: str
    node: str
    workload: WorkloadKey | None
    imagined: bool = False
    planner: str = ""
    own_rate: str = ""
    """The rate of its own that it counts against (`own_rate` in `checks/limits.py`); "": the common rates."""


class WorkloadBackoff(msgspec.Struct, frozen=True, array_like=True):
    workload: WorkloadKey
    until: float
    times: int


class PlannerStop(msgspec.Struct, frozen=True, array_like=True):
    until: float
    why: str


class Ineffective(msgspec.Struct, frozen=True, array_like=True):
    node: str
    resource: str
    until: float
    times: int
    why: str


class _Saved(msgspec.Struct, frozen=True):
    """Nodes and workloads are written once; evictions name them by number, -1 for none.

    The last number of an eviction is for earlier versions.
    """

    nodes: tuple[str, ...] = ()
    workloads: tuple[WorkloadKey, ...] = ()
    evictions: tuple[tuple[float, str, int, int, int], ...] = ()
    rests: tuple[WorkloadBackoff, ...] = ()
    came_back: tuple[tuple[WorkloadKey, str, float], ...] = ()
    stopped: Mapping[str, PlannerStop] = {}
    probed: Mapping[str, float] = {}
    restarts: tuple[tuple[WorkloadKey, float], ...] = ()
    ineffective: tuple[Ineffective, ...] = ()
    late: tuple[tuple[WorkloadKey, float], ...] = ()
    planners: Mapping[str, tuple[int, ...]] = {}
    """{planner: numbers of its evictions}"""
    own_rates: Mapping[str, tuple[int, ...]] = {}
    """{rate of its own: numbers of the evictions that count against it}"""


_decoder = msgspec.json.Decoder(_Saved)


class RecentEvictions:
    """Times are Unix seconds. Not for several threads at once.

    `stopped` says until when the planners of a kind make no moves, `probed` when it was found that the extender is not
    asked about a scheduler's pods.
    """

    def __init__(self) -> None:
        self._evictions: dict[str, PastEviction] = {}
        self._rests: dict[WorkloadKey, WorkloadBackoff] = {}
        self._returned: dict[tuple[WorkloadKey, str], float] = {}
        self._restarts: dict[WorkloadKey, float] = {}
        self._ineffective: dict[tuple[str, str], Ineffective] = {}
        self._late: dict[WorkloadKey, float] = {}
        self.stopped: dict[str, PlannerStop] = {}
        self.probed: dict[str, float] = {}

    def __contains__(self, uid: str) -> bool:
        """Whether this pod was evicted, as far as anybody knows."""
        return uid in self._evictions and not self._evictions[uid].imagined

    def add(self, eviction: PastEviction) -> None:
        """Before the API server is asked: what may have happened counts."""
        self._evictions[eviction.uid] = eviction

    def drop(self, uid: str) -> None:
        """It certainly did not happen."""
        self._evictions.pop(uid, None)

    def note_useless(self, node: str, resource: str, why: str, now: float) -> None:
        """Moves off a node did not lower this load; it is left alone for an hour, doubled each time up to a day."""
        before = self._ineffective.get((node, resource))
        times = before.times + 1 if before else 1
        until = now + _doubled(STOP_FOR, times, DAY)
        self._ineffective[node, resource] = Ineffective(node, resource, until, times, why)

    def note_restart(self, workload: WorkloadKey, seconds: float) -> None:
        """A replacement was Ready so many seconds after the eviction; the newest counts half."""
        before = self._restarts.pop(workload, seconds)
        self._restarts[workload] = round((before + seconds) / 2, 1)
        while len(self._restarts) > MOST_RESTARTS:
            del self._restarts[next(iter(self._restarts))]

    def back_off(self, workload: WorkloadKey, now: float) -> float:
        """The API server refused one of its pods; returns the seconds for which it is left alone."""
        before = self._rests.get(workload)
        times = before.times + 1 if before else 1
        rest = _doubled(FIRST_REST, times, LONGEST_REST)
        self._rests[workload] = WorkloadBackoff(workload, now + rest, times)
        return rest

    def rest(self, workload: WorkloadKey, until: float) -> None:
        self._rests[workload] = WorkloadBackoff(workload, until, 0)

    def note_late(self, workload: WorkloadKey, now: float) -> bool:
        """A replacement was late: its workload is left alone. Returns whether several workloads' were, lately."""
        self.rest(workload, now + STOP_FOR)
        self._late[workload] = now
        return sum(at > now - STOP_FOR for at in self._late.values()) >= SEVERAL

    def note_landing(self, workload: WorkloadKey, node: str, now: float) -> None:
        """A replacement is on this node; if one of its workload was taken from there lately, it came back."""
        gave = (each for each in self._evictions.values() if each.workload == workload and each.node == node)
        if any(each.at > now - LOOP and not each.imagined for each in gave):
            self._returned[workload, node] = now

    def stop(self, kind: str, why: str, now: float) -> None:
        self.stopped[kind] = PlannerStop(now + STOP_FOR, why)

    def forget(self, now: float) -> None:
        """What no check asks for any more."""
        kept = [eviction for eviction in self._evictions.values() if eviction.at > now - DAY]
        kept.sort(key=lambda each: each.at)
        self._evictions = {eviction.uid: eviction for eviction in kept[-MOST:]}
        self._rests = {key: rest for key, rest in self._rests.items() if rest.until > now - LONGEST_REST}
        self._returned = {key: at for key, at in self._returned.items() if at > now - LOOP}
        self._ineffective = {key: failure for key, failure in self._ineffective.items() if failure.until > now - DAY}
        self._late = {key: at for key, at in self._late.items() if at > now - STOP_FOR}
        self.stopped = {kind: stop for kind, stop in self.stopped.items() if stop.until > now}
        self.probed = {name: at for name, at in self.probed.items() if at > now - DAY}

    def history(self, now: float, without: Collection[str] = (), *, imagined: bool = False) -> History:
        """As the gate asks for it; the evictions of these UIDs are left out.

        What was only imagined counts for what is `imagined` too. Against rates only what was as `imagined` counts: a
        dry run has rates of its own.
        """
        seen = (each for each in self._evictions.values() if imagined or not each.imagined)
        counted = sorted((each for each in seen if each.uid not in without), key=lambda each: each.at)
        nodes: dict[str, float] = {}
        node_planners: dict[tuple[str, str], float] = {}
        planners: dict[str, list[float]] = {}
        rates: dict[str, list[float]] = {}
        workloads: dict[WorkloadKey, list[PastEviction]] = {}
        gave: dict[tuple[WorkloadKey, str], float] = {}
        for eviction in counted:
            nodes[eviction.node] = node_planners[eviction.node, eviction.planner] = eviction.at
            if eviction.imagined == imagined:
                rates.setdefault(eviction.own_rate, []).append(eviction.at)
                if not eviction.own_rate:
                    planners.setdefault(eviction.planner, []).append(eviction.at)
            if eviction.workload is not None:
                workloads.setdefault(eviction.workload, []).append(eviction)
                if not eviction.imagined and eviction.at > now - LOOP:
                    gave[eviction.workload, eviction.node] = eviction.at
        past = [each for each in counted if each.imagined == imagined]
        return History(
            past=tuple((each.at, each.node, each.workload, each.planner) for each in past),
            node_evictions=nodes,
            node_planners=node_planners,
            workload_evictions={key: tuple(eviction.at for eviction in moved) for key, moved in workloads.items()},
            evictions=tuple(rates.pop("", ())),
            of_own_rate={name: tuple(times) for name, times in rates.items()},
            known=frozenset(eviction.uid for eviction in counted if not eviction.imagined),
            by_planner={name: tuple(times) for name, times in planners.items()},
            looping={key: at for key, at in self._returned.items() if at > now - LOOP},
            gave=gave,
            backing_off={key: rest.until for key, rest in self._rests.items() if rest.until > now},
            restarts=dict(self._restarts),
            ineffective={key: failure.why for key, failure in self._ineffective.items() if failure.until > now},
        )

    def encode(self) -> str:
        nodes: dict[str, int] = {}
        workloads: dict[WorkloadKey, int] = {}
        written = [eviction for eviction in self._evictions.values() if not eviction.imagined]
        planners: dict[str, list[int]] = {}
        rates: dict[str, list[int]] = {}
        for number, eviction in enumerate(written):
            planners.setdefault(eviction.planner, []).append(number)
            rates.setdefault(eviction.own_rate, []).append(number)
        rows = [
            (
                round(eviction.at, 1),
                eviction.uid,
                nodes.setdefault(eviction.node, len(nodes)),
                -1 if eviction.workload is None else workloads.setdefault(eviction.workload, len(workloads)),
                1,
            )
            for eviction in written
        ]
        saved = _Saved(
            nodes=tuple(nodes),
            workloads=tuple(workloads),
            evictions=tuple(rows),
            rests=tuple(self._rests.values()),
            came_back=tuple((*key, at) for key, at in self._returned.items()),
            stopped=self.stopped,
            probed=self.probed,
            ineffective=tuple(self._ineffective.values()),
            restarts=tuple(self._restarts.items()),
            late=tuple(self._late.items()),
            planners={name: tuple(numbers) for name, numbers in planners.items() if name},
            own_rates={name: tuple(numbers) for name, numbers in rates.items() if name},
        )
        return msgspec.json.encode(saved).decode()

    @classmethod
    def decode(cls, text: str, stamps: Stamps | None = None) -> RecentEvictions:
        """Raises ValueError for what `encode` does not write."""
        stamps = stamps or Stamps()
        saved = _decoder.decode(text)
        memory = cls()
        planners = {number: name for name, numbers in saved.planners.items() for number in numbers}
        rates = {number: name for name, numbers in saved.own_rates.items() for number in numbers}
        for row, (at, uid, node, workload, _) in enumerate(saved.evictions):
            if not (0 <= node < len(saved.nodes) and -1 <= workload < len(saved.workloads)):
                raise ValueError(f"eviction of {uid} names a node or a workload that is not listed")
            key = saved.workloads[workload] if workload >= 0 else None
            planner, own_rate = planners.get(row, ""), rates.get(row, "")
            past, source = stamps.past(at), saved.nodes[node]
            memory.add(PastEviction(past, uid, source, key, planner=planner, own_rate=own_rate))
        memory._rests = {
            rest.workload: msgspec.structs.replace(rest, until=stamps.end(rest.until, STOP_FOR)) for rest in saved.rests
        }
        memory._returned = {(key, node): stamps.past(at) for key, node, at in saved.came_back}
        memory._restarts = dict(saved.restarts)
        memory._ineffective = {
            (failure.node, failure.resource): msgspec.structs.replace(
                failure, until=stamps.end(failure.until, _doubled(STOP_FOR, failure.times, DAY))
            )
            for failure in saved.ineffective
        }
        memory._late = {key: stamps.past(at) for key, at in saved.late}
        memory.stopped = {
            kind: msgspec.structs.replace(stop, until=stamps.end(stop.until, STOP_FOR))
            for kind, stop in saved.stopped.items()
        }
        memory.probed = {name: stamps.past(at) for name, at in saved.probed.items()}
        return memory


def _doubled(first: float, times: int, most: float) -> float:
    """Seconds of the rest number `times`; a float cannot hold the power of thousands of them."""
    return min(first * 2.0 ** min(times - 1, 64), most)
