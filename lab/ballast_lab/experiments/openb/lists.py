"""Pods of the OpenB lists, and lists that are not at hand drawn again from those that are.

The published lists vary the list `default` in one share each. What eight of them show: `cpu` lists have so many
thousandths of pods without devices, and the same pods with devices; `gpushare` lists have as many pods with devices,
of which those that ask for a part of one ask for so many percent of all devices; `multigpu` lists have more pods of
several devices, until those ask for so many percent; `gpuspec` lists name models for so many percent of the pods with
devices. Which pods are repeated or dropped is drawn here, so a list has the shares of the published one, not its pods.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ballast.model.devices import MILLI

T = TypeVar("T")

REDRAWN = (
    *("cpu0", "cpu037", "cpu050", "cpu072", "cpu100", "cpu200", "cpu235", "cpu250", "cpu300"),
    *("gpushare20", "gpushare40", "gpushare60", "gpushare80", "gpushare100"),
    *("gpuspec05", "gpuspec10", "gpuspec20", "gpuspec25"),
    *("multigpu20", "multigpu30", "multigpu40", "multigpu50"),
)
"""The lists of the trace that can be drawn from `default` and `gpuspec33`: all but these two."""


@dataclass(frozen=True)
class PodKind:
    """Pods that ask for the same: milli-cores, MiB, and `milli` thousandths on each of `count` devices."""

    cpu: int
    memory: int
    count: int
    milli: int
    models: tuple[str, ...] = ()
    """The models of devices that will do; none: all."""

    @property
    def volume(self) -> int:
        """Thousandths of devices in all."""
        return self.count * self.milli


def redraw(name: str, read: Callable[[str], list[PodKind]]) -> list[PodKind]:
    """The pods of a list of REDRAWN, always the same; `read` gives those of `default` and `gpuspec33`."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    family = name.rstrip("0123456789")
    share = int(name.removeprefix(family)) / (1000 if family == "cpu" else 100)
    pods = read("gpuspec33" if family == "gpuspec" else "default")
    bare, with_devices = _apart(pods, lambda kind: not kind.volume)
    if family == "gpuspec":
        free = [replace(kind, models=()) for kind in with_devices]
        named = [row for row, kind in enumerate(with_devices) if kind.models]
        for row in _draw(random, named, min(len(named), round(share * len(with_devices)))):
            free[row] = with_devices[row]
        return bare + free
    if family == "cpu":
        return _draw(random, bare, round(share / (1 - share) * len(with_devices))) + with_devices
    if family == "multigpu":
        several, others = _apart(with_devices, lambda kind: kind.count > 1)
        goal = share / (1 - share) * _volume(others)
        return bare + others + _draw(random, several, round(goal / _volume(several) * len(several)))
    parts, others = _apart(with_devices, lambda kind: kind.milli < MILLI)
    mean, other_mean = _volume(parts) / len(parts), _volume(others) / len(others)
    number = round(len(with_devices) * share * other_mean / (share * other_mean + (1 - share) * mean))
    return bare + _draw(random, parts, number) + _draw(random, others, len(with_devices) - number)


def _apart(pods: Sequence[PodKind], first: Callable[[PodKind], bool]) -> tuple[list[PodKind], list[PodKind]]:
    return [kind for kind in pods if first(kind)], [kind for kind in pods if not first(kind)]


def _volume(pods: Sequence[PodKind]) -> int:
    return sum(kind.volume for kind in pods)


def _draw(random: np.random.Generator, pods: Sequence[T], number: int) -> list[T]:
    """So many of them: each as often as all can be, and some once more."""
    if not pods:
        return []
    rest = random.permutation(len(pods))[: number % len(pods)].tolist()
    return [*pods] * (number // len(pods)) + [pods[row] for row in rest]
