"""Two sources about the same nodes: where they differ by more than their ways of measuring, one of them is wrong."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.windows.node_lives import NodeKey
from ballast.windows.ring import Ring

TOLERANCE = {"cpu": 0.15, "memory": 0.25}
"""Largest difference of two means that is none, as a share of capacity."""

ENOUGH = 0.5
"""Share of the compared nodes that have to differ."""

WITNESS_EVERY = 60.0
"""Seconds between two questions to a source that is only a witness."""

RETRIED = 600.0
"""Seconds until a witness that failed is asked again."""

DISPUTED_BY = 0.2
"""Difference of one node's means, as a share of capacity, beyond which one of its sources is wrong."""

DISPUTED_OVER = 300.0
"""Seconds over which these means are taken: shorter bursts reach the two sources at different times."""

CYCLES = 3
"""Comparisons in a row that make a node disputed."""


class Witness:
    """When the fallback is asked: at each reading while it is needed, else so seldom that its windows stay known."""

    def __init__(self) -> None:
        self._due = -np.inf
        self.asked = -np.inf
        """When it was read last, Unix seconds."""

    def choose(self, at: float, known: Sequence[str], *, needed: bool) -> list[str]:
        """Of the resources that it knows those to read at the Unix time `at`."""
        due = at >= self._due or at < self._due - RETRIED
        return list(known) if needed or due else []

    def record_answer(self, at: float, *, failed: bool) -> None:
        """It was read at `at`."""
        self.asked = at
        self._due = at + (RETRIED if failed else WITNESS_EVERY)


class Disputes:
    """The nodes of which the two sources differ, from comparison to comparison."""

    def __init__(self, forget_after: float) -> None:
        """What cannot be compared any more stays disputed for `forget_after` seconds."""
        self._forget_after = forget_after
        self._counts: dict[NodeKey, tuple[int, float]] = {}
        self._sides: dict[NodeKey, tuple[str, ...]] = {}

    @property
    def suspects(self) -> bool:
        """Whether any node differed at the last comparison, so that the next reading should be compared too."""
        return bool(self._counts)

    def compare(self, at: float, keys: Sequence[NodeKey], resources: Sequence[str], gap: Floats) -> None:
        """`gap` [resource, node] is ours minus metrics-server's at Unix time `at`, NaN where one of them is missing."""
        above, below = differing(gap)
        differs = np.asarray((above | below).any(axis=0))
        compared = np.asarray(np.isfinite(gap).any(axis=0))
        rows = {key: row for row, key in enumerate(keys)}
        kept = {
            key: value
            for key, value in self._counts.items()
            if (row := rows.get(key)) is not None
            and (differs[row] or (not compared[row] and at - value[1] < self._forget_after))
        }
        for row in np.flatnonzero(differs).tolist():
            kept[keys[row]] = (min(kept.get(keys[row], (0, at))[0] + 1, CYCLES), at)
            self._sides[keys[row]] = tuple(
                f"{name} {'above' if above[index, row] else 'below'}"
                for index, name in enumerate(resources)
                if above[index, row] or below[index, row]
            )
        self._counts = kept
        self._sides = {key: self._sides[key] for key in kept}

    def disputed(self, keys: Sequence[NodeKey]) -> Bools:
        """[node]."""
        return np.array([self._counts.get(key, (0, 0.0))[0] >= CYCLES for key in keys], bool)

    def sides(self) -> dict[str, list[str]]:
        """What differs and how, such as "cpu above" → the names of its nodes."""
        by_side: dict[str, list[str]] = {}
        for key, sides in self._sides.items():
            for side in sides if self._counts[key][0] >= CYCLES else ():
                by_side.setdefault(side, []).append(key[0])
        return {side: sorted(names) for side, names in sorted(by_side.items())}


def differing(gap: Floats) -> tuple[Bools, Bools]:
    """[resource, node]: where ours is far above metrics-server's, and far below."""
    known = np.nan_to_num(gap, nan=0.0)
    return known > DISPUTED_BY, known < -DISPUTED_BY


def unexplained(gap: Floats, of_working_sets: Floats, *, below: bool = False) -> Floats:
    """[node]: the difference of memory from metrics-server's, as far as it is none of measuring; else NaN.

    `gap` is ours less its working set, `of_working_sets` the most that a working set can be less its: all but free
    memory and page cache that is not active. Between the two lies what one kernel or kubelet counts and another does
    not: active page cache, slab, ZFS' cache. Where that most is not told, one node may be below by any amount; where
    most nodes are `below`, that says something all the same.
    """
    lower = np.where(np.isfinite(of_working_sets), np.minimum(of_working_sets, 0.0), gap if below else np.nan)
    return np.where(gap > 0, gap, lower)


def paired_gap(ours: Ring, theirs: Ring, keys: Sequence[NodeKey], at: float, its: slice = slice(None)) -> Floats:
    """[resource, node]: mean difference over the slots of DISPUTED_OVER seconds that both have; NaN without one.

    `its` are the resources of `theirs`, where `ours` has but these.
    """
    newest = ours.slot(at)
    slots = np.arange(newest - max(CYCLES, int(min(DISPUTED_OVER, ours.span) / ours.step)) + 1, newest + 1)
    values, present = zip(*(_last(ring, ring.columns(keys), slots) for ring in (ours, theirs)), strict=True)
    both = present[0] & present[1][:, its]
    count = both.sum(axis=0)
    total = np.where(both, values[0] - values[1][:, its], 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _last(ring: Ring, columns: Ints, slots: Ints) -> tuple[Floats, Bools]:
    rows = slots % ring.rows
    values = ring.values[rows][:, :, columns]
    return values, np.isfinite(values) & (ring.slots[rows] == slots[:, None])[:, :, None]


def disagreements(resources: Sequence[str], gap: Floats, sources: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each resource of which most nodes differ; `sources` names where each comes from now.

    `gap` is [resource, node], as Disputes compares it.
    """
    for row, resource in enumerate(resources):
        if resource not in TOLERANCE or sources.get(resource) == "metrics-server":
            continue
        if said := apart(resource, gap[row][np.isfinite(gap[row])]):
            yield said


def apart(resource: str, gap: Floats) -> str:
    """A sentence where most of these differences, ours minus those of metrics-server, are no matter of measuring."""
    tolerance = TOLERANCE[resource]
    for side, beyond in (("above", gap > tolerance), ("below", gap < -tolerance)):
        count = int(np.count_nonzero(beyond))
        if gap.size and count >= ENOUGH * gap.size:
            points = float(np.median(np.abs(gap[beyond]))) * 100
            return (
                f"{resource} of {count:,} of {gap.size:,} nodes is {_tens(points)} points or more {side} "
                f"metrics-server's; check the unit and the query of {resource} in BALLAST_TELEMETRY__RESOURCES, "
                "and that BALLAST_PROMETHEUS__MATCHERS leaves this cluster alone"
            )
    return ""


def _tens(points: float) -> int:
    """In steps, so that the sentence holds still."""
    return int(points // 10 * 10) or 10
