"""The interface of telemetry sources."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from ballast.model.sample import Reading
from ballast.telemetry.node_names import NodeNames


class Source(Protocol):
    """Reads the nodes' samples. A failing query costs its resource only: a sentence in `Reading.problems`.

    What is rejected is in `Reading.rejected`; the reader of it counts that.
    """

    @property
    def name(self) -> str:
        """`prometheus` or `metrics-server`; windows of different sources never mix."""

    @property
    def resources(self) -> tuple[str, ...]:
        """What can be read, in the order of the setting."""

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        """The samples at the evaluation time `at` (Unix seconds, a multiple of the interval)."""

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        """One reading per grid time from `start` to `end`, ascending; nothing from a source without history."""

    def close(self) -> None:
        """Cancels the queries under way and frees the connections."""
