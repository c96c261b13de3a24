"""Weights of single nodes and of kinds of nodes: what a node's load of a resource counts as.

Source: equation 9 of Hu and Xue, Kubernetes resource scheduling based on a genetic algorithm (Computer Systems &
Applications 30(9), 2021): with a weight of .5 a node is even with the others when it carries twice as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ballast.model.selector import parse

if TYPE_CHECKING:
    from ballast.model.node import Node
    from ballast.model.sample import Floats

NodeWeights: TypeAlias = Mapping[str, Mapping[str, float]]
"""{name of a node, or label selector: {resource: weight above 0}}."""

NO_NODE_WEIGHTS: NodeWeights = {}
LEAST, MOST = 0.001, 10.0
"""Of a weight."""


def is_selector(key: str) -> bool:
    """Whether a key selects nodes by labels; any other is the name of a node, which has none of these characters."""
    return any(character in key for character in "=!(/, ")


def node_factors(weights: NodeWeights, nodes: Sequence[Node], resources: Sequence[str]) -> Floats:
    """[node, resource]: 1 where nothing is said. What is said of a node by name stands alone; labels multiply."""
    import numpy as np  # Commands about settings read this module, and need no numpy.

    factors = np.ones((len(nodes), len(resources)))
    columns = {name: column for column, name in enumerate(resources)}
    rows = {node.name: row for row, node in enumerate(nodes)}
    for key in filter(is_selector, weights):
        selector = parse(key)
        selected = np.array([selector.matches(node.labels) for node in nodes], bool)
        for resource, weight in weights[key].items():
            if resource in columns:
                factors[selected, columns[resource]] *= weight
    for key in rows.keys() & weights.keys():
        for resource, weight in weights[key].items():
            if resource in columns:
                factors[rows[key], columns[resource]] = weight
    return factors
