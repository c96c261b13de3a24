"""The matrix: write x before or after x fault x part."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ballast_lab.faults.faults import FAULTS
from ballast_lab.faults.forwarder import When
from ballast_lab.faults.parts.registry import PARTS

AT_START = ("endpoint",)
"""Kinds that a new leader writes once."""
_MOST_NTH = {"labels": 2, "taint": 2, "scale": 2, "cap": 2, "gate": 4}


@dataclass(frozen=True)
class Cell:
    part: str
    kind: str
    when: When
    fault: str

    def __str__(self) -> str:
        return f"{self.part} {self.kind} {self.when} {self.fault}"


def all_cells() -> list[Cell]:
    """In a fixed order."""
    return [
        Cell(part.name, kind, when, fault.name)
        for fault in FAULTS.values()
        for part in PARTS.values()
        for kind in (*part.kinds, *AT_START)
        for when in When
        if fault.fits(part.name, kind, when)
    ]


def chosen(cells: Sequence[Cell], seed: int, count: int | None, rounds: int) -> list[Cell]:
    """In a random order, each so many times; of a sample of `count` each fault and each kind comes about equally."""
    dice = random.Random(seed)
    mixed = list(cells)
    dice.shuffle(mixed)
    if count is not None:
        mixed = list(_spread(mixed, count))
    return [cell for _ in range(rounds) for cell in dice.sample(mixed, len(mixed))]


def _spread(cells: Sequence[Cell], count: int) -> Iterable[Cell]:
    """Of the cells left, always one whose fault, and then kind, was taken least."""
    left, faults, kinds = list(cells), dict[str, int](), dict[str, int]()
    for _ in range(min(count, len(left))):
        cell = min(left, key=lambda each: (faults.get(each.fault, 0), kinds.get(f"{each.part} {each.kind}", 0)))
        left.remove(cell)
        faults[cell.fault] = faults.get(cell.fault, 0) + 1
        kinds[f"{cell.part} {cell.kind}"] = kinds.get(f"{cell.part} {cell.kind}", 0) + 1
        yield cell


def nth(cell: Cell, dice: random.Random) -> int:
    """At which write of its kind after the stimulus the fault comes."""
    return dice.randint(1, _MOST_NTH.get(cell.kind, 1))
