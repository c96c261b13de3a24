"""What cannot be of a value, in words."""

from collections.abc import Mapping

import numpy as np

from ballast.model.sample import Bools, Floats, Ints, ReadingProblem
from ballast.telemetry.exporters.terms import IMPOSSIBLE
from ballast.telemetry.intake import largest_ratio
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.queries import Query

_NAMED = 300
"""Nodes of one answer of which it is said what cannot be."""


def find_impossible(
    question: Query, rows: Ints, values: Floats, chosen: Bools, names: NodeNames
) -> tuple[dict[str, str], Bools]:
    """What cannot be of the `chosen` values, by node; and which of them no value was told of."""
    broken = chosen & (rows >= 0) & ((values < 0) | (values > largest_ratio(question.resource)))
    said = {
        names.nodes[rows[row]].name: _why_not(question, float(values[row]))
        for row in np.flatnonzero(broken).tolist()[:_NAMED]
    }
    return said, broken & (values == IMPOSSIBLE) & (question.preset is not None)


def _why_not(question: Query, value: float) -> str:
    """What cannot be of this value."""
    if question.preset is not None and value == IMPOSSIBLE:
        return "a counter of its cores went back, or their modes do not add up to the time lived"
    return f"its {question.resource} would be {value:.3g}, where 0 to {largest_ratio(question.resource):g} can be"


def none_can_be(question: Query, impossible: Mapping[str, str]) -> ReadingProblem:
    """Where no node has a value that can be."""
    name = min(impossible)
    return ReadingProblem(
        "unreadable",
        f"no value of {question.resource} can be, for example of {name}: {impossible[name]}; look at the exporters, at "
        "what is stored of them, or at its query in BALLAST_TELEMETRY__RESOURCES",
    )
