"""Snapshots and servers for the tests of serving."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot, Window
from ballast.serving.board import Board, DaemonAnswers
from ballast.serving.rendering import render
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast.settings.plain_parts import HttpSettings
from tests.worlds.clock import FakeClock

TIME = 1_700_000_000.0
LENGTHS = {"15m": 900.0, "10m": 600.0, "5m": 300.0}


LOOPBACK = HttpSettings(host="127.0.0.1", port=0)


def snapshot(
    mean: Sequence[Sequence[float]],
    std: Sequence[Sequence[float]] | None = None,
    *,
    resources: Sequence[str] = ("cpu", "memory"),
    share: Sequence[Sequence[float]] | None = None,
    known: Sequence[Sequence[bool]] | None = None,
    young: Sequence[bool] | None = None,
    time: float = TIME,
    names: Sequence[str] | None = None,
) -> Snapshot:
    """`mean[resource][node]`; NaN is not known. The second node label carries what was published."""
    means = np.array(mean, dtype=float)
    stds = np.array(std, dtype=float) if std is not None else np.where(np.isnan(means), np.nan, 0.05)
    knows = np.isfinite(means) if known is None else np.array(known, dtype=bool)
    count = means.shape[1]
    node_names = names if names is not None else [f"node-{number}" for number in range(count)]
    windows = {
        name: Window(
            name=name,
            seconds=seconds,
            mean=means,
            std=stds,
            p95=np.minimum(means + 2 * stds, 1.0),
            count=np.where(knows, 60, 0),
            coverage=np.where(knows, 1.0, 0.0),
            known=knows,
        )
        for name, seconds in LENGTHS.items()
    }
    primary = [row for row, name in enumerate(resources) if name in ("cpu", "memory")]
    known_nodes = knows[primary].all(axis=0)
    return Snapshot(
        time=time,
        nodes=tuple(Node(name, labels={"ballast.dev/load": "normal"}) for name in node_names),
        resources=tuple(resources),
        windows=windows,
        newest=np.where(knows, time - 12.0, np.nan),
        allocatable_share=np.ones_like(means) if share is None else np.array(share, dtype=float),
        states=NodeStates.of(known_nodes, None if young is None else np.array(young, bool), len(resources)),
        sources=dict.fromkeys(resources, "prometheus"),
    )


def fleet(count: int, seed: int = 1) -> Snapshot:
    """Many nodes with loads of full precision."""
    random = np.random.default_rng(seed)
    names = [f"ip-10-0-{number // 256}-{number % 256}.eu-central-1.compute.internal" for number in range(count)]
    return snapshot(random.uniform(0, 1, (2, count)), random.uniform(0, 0.1, (2, count)), names=names)


def board_of(taken: Snapshot | None, *, scores: dict[str, int | None] | None = None, frozen: bool = False) -> Board:
    """A board as the daemon leaves it after a cycle."""
    board = Board(clock=FakeClock(TIME + 15), frozen=frozen)
    if taken is not None:
        default = {node.name: 50 if known else None for node, known in zip(taken.nodes, taken.known, strict=True)}
        board.snapshot = taken
        board.scores = scores if scores is not None else default
        board.rendered = render(taken, board.scores, frozen=frozen)
        board.high = {"cpu": 0.8, "memory": 0.8}
        board.history.observe(taken, board.scores, board.high)
    return board


@contextmanager
def serving(board: Board, http: HttpSettings = LOOPBACK, answers: DaemonAnswers | None = None) -> Iterator[int]:
    """A running server over `board`; yields its port."""
    server = Server(create_app(board, Metrics(), answers=answers), http)
    port = server.start()
    try:
        yield port
    finally:
        server.stop()
