"""Builds a placement in one pass: the largest units first, each to the node where it costs least."""

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.solving.assignment import Assignment
from ballast.solving.units import Units

# Units whose costs are computed together.
_BLOCK = 64
# After this many units the loads are summed again.
_AFRESH = 64 * _BLOCK


def longest_first(
    units: Units, kept: Ints | None = None, noise: Floats | None = None, *, tight: bool = False
) -> tuple[Assignment, list[int]]:
    """The assignment, and the units for which no node was left.

    `kept` [unit] are nodes where units begin, -1 for none. `noise` [unit] multiplies the sizes by which units are
    ordered. Units of rules between pods come first, then those with few nodes: they find their place while there is
    room. A node costs u (2 x + u s), summed over the resources: the rise of the mean square of loads when each node
    counts by its capacity, so that large nodes are not taken for cheap ones. A `tight` pass looks at requests alone
    and fills the fullest node that a unit fits on.
    """
    assignment = Assignment(units)
    if kept is not None and (kept >= 0).any():
        _begin(assignment, kept)
    size = _asked(units) if tight else _sizes(units)
    order = np.lexsort((-(size if noise is None else size * noise), _rank(units, assignment)))
    left: list[int] = []
    order = order[assignment.on[order] < 0]
    for begin in range(0, len(order), _BLOCK):
        if begin % _AFRESH == _AFRESH - _BLOCK:
            assignment.reckon()
        left += _fill(assignment, order[begin : begin + _BLOCK], tight=tight)
    assignment.reckon()
    return assignment, left


def _fill(assignment: Assignment, block: Ints, *, tight: bool) -> list[int]:
    """Places units one after another; costs are products of matrices, and after each unit those of its node again."""
    units = assignment.units
    missing = ~units.there
    aim = _aim(units)
    use = units.use[block]
    slope = 2 * _per_use(units) * use
    curve = slope * use / 2
    cost = slope @ np.where(missing, aim, assignment.load).T + curve @ units.scale.T
    left: list[int] = []
    for place, unit in enumerate(block.tolist()):
        row = (assignment.free / np.maximum(units.room, 1e-300)).sum(axis=1) if tight else cost[place]
        if not _place(assignment, unit, row):
            left.append(unit)
            continue
        node = int(assignment.on[unit])
        load = np.where(missing[node], aim, assignment.load[node])
        cost[place + 1 :, node] = slope[place + 1 :] @ load + curve[place + 1 :] @ units.scale[node]
    return left


def _place(assignment: Assignment, unit: int, cost: Floats) -> bool:
    best = int(cost.argmin())
    simple = bool(assignment.relations.simple[unit])
    if simple and assignment.fits(unit, best):
        assignment.put(unit, best)
        return True
    cost = np.where(assignment.open(unit), cost, np.inf)
    if simple:
        best = int(cost.argmin())
        if not np.isfinite(cost[best]):
            return False
        assignment.put(unit, best)
        return True
    for node in np.argsort(cost, kind="stable").tolist():
        if not np.isfinite(cost[node]):
            return False
        if assignment.relations.permits(unit, node):
            assignment.put(unit, node)
            return True
    return False


def _begin(assignment: Assignment, kept: Ints) -> None:
    """Puts units where they were, as far as rules and room allow."""
    for unit in np.flatnonzero(kept >= 0).tolist():
        node = int(kept[unit])
        if assignment.fits(unit, node) and (
            assignment.relations.simple[unit] or assignment.relations.permits(unit, node)
        ):
            assignment.put(unit, node)


def _sizes(units: Units) -> Floats:
    """[unit]: its weighted load on an average node, in use and in requests."""
    return np.asarray(units.use[:-1] @ _per_use(units) + 0.1 * _asked(units))


def _asked(units: Units) -> Floats:
    """[unit]: the largest share of an average node that it asks for."""
    room = np.maximum(units.room.sum(axis=0), 1e-300)
    return np.asarray((units.request[:-1] / room).max(axis=1, initial=0.0) * len(units.room))


def _rank(units: Units, assignment: Assignment) -> Ints:
    nodes = units.sites.sum(axis=1)[units.site]
    tight = nodes <= max(1, len(units.scale) // 4)
    return np.where(~assignment.relations.simple[:-1], 0, np.where(tight & (nodes < len(units.scale)), 1, 2))


def _per_use(units: Units) -> Floats:
    """[resource]: weight times load per use on an average node."""
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.where(units.scale > 0, 1.0 / units.scale, 0.0).sum(axis=0)
        share = np.where(whole > 0, units.count / whole, 0.0)
    return np.asarray(share * units.cost * units.count)


def _aim(units: Units) -> Floats:
    """[resource]: the mean load if all were even; stands for a load that cannot be expressed."""
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.where(units.scale > 0, 1.0 / units.scale, 0.0).sum(axis=0)
    used = units.use.sum(axis=0)
    return np.asarray(np.divide(used, whole, out=np.zeros_like(used), where=whole > 0))
