"""A figure drawn by matplotlib, as an SVG text."""

from __future__ import annotations

import io
from collections.abc import Mapping

import matplotlib as mpl
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

RED, BLUE, GREY = "tab:red", "tab:blue", "tab:gray"


PLAIN = {"Date": None, "Creator": None}
"""Nothing of when and by what a figure was made, so that the same data give the same text."""


class Sheet:
    """One figure with a title. The same data give the same text; the words in it stay words."""

    def __init__(self, title: str, height: float = 4.2, *, dark: bool = False) -> None:
        look = style.library["dark_background"] if dark else {}
        self._dark = dark
        self._look = {**look, "svg.fonttype": "none", "svg.hashsalt": "ballast"}
        with mpl.rc_context(self._look):
            self._figure = Figure(figsize=(7.6, height), layout="constrained")
            self.axes: Axes = self._figure.add_subplot()
            self._figure.suptitle(title, x=0.01, ha="left")
            self.axes.spines[["top", "right"]].set_visible(False)

    def name_series(self, columns: int) -> None:
        """The names of what is drawn, below it."""
        with mpl.rc_context(self._look):
            self._figure.legend(loc="outside lower left", ncols=columns, frameon=False)

    def svg(self) -> str:
        """The figure as text."""
        out = io.StringIO()
        with mpl.rc_context(self._look):
            self._figure.savefig(out, format="svg", transparent=self._dark, metadata=PLAIN)
        return out.getvalue().partition("<svg")[1] + out.getvalue().partition("<svg")[2]


def dots(title: str, values: Mapping[str, Mapping[str, float]], axis: tuple[float, float]) -> str:
    """One line of dots for each key of `values`, one colour for each key below; `axis` is the range shown."""
    sheet = Sheet(title, 1.4 + 0.24 * len(values))
    series = list(dict.fromkeys(name for each in values.values() for name in each))
    for name in series:
        rows = [label for label, each in values.items() if name in each]
        found = [min(max(values[label][name], axis[0]), axis[1]) for label in rows]
        sheet.axes.plot(found, rows, "o", label=name, clip_on=False)
    sheet.axes.set_xlim(*axis)
    sheet.axes.invert_yaxis()
    sheet.axes.grid(axis="x", alpha=0.3)
    sheet.name_series(5)
    return sheet.svg()
