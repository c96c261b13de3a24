"""What is done to a daemon, or to what it talks to, at a write."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ballast.eviction.recent_evictions import FIRST_REST
from ballast_lab.faults.forwarder import RETRY_AFTER, Then, When
from ballast_lab.faults.replica import FAKETIME, Gear, Replica

if TYPE_CHECKING:
    from ballast_lab.faults.lane import Lane

_SHORT = 4.0
"""Seconds of a pause, delay or cut that no Lease runs out in."""

_GAP = 10.0
"""Seconds without samples, after which no load is known."""

_AGAIN = 60.0
"""Seconds after a fault within which what is asked of a part is done."""


class Fault:
    """`act` in the forwarder's thread while the write is held; `finish` in the lane's, until there is a leader."""

    name = ""
    about = ""
    standby = False

    def gear(self) -> Gear:
        return Gear()

    def fits(self, part: str, kind: str, when: When) -> bool:
        return True

    def possible(self) -> str | None:
        """Why it cannot be done here, or None."""
        return None

    def act(self, lane: Lane, victim: Replica) -> Then:
        raise NotImplementedError

    def finish(self, lane: Lane, victim: Replica) -> None:
        """Nothing to do."""

    def again(self, part: str) -> float | None:
        """Seconds after its end within which the part acts again; None where it rests for longer than a cell."""
        return _AGAIN


class Kill(Fault):
    name, about = "kill", "SIGKILL; another daemon starts"

    def act(self, lane: Lane, victim: Replica) -> Then:
        lane.killed(victim)
        return Then.CUT

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.succeed(Gear())
        lane.kill_again()


class Upgrade(Fault):
    name, about = "upgrade", "SIGKILL of another version (`--other`); this one starts"
    source: ClassVar[Path | None] = None
    """Where the packages of the other version are."""

    def possible(self) -> str | None:
        return None if self.source else "no other version was given"

    def gear(self) -> Gear:
        return Gear(source=self.source)

    def act(self, lane: Lane, victim: Replica) -> Then:
        lane.killed(victim)
        return Then.CUT

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.succeed(Gear())


class Downgrade(Upgrade):
    name, about = "downgrade", "SIGKILL; another version starts"

    def gear(self) -> Gear:
        return Gear()

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.succeed(Gear(source=self.source))


class Rollback(Fault):
    """Evictions rest then until their rates are free again, which takes longer than a cell."""

    name, about = "rollback", "once all is done, `ballast-state` is what it was then; SIGKILL, another daemon starts"

    def fits(self, part: str, kind: str, when: When) -> bool:
        return part != "eviction" and kind != "endpoint"

    def act(self, lane: Lane, victim: Replica) -> Then:
        lane.remember_state()
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.settle()
        lane.roll_back()


class Pause(Fault):
    name, about = "pause", f"SIGSTOP, SIGCONT after {_SHORT:g} s"

    def act(self, lane: Lane, victim: Replica) -> Then:
        victim.process.signal(signal.SIGSTOP)
        time.sleep(_SHORT)
        victim.process.signal(signal.SIGCONT)
        return Then.GO_ON


class Freeze(Fault):
    name, about = "freeze", "SIGSTOP until another one leads and has finished; then the held write arrives, and SIGCONT"
    standby = True

    def fits(self, part: str, kind: str, when: When) -> bool:
        return kind != "endpoint"

    def act(self, lane: Lane, victim: Replica) -> Then:
        victim.process.signal(signal.SIGSTOP)
        try:
            lane.standby_leads()
            lane.settle(60)
        finally:
            threading.Timer(1.0, victim.process.signal, [signal.SIGCONT]).start()
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.standby_leads()
        lane.settle()
        time.sleep(_SHORT)
        lane.promote()


class Cut(Fault):
    name, about = "cut", f"no connection to the API server for {_SHORT:g} s"

    def act(self, lane: Lane, victim: Replica) -> Then:
        threading.Thread(target=victim.forwarder.cut).start()
        return Then.CUT

    def finish(self, lane: Lane, victim: Replica) -> None:
        time.sleep(_SHORT)
        victim.forwarder.heal()

    def again(self, part: str) -> float | None:
        """Evictions rest while more than 5 % of the requests of five minutes failed."""
        return None if part == "eviction" else _AGAIN


class OneWay(Cut):
    name, about = "one-way", f"requests arrive, and no answer comes back for {_SHORT:g} s"

    def act(self, lane: Lane, victim: Replica) -> Then:
        victim.forwarder.mute()
        return Then.GO_ON


class Gap(Fault):
    name, about = "gap", f"no exporter answers Prometheus for {_GAP:g} s, so that no load is known"

    def act(self, lane: Lane, victim: Replica) -> Then:
        lane.part.measured(False)
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        time.sleep(_GAP)
        lane.part.measured(True)


class Split(Cut):
    name, about = "split", "no connection until another one leads and has finished"
    standby = True

    def fits(self, part: str, kind: str, when: When) -> bool:
        return kind != "endpoint"

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.standby_leads()
        lane.settle()
        victim.forwarder.heal()
        time.sleep(_SHORT)
        lane.promote()


class Drip(Fault):
    name, about = "drip", "its answer drips, 20 bytes a second"

    def fits(self, part: str, kind: str, when: When) -> bool:
        return when is When.AFTER

    def act(self, lane: Lane, victim: Replica) -> Then:
        return Then.DRIP

    def finish(self, lane: Lane, victim: Replica) -> None:
        time.sleep(_SHORT)

    def again(self, part: str) -> float | None:
        """A workload rests after an eviction that was not answered."""
        return _AGAIN + FIRST_REST if part == "eviction" else _AGAIN


class RetryAfter(Fault):
    """Before the write, or instead of the answer to one that was done: a proxy may refuse either."""

    name, about = "retry-after", f"429 with a Retry-After of {RETRY_AFTER} s"

    def act(self, lane: Lane, victim: Replica) -> Then:
        return Then.REFUSE


class Delay(Fault):
    name, about = "delay", f"the request arrives, or its answer comes, {_SHORT:g} s late"

    def act(self, lane: Lane, victim: Replica) -> Then:
        time.sleep(_SHORT)
        return Then.GO_ON


class Clock(Fault):
    """The wall clock jumps and jumps back; monotonic time goes on."""

    def __init__(self, name: str, seconds: int) -> None:
        self.name, self.seconds = name, seconds
        self.about = f"the wall clock jumps by {seconds / 3600:+g} h, and back after {_SHORT:g} s"

    def possible(self) -> str | None:
        return None if FAKETIME.exists() else "Debian's libfaketime is not installed"

    def gear(self) -> Gear:
        return Gear(clock=True)

    def act(self, lane: Lane, victim: Replica) -> Then:
        victim.turn_clock(self.seconds)
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        time.sleep(_SHORT)
        victim.turn_clock(0)


class Disk(Fault):
    name, about = "disk", "the disk for logs and temporary files is full until all is done"

    def possible(self) -> str | None:
        return None if os.geteuid() == 0 else "only root can mount a small disk"

    def gear(self) -> Gear:
        return Gear(disk=True)

    def act(self, lane: Lane, victim: Replica) -> Then:
        victim.fill_disk()
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.settle()
        victim.empty_disk()


class SecondRelease(Fault):
    name, about = "second-release", "another Ballast with a Lease of its own does the same until it has finished too"

    def fits(self, part: str, kind: str, when: When) -> bool:
        return part != "eviction"

    def act(self, lane: Lane, victim: Replica) -> Then:
        lane.second_release()
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        lane.end_second_release()

    def again(self, part: str) -> float | None:
        """A node on which two have written different things keeps its taint for ten quiet minutes."""
        return None if part == "labels" else _AGAIN


class OtherRelease(SecondRelease, Upgrade):
    name, about = "other-release", "another Ballast, of another version (`--other`), does the same beside this one"

    def gear(self) -> Gear:
        return Gear()

    def act(self, lane: Lane, victim: Replica) -> Then:
        lane.second_release(Gear(source=self.source))
        return Then.GO_ON


class Shared(Fault):
    """Hits all lanes at once: `hold` is set by who makes it happen, and waits until it is over."""

    def __init__(self, name: str, about: str) -> None:
        self.name, self.about = name, about
        self.hold: Callable[[], None] = lambda: None

    def act(self, lane: Lane, victim: Replica) -> Then:
        self.hold()
        return Then.GO_ON

    def finish(self, lane: Lane, victim: Replica) -> None:
        """Evictions rest for minutes after an API server that failed too often; another daemon has not seen it."""
        if lane.part.name == "eviction":
            lane.succeed(Gear())


APISERVER = Shared("api-server", "SIGKILL of the API server, and its restart")
ETCD = Shared("etcd", "compaction up to now, SIGKILL of etcd, and its restart")
SLOW_ETCD = Shared("slow-etcd", "etcd lives, and works for a fifth of the time alone, for 15 s")
_ALL: tuple[Fault, ...] = (
    *(Kill(), Pause(), Freeze(), Cut(), Split(), Delay(), Drip(), RetryAfter(), Rollback(), APISERVER, ETCD),
    *(OneWay(), Gap(), SLOW_ETCD),
    *(
        Clock("clock+1h", 3600),
        Clock("clock-1h", -3600),
        Disk(),
        Upgrade(),
        Downgrade(),
        SecondRelease(),
        OtherRelease(),
    ),
)
FAULTS: dict[str, Fault] = {each.name: each for each in _ALL}
