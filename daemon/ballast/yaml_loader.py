"""YAML whose values are trees: none stands within itself, so whoever walks it comes to an end."""

from __future__ import annotations

from typing import Any

import yaml
from yaml.composer import ComposerError


class TreeLoader(yaml.SafeLoader):
    """A SafeLoader; raises yaml.YAMLError for an alias of a value that it stands in."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._open: set[str] = set()

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As in PyYAML."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        anchor, mark = event.anchor, event.start_mark
        if anchor is None:
            return super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            if anchor in self._open:
                raise ComposerError(None, None, f"*{anchor} stands within &{anchor} itself", mark)
            return super().compose_node(parent, index)
        self._open.add(anchor)
        try:
            return super().compose_node(parent, index)
        finally:
            self._open.discard(anchor)


def load(content: str | bytes) -> Any:
    """One document. Raises yaml.YAMLError, and what a SafeLoader raises."""
    return yaml.load(content, TreeLoader)  # noqa: S506 - a SafeLoader
