"""YAML whose values are trees: none stands within itself, so whoever walks it comes to an end."""

from typing import Any

import yaml
from yaml.composer import ComposerError

MOST_REPEATED = 1_000_000
"""Values that aliases may stand for in all: a few lines of aliases of aliases stand for more than memory holds."""


class TreeLoader(yaml.SafeLoader):
    """A SafeLoader; raises yaml.YAMLError for an alias of a value that it stands in, and for too many repetitions."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._open: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._values = self._repeated = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As in PyYAML."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        anchor, mark = event.anchor, event.start_mark
        if isinstance(event, yaml.AliasEvent):
            if anchor in self._open:
                raise ComposerError(None, None, f"*{anchor} stands within &{anchor} itself", mark)
            size = self._sizes.get(anchor, 0)
            self._values += size
            self._repeated += size
            if self._repeated > MOST_REPEATED:
                raise ComposerError(None, None, f"aliases stand for more than {MOST_REPEATED:,} values", mark)
            return super().compose_node(parent, index)
        self._values += 1
        if anchor is None:
            return super().compose_node(parent, index)
        self._open.add(anchor)
        before = self._values - 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._open.discard(anchor)
            self._sizes[anchor] = self._values - before


def load(content: str | bytes) -> Any:
    """One document. Raises yaml.YAMLError, and what a SafeLoader raises."""
    return yaml.load(content, TreeLoader)  # noqa: S506 - a SafeLoader
