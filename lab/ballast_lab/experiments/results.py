"""What an experiment found: numbers beside the published ones, a table in Markdown, and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ballast_lab.experiments.intervals import Interval


@dataclass(frozen=True)
class ResultRow:
    """One number; `published` is None where nobody has published it."""

    table: str
    name: str
    published: float | None
    measured: float
    interval: Interval | None = None
    """95 % of the mean over seeds; None for a number without seeds."""


@dataclass(frozen=True)
class Results:
    """`table` is Markdown; `figures` are SVG texts by file name; `details` are further keys of the document."""

    experiment: str
    rows: tuple[ResultRow, ...]
    table: str
    figures: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The content of `results.json`."""
        rows = []
        for row in self.rows:
            number = {"table": row.table, "name": row.name, "published": row.published, "measured": row.measured}
            low_high = {} if row.interval is None else {"low": row.interval[0], "high": row.interval[1]}
            rows.append({**number, **low_high})
        return {"experiment": self.experiment, "rows": rows, **self.details}


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with a line break at its end."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
