"""One part in a world of its own, with a leader, and what happened to it."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path

from ballast_lab.faults.cells import AT_START, Cell, nth
from ballast_lab.faults.faults import FAULTS
from ballast_lab.faults.forwarder import Failpoint, Then, When
from ballast_lab.faults.history import History, Outcome
from ballast_lab.faults.nursery import Nursery
from ballast_lab.faults.parts.part import Part
from ballast_lab.faults.replica import Gear, Replica
from ballast_lab.harness.api import Api
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.waiting import HUNG, eventually

_REACHED = 40.0
_AGAIN = 3
_WHILE, _BOTH, _ACTING = 10.0, 4.0, 180.0
"""Seconds."""


class Lane:
    """Runs cells one after another in its own thread."""

    def __init__(self, plane: ControlPlane, nursery: Nursery, folder: Path, part: Part, seed: int) -> None:
        self.plane, self.part, self.name = plane, part, part.lane
        self._nursery = nursery
        self.api: Api = part.api
        self.folder = folder / self.name
        self.leader: Replica | None = None
        self.standby: Replica | None = None
        self.second: Replica | None = None
        self.kills = 0
        self.lease_removed: list[float] = []
        self.outcomes: list[Outcome] = []
        self._saved: dict[str, str] = {}
        self._dice = random.Random(f"{seed} {self.name}")
        self._started = 0

    def run(self, cell: Cell) -> Outcome:
        outcome = Outcome(cell, time.time())
        fault = FAULTS[cell.fault]
        before = self.kills
        try:
            self._ready(fault.gear(), fault.standby)
            point = Failpoint(cell.kind, cell.when, lambda: Then.GO_ON, nth(cell, self._dice))
            if cell.kind in AT_START:
                self.succeed(self._leader.gear, kill=True)
            victim = self._leader
            point.act = lambda: fault.act(self, victim)
            victim.forwarder.arm(point)
            if cell.kind not in AT_START:
                self.part.stimulate()
            outcome.reached = point.hit.wait(_REACHED)
            victim.forwarder.arm(None)
            if outcome.reached:
                point.done.wait(_ACTING)
                fault.finish(self, victim)
            self._settle()
            within = fault.again(self.part.name) if outcome.reached else None
            if within is not None:
                outcome.again = self._acts_again(within)
        except Exception as error:  # the judge goes on with the next cell
            outcome.problem = f"{type(error).__name__}: {error}"
            self._abandon()
        outcome.kills, outcome.ended = self.kills - before, time.time()
        self.outcomes.append(outcome)
        return outcome

    def _acts_again(self, within: float) -> float:
        """Seconds from another stimulus until all is done that it asks for. Raises AssertionError after `within`."""
        began = time.monotonic()
        self.part.stimulate()
        eventually(f"{self.part.name} acts again", self.part.settled, every=0.3, seconds=within)
        return time.monotonic() - began

    def start(self, gear: Gear) -> Replica:
        self._started += 1
        name = f"{self.name}.{self._started}"
        home, settings = self.part.namespace, self.part.settings()
        return Replica(self.plane, self.folder, name, home, settings, gear, self._nursery)

    def second_release(self, gear: Gear = Gear()) -> None:  # noqa: B008
        """Another Ballast of the same settings, but for its namespace and Lease."""
        self._started += 1
        home = self.part.second_namespace
        settings = {**self.part.settings(), "BALLAST_LEASE__NAMESPACE": home}
        name = f"{self.name}b.{self._started}"
        self.second = Replica(self.plane, self.folder, name, home, settings, gear, self._nursery)

    def end_second_release(self) -> None:
        """Once it leads and both have finished."""
        assert self.second is not None
        self._leads(self.second, self.part.second_namespace)
        self.settle()
        time.sleep(_BOTH)
        self.settle()
        self.second.gone()
        self.second = None

    def succeed(self, gear: Gear, *, kill: bool = False) -> None:
        """The leader is ended, its Lease removed once it is surely dead, and another one started."""
        leader = self._leader
        if kill:
            self.killed(leader)
        leader.gone()
        self._remove_lease()
        self.leader = self.start(gear)

    def remember_state(self) -> None:
        """What `ballast-state` holds now."""
        self._saved = self.part.state()

    def roll_back(self) -> None:
        """The leader is killed, `ballast-state` is as it was remembered, and another daemon waits for the Lease."""
        leader = self._leader
        self.killed(leader)
        leader.gone()
        path = f"/api/v1/namespaces/{self.part.namespace}/configmaps/ballast-state"
        self.api.put(path, {**self.api.get(path), "data": self._saved})
        self.leader = self.start(Gear())
        self._leads(self.leader, self.part.namespace)

    def kill_again(self) -> None:
        """The successors too, at the next write of a random kind, until all is done or `_AGAIN` have died."""
        for _ in range(_AGAIN):
            kind = self._dice.choice((*self.part.kinds, *AT_START))
            victim, when = self._leader, self._dice.choice([*When])
            point = Failpoint(kind, when, lambda victim=victim: self._died(victim))
            victim.forwarder.arm(point)
            if not self._hit_or_settled(point):
                victim.forwarder.arm(None)
                return
            self.succeed(Gear())

    def _died(self, victim: Replica) -> Then:
        self.killed(victim)
        return Then.CUT

    def _hit_or_settled(self, point: Failpoint) -> bool:
        """Whether it was hit; False too once no such write has come for a while."""
        for _ in range(round(_WHILE / 0.5)):
            if point.hit.wait(0.5):
                point.done.wait(_ACTING)
                return True
            if point.kind not in ("lease", *AT_START) and self.part.settled():
                break
        self._leader.forwarder.arm(None)
        return point.hit.is_set()

    def killed(self, replica: Replica) -> None:
        replica.kill()
        self.kills += 1

    def promote(self) -> None:
        """The standby is the leader from now on; the former one goes."""
        former, self.leader, self.standby = self._leader, self.standby, None
        former.kill()
        former.gone()

    def standby_leads(self) -> None:
        """Waits until the Lease is the standby's."""
        standby = self.standby
        assert standby is not None
        self._leads(standby, self.part.namespace)

    def _leads(self, replica: Replica, namespace: str) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/ballast"

        def leads() -> bool:
            return str(self.api.get(path)["spec"].get("holderIdentity") or "").startswith(f"{replica.name}_")

        eventually(f"{replica.name} leads", leads, every=0.3)

    def settle(self, seconds: float = HUNG) -> None:
        eventually(f"{self.part.name} is settled", self.part.settled, every=0.3, seconds=seconds)

    def end(self) -> History:
        """Asks for nothing any more."""
        problem = ""
        try:
            self._ready(Gear(), False)
            self.part.calm()
            self.settle()
            self._leader.process.stop()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        rules = replace(self.part.rules(), lease_removed=tuple(self.lease_removed))
        history = History(self.name, self.part.second_namespace, rules, self.part.final(), problem, self.outcomes)
        self._abandon()
        return history

    @property
    def _leader(self) -> Replica:
        assert self.leader is not None
        return self.leader

    def _ready(self, gear: Gear, standby: bool) -> None:
        if self.leader is not None and self.leader.gear != gear:
            self.leader.gone()
            self.leader = None
        if self.leader is None:
            self.leader = self.start(gear)
            self._leads(self.leader, self.part.namespace)
            self._settle()
        if standby:
            self.standby = self.start(gear)
            standing = self.standby
            eventually("it stands by", lambda: "standing by" in standing.tail())

    def _settle(self) -> None:
        try:
            self.settle()
        except AssertionError as error:
            if self.leader is not None:
                error.add_note(self.leader.tail())
            raise

    def close(self) -> None:
        """Ends its processes; those that are paused too."""
        for replica in (self.leader, self.standby, self.second):
            if replica is not None:
                replica.kill()
                replica.gone()
        self.leader = self.standby = self.second = None

    def _abandon(self) -> None:
        self.close()
        self._remove_lease()

    def _remove_lease(self) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.part.namespace}/leases/ballast"
        eventually("the Lease is gone", lambda: self.api.raw("DELETE", path).status_code in (200, 404))
        self.lease_removed.append(time.time())


class Outage:
    """Something that hits all lanes: it happens once, when as many as `expected` hold a write, or time is up."""

    def __init__(self, expected: int, happen: threading.Event) -> None:
        self._held = threading.Semaphore(0)
        self._expected = expected
        self.over = happen

    def hold(self) -> None:
        self._held.release()
        self.over.wait(120)

    def wait(self, seconds: float) -> int:
        """How many hold a write."""
        deadline, count = time.monotonic() + seconds, 0
        while count < self._expected and self._held.acquire(timeout=max(0.0, deadline - time.monotonic())):
            count += 1
        return count
