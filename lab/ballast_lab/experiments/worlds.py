"""The worlds of the experiments, and the lists of pods that arrive in them.

A world has the sizes of its nodes and twelve requests: dev, small, medium and large of a Redis cache, a persistent
Redis and a MongoDB. Six worlds were selected so that kube-scheduler places about 542 pods of the list of seed 0, as in
the paper; the other four are ordinary ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np

from ballast.base.errors import NOT_JSON, UsageError
from ballast.model.node import Node
from ballast.model.sample import Floats, Ints
from ballast.model.shape import ContainerShape, Shape, shape_of

RESOURCES = ("cpu", "memory", "ephemeral-storage")
SIZES = ("dev", "small", "medium", "large")
KINDS = ("cache", "persistent", "mongo")
CALIBRATED = ("R1", "R2", "R3", "R4", "near12_0", "near12_2")
PODS = 1000

# Shares of the paper: Redis 75 %, of which caches 85 %; MongoDB 25 %.
_KIND_SHARES = (0.75 * 0.85, 0.75 * 0.15, 0.25)
_SIZE_SHARES = (0.5, 0.25, 0.125, 0.125)
SHARES: Floats = np.outer(_KIND_SHARES, _SIZE_SHARES).reshape(-1)

# The units of a file: millicores, MiB and GiB.
_UNITS = (1, 2**20, 2**30)


@dataclass(frozen=True)
class LoadWorld:
    """`nodes` [node, resource] and `requests` [profile, resource] in millicores and bytes, in order of RESOURCES."""

    name: str
    nodes: Ints
    requests: Ints

    def fleet(self) -> tuple[Node, ...]:
        """[node]: the nodes, without pods."""
        return tuple(Node(f"n{row:04d}", allocatable=_amounts(each)) for row, each in enumerate(self.nodes.tolist()))

    def shapes(self) -> tuple[Shape, ...]:
        """[profile]: the shapes of the pods."""
        return tuple(shape_of([ContainerShape(_amounts(each))]) for each in self.requests.tolist())


def places(worlds: Sequence[LoadWorld], seeds: Sequence[int], *, turns: bool = False) -> list[tuple[LoadWorld, int]]:
    """Every list of pods in every world, or in `turns`: each in the next one."""
    if turns:
        return [(worlds[number % len(worlds)], seed) for number, seed in enumerate(seeds)]
    return [(world, seed) for world in worlds for seed in seeds]


def worlds(path: Path | None = None) -> dict[str, LoadWorld]:
    """The worlds shipped with Ballast, or those of a file, by name. Raises UsageError for an invalid file."""
    where = "the worlds of Ballast" if path is None else f"--worlds {path}"
    try:
        text = (
            (files("ballast_lab.experiments") / "data/worlds.json").read_bytes() if path is None else path.read_bytes()
        )
        found = msgspec.json.decode(text, type=dict[str, _FileWorld])
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}.") from None
    except NOT_JSON as error:
        raise UsageError(f'{where}: {error}. A world is "name": {{"R": 12 × [mCPU, MiB, GiB], "A0": …}}.') from None
    if not found:
        raise UsageError(f"{where}: there is no world in it.")
    return {name: _world(name, each, where) for name, each in found.items()}


def arrivals(seed: int, count: int = PODS) -> Ints:
    """[pod]: profiles in the order of arrival; their shares are as in the paper, the order is drawn from the seed."""
    exact = SHARES * count
    numbers = np.floor(exact).astype(np.int64)
    rest = np.argsort(-(exact - numbers), kind="stable")[: count - int(numbers.sum())]
    numbers[rest] += 1
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(SHARES)), numbers))


class _FileWorld(msgspec.Struct):
    R: list[tuple[int, int, int]]
    A0: list[tuple[int, int, int]]


def _world(name: str, world: _FileWorld, where: str) -> LoadWorld:
    if len(world.R) != len(SHARES):
        raise UsageError(f"{where}: {name} has {len(world.R)} requests (R); it needs {len(SHARES)}.")
    if not world.A0:
        raise UsageError(f"{where}: {name} has no nodes (A0).")
    for what, rows in (("R", world.R), ("A0", world.A0)):
        if min(map(min, rows)) < 0 or max(map(max, rows)) >= 2**32:
            raise UsageError(f"{where}: {name} has an amount in {what} that is below 0 or too large.")
    return LoadWorld(name, _table(world.A0), _table(world.R))


def _table(rows: Sequence[tuple[int, int, int]]) -> Ints:
    return np.array(rows, np.int64) * np.array(_UNITS, np.int64)


def _amounts(row: Sequence[int]) -> Mapping[str, float]:
    amounts = (row[0] / 1000, float(row[1]), float(row[2]))
    return {name: amount for name, amount in zip(RESOURCES, amounts, strict=True) if amount}
