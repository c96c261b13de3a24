"""A world of equal nodes with equal mean load, in which every pod's use is noisy; one node can be made hot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from ballast.base.clock import Clock
from ballast.eviction.checks.limits import OVERLOADED
from ballast.model.sample import Floats
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import until
from ballast_lab.simulator import World
from ballast_lab.simulator.objects import GIB
from ballast_lab.simulator.usage import Usage
from ballast_lab.simulator.world import SHAPES
from tests.worlds.daemons import Rig, rig

MEAN, HIGH, WINDOW, STEP = 0.6, 0.8, 900.0, 30.0
_KNOTS, _COLUMNS = 1021, 8191
_STOCK = "default-scheduler"


class EvenWorld(World):
    """`each` pods a node; what one uses is its mean times 1 + `noise` z, with another z every half minute."""

    def __init__(
        self, nodes: int, seed: int, clock: Clock, *, scene: str = "calm", each: int = 20, noise: float = 0.05
    ) -> None:
        super().__init__(nodes, seed, clock, pods=nodes * each, scene=scene)
        shape, every = SHAPES[2], np.ones(nodes)
        self.shapes = [shape] * nodes
        self.usage = Usage(
            self._generator, shape.cores * every, shape.gib * GIB * every, shape.link * every, breathing=False
        )
        self.workloads = self._make_workloads(nodes * each)
        self._each, self._noise = each, noise
        self._drawn = np.random.default_rng(seed).standard_normal((2, _KNOTS, _COLUMNS)).astype(np.float32)
        self._shares: dict[tuple[str, str], float] = {}

    def heat(self, row: int, load: float) -> None:
        """From now on the pods of one node use so much of it, wherever they are."""
        hot = [key for key in self._known() if self._home(key) == row]
        self._shares.update({key: load / MEAN * self._shares[key] for key in hot})

    def ratio(self, resource: str, times: Floats | Sequence[float]) -> Floats:
        """[node, time]: what the pods that are there now use."""
        if resource not in ("cpu", "memory"):
            return super().ratio(resource, times)
        with self.lock:
            keys = [key for key, member in self.members.items() if member.running]
            home = np.array([self.members[key].node for key in keys], np.int64)
            used = (self._used(resource, keys, at) for at in np.asarray(times).tolist())
            found = [np.bincount(home, each, len(self.node_names)) for each in used]
        return np.asarray(np.round(np.stack(found, axis=1), 4), float)

    def use_of_pods(self, resource: str, keys: Sequence[tuple[str, str]], times: Floats) -> Floats:
        """As `World.use_of_pods`: [pod, time]."""
        if resource not in ("cpu", "memory"):
            return super().use_of_pods(resource, keys, times)
        whole = float(self.usage.cores[0] if resource == "cpu" else self.usage.memory[0])
        return np.stack([whole * self._used(resource, keys, time) for time in times.tolist()], axis=1)

    def _used(self, resource: str, keys: Sequence[tuple[str, str]], time: float) -> Floats:
        """[pod]: shares of a node."""
        shares = self._known()
        drawn = self._drawn[int(resource == "memory"), int(time // STEP) % _KNOTS]
        z = drawn[[crc32("/".join(key).encode()) % _COLUMNS for key in keys]]
        return np.asarray(np.array([shares[key] for key in keys]) * (1 + self._noise * z.astype(float)), float)

    def _known(self) -> dict[tuple[str, str], float]:
        if not self._shares:
            counts = np.bincount([member.node for member in self.members.values()], minlength=len(self.node_names))
            self._shares = {key: MEAN / counts[member.node] for key, member in self.members.items()}
        for key in self.members.keys() - self._shares.keys():
            self._shares[key] = MEAN / self._each
        return self._shares

    def _home(self, key: tuple[str, str]) -> int:
        return self.members[key].node


def noisy_day(folder: Path, nodes: int, each: int, noise: float, minutes: int) -> tuple[int, int | None]:
    """Evictions while only noise tells nodes apart. Then one has 95 %: cycles with its window above HIGH until the
    first eviction by `relieve`, whatever others took from it before; None without any in 25 minutes."""

    def world(*args: Any, **more: Any) -> World:
        return EvenWorld(*args, each=each, noise=noise, **more)

    with rig(folder, nodes=nodes, world=world) as one:
        daemon = one.daemon(EVICTION__MODE="on", PUBLISHING__MODE="off")
        assert daemon.context.workloads.wait_synced(20)
        until(lambda: daemon.context.switches.paused("eviction") is None, "the switches")
        for _ in range(minutes):
            _minute(one, daemon)
        moved = _evictions(one)
        assert isinstance(one.world, EvenWorld)
        one.world.heat(nodes // 2, 0.95)
        heated, seen = one.clock.wall(), 0
        for _ in range(25):
            _minute(one, daemon)
            hot = min(WINDOW, one.clock.wall() - heated) / WINDOW
            seen += MEAN + (0.95 - MEAN) * hot > HIGH
            history = daemon.eviction.moments._evictor.history()
            if history.by_planner.get("relieve") or history.of_own_rate.get(OVERLOADED):
                return moved, seen
        return moved, None


def overloaded_node(folder: Path, nodes: int, each: int, load: float, ready_in: float = 0.0) -> tuple[int | None, int]:
    """One node has so much load from one moment to the next: cycles after the one in which its shortest window is at
    0.9 until it uses less than HIGH, None without; and the evictions until then. New pods are Ready after `ready_in`
    seconds."""

    def world(*args: Any, **more: Any) -> World:
        return EvenWorld(*args, each=each, noise=0.02, **more)

    with rig(folder, nodes=nodes, world=world) as one:
        daemon = one.daemon(EVICTION__MODE="on", PUBLISHING__MODE="off", EVICTION__PLANNERS="relieve")
        one.cluster.ask_extender(daemon.url.rstrip("/") + "/scheduler")
        one.cluster.slow_start(ready_in)
        assert daemon.context.workloads.wait_synced(20)
        until(lambda: daemon.context.switches.paused("eviction") is None, "the switches")
        for _ in range(20):
            _minute(one, daemon)
        assert isinstance(one.world, EvenWorld)
        row = nodes // 2
        one.world.heat(row, load)
        shown = 0
        for _ in range(25):
            _minute(one, daemon)
            until(
                lambda: not one.cluster._controllers._waiting and not one.cluster._controllers._terminating, "landing"
            )
            snapshot = daemon.board.snapshot
            assert snapshot is not None
            shown += shown > 0 or float(snapshot.shortest.mean[0, snapshot.rows[one.world.node_names[row]]]) >= 0.9
            if shown and float(one.world.ratio("cpu", [one.clock.wall()])[row, 0]) < HIGH:
                return shown - 1, _evictions(one)
        return None, _evictions(one)


def _minute(one: Rig, daemon: Daemon) -> None:
    for _ in range(2):
        one.advance()
        one.cluster.make_ready()
        one.watch(daemon)
    daemon.extender.reservations._asked[_STOCK] = daemon.context.clock.monotonic()
    daemon.scheduler.run("eviction")


def _evictions(one: Rig) -> int:
    return one.patches().get("pods/eviction", 0)
