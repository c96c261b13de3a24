"""Where the pods that evictions set free will land: reservations, and whom the extender steers."""

from __future__ import annotations

from collections.abc import Iterable


class Landing:
    """Holds room for replacements and waiting pods in the extender."""

    def steered(self, scheduler_name: str) -> bool:
        """Whether the extender was asked for this scheduler in the last 10 minutes, so that it decides the landing."""
        raise NotImplementedError

    def may_probe(self, scheduler_name: str) -> bool:
        """Whether one eviction may show if its replacement is asked for; none is under way, none failed lately."""
        raise NotImplementedError

    def names(self, scheduler_names: Iterable[str]) -> frozenset[str]:
        """Those that are steered or may be probed: what `Rules.steered` is to be."""
        return frozenset(name for name in scheduler_names if self.steered(name) or self.may_probe(name))
