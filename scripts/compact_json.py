"""JSON for generated files that are committed: short to read, and a change shows in the line where it is."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 120


def compact_json(value: Any, before: str = "") -> str:
    """What fits into a line with `before` ahead of it is one line; the rest has a line for each entry."""
    line = json.dumps(value)
    if len(before) + len(line) < WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inside = " " * (len(before) - len(before.lstrip()) + 2)
    if isinstance(value, list):
        entries, ends = [inside + compact_json(entry, inside) for entry in value], "[]"
    else:
        heads = [(f"{inside}{json.dumps(name)}: ", entry) for name, entry in value.items()]
        entries, ends = [head + compact_json(entry, head) for head, entry in heads], "{}"
    return "\n".join([ends[0], ",\n".join(entries), inside[2:] + ends[1]])
