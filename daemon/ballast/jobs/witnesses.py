"""Two sources about the same nodes: where they differ by more than their ways of measuring, one of them is wrong."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ballast.model.sample import Floats
from ballast.model.snapshot import Window

TOLERANCE = {"cpu": 0.15, "memory": 0.25}
"""Largest difference of two means that is none, as a share of capacity.

Memory is measured in two ways: the working set holds active page cache that the kernel counts as available.
"""

ENOUGH = 0.5
"""Share of the compared nodes that have to differ."""

WITNESS_EVERY = 60.0
"""Seconds between two questions to a source that is only a witness."""

RETRIED = 600.0
"""Seconds until a witness that failed is asked again."""


class Witness:
    """When the fallback is asked: at each reading while it is needed, else so seldom that its windows stay known."""

    def __init__(self) -> None:
        self._due = -np.inf
        self.asked = -np.inf
        """When it was read last, Unix seconds."""

    def choose(self, at: float, known: Sequence[str], needed: Sequence[str]) -> list[str]:
        """Of the resources that it knows those to read at the Unix time `at`."""
        due = at >= self._due or at < self._due - RETRIED
        return list(known) if needed or due else []

    def record_answer(self, at: float, *, failed: bool) -> None:
        """It was read at `at`."""
        self.asked = at
        self._due = at + (RETRIED if failed else WITNESS_EVERY)


def disagreements(resources: Sequence[str], ours: Window, theirs: Window, sources: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each resource of which most nodes differ; `sources` names where each comes from now."""
    for row, resource in enumerate(resources):
        if resource not in TOLERANCE or sources.get(resource) == "metrics-server":
            continue
        compared = ours.known[row] & theirs.known[row]
        if said := apart(resource, (ours.mean[row] - theirs.mean[row])[compared]):
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
