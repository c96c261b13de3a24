"""Work in processes of their own: an embedded cluster that takes no time from the daemon, and a measured daemon."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from ballast_lab.scaled_clock import ScaledClock

_spawn = multiprocessing.get_context("spawn")


class Simulated:
    """An embedded cluster in another process; may be handed to a third one."""

    def __init__(self, environment: dict[str, str], pipe: Connection, pid: int) -> None:
        self.environment = environment
        self.pid = pid
        self._pipe = pipe

    def queries(self) -> int:
        """How many queries its Prometheus has been asked."""
        self._pipe.send("queries")
        return int(self._pipe.recv())


class Shape(NamedTuple):
    """Of an embedded cluster: `name` of a node, with its row as {row}; pods a node; the scene."""

    name: str = ""
    pods: int = 2
    scene: str = "calm"
    realistic: bool = True
    speed: float = 1.0
    origin: tuple[float, float] | None = None
    """Of the faster clock: wall and monotonic seconds when it began, so that processes share it."""


PLAIN = Shape()


@contextmanager
def simulated(nodes: int, shape: Shape = PLAIN) -> Iterator[Simulated]:
    """By default a calm cluster with node objects of real size and two pods a node."""
    ours, theirs = _spawn.Pipe()
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        process = _spawn.Process(target=_serve, args=(theirs, nodes, folder, shape))
        process.start()
        try:
            environment = ours.recv()
            assert process.pid is not None
            yield Simulated(environment, ours, process.pid)
        finally:
            ours.send("stop")
            process.join()


def faster(speed: float, origin: tuple[float, float]) -> ScaledClock:
    """A clock that began at `origin`, in whichever process."""
    clock = ScaledClock(speed)
    clock._wall, clock._monotonic = origin
    return clock


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work(*arguments)` gives in a new process. Raises RuntimeError when it ends without an answer."""
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_answer, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise RuntimeError(f"{work.__qualname__} ended without an answer") from None
    finally:
        process.join()


def _answer(parent: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    parent.send(work(*arguments))


def _serve(parent: Connection, nodes: int, folder: str, shape: Shape) -> None:
    from ballast_lab.simulator import EmbeddedCluster, World

    clock = faster(shape.speed, shape.origin) if shape.origin else None
    world = World(nodes, clock=clock, pods=shape.pods * nodes, scene=shape.scene, realistic=shape.realistic)
    if shape.name:
        world.node_names = [shape.name.format(row=row) for row in range(nodes)]
        world.rows = {name: row for row, name in enumerate(world.node_names)}
    with EmbeddedCluster(world) as cluster:
        parent.send(cluster.environment(cluster.kubeconfig(Path(folder) / "kubeconfig")))
        while parent.recv() != "stop":
            parent.send(cluster.requests["query", "prometheus"])
