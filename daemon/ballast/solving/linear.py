"""The problem as a mixed-integer linear program for scipy's HiGHS: feasibility, fewest moves, and a lower bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.problem import Rule, RuleKind
from ballast.solving.units import Units

# Variables (units by nodes) of the largest program that is tried.
LARGEST = 20_000
_INFEASIBLE = 2

Row = tuple[dict[int, float], float, float]
"""Coefficients by column, lower and upper bound."""


@dataclass(frozen=True, eq=False)
class Program:
    """`unit` and `node` [column] say what a binary column means: that this unit is on this node."""

    unit: Ints
    node: Ints
    column: Ints
    rows: tuple[Row, ...]
    possible: bool

    def placement(self, x: Floats, size: int) -> Ints:
        """[unit]: the node of the largest column."""
        on = np.full(size, -1)
        chosen = x[: len(self.unit)] > 0.5
        on[self.unit[chosen]] = self.node[chosen]
        return on


def program(
    units: Units, rules: Sequence[Rule], sites: Bools | None = None, kinds: Iterable[int] | None = None
) -> Program:
    """The rows of some rules and kinds of requests alone; `sites` [unit, node] in place of those of the units."""
    kept = range(units.room.shape[1]) if kinds is None else list(kinds)
    allowed = units.sites[units.site] if sites is None else sites
    for kind in kept:
        allowed = allowed & (units.request[:-1, kind][:, None] <= units.room[:, kind])
    unit, node = np.nonzero(allowed)
    column = np.full(allowed.shape, -1)
    column[unit, node] = np.arange(len(unit))
    possible = bool(allowed.any(axis=1).all())
    rows: list[Row] = [(dict.fromkeys(column[row][allowed[row]].tolist(), 1.0), 1.0, 1.0) for row in range(units.size)]
    for kind in kept:
        asked = units.request[:-1, kind]
        for place in range(len(units.room)):
            some = np.flatnonzero(allowed[:, place] & (asked > 0))
            if asked[some].sum() > units.room[place, kind]:
                whole = max(float(units.room[place, kind]), 1e-300)
                rows.append(
                    (dict(zip(column[some, place].tolist(), (asked[some] / whole).tolist(), strict=True)), -np.inf, 1.0)
                )
    for rule in rules:
        rows += _rows(rule, column)
    return Program(unit, node, column, tuple(rows), possible)


def feasible(
    units: Units,
    rules: Sequence[Rule],
    *,
    seconds: float,
    sites: Bools | None = None,
    kinds: Iterable[int] | None = None,
    fewest_moves: bool = False,
) -> tuple[Ints | None, bool]:
    """A placement of units that keeps the rules, or None; and whether it is proved that there is none."""
    found = program(units, rules, sites, kinds)
    if not found.possible:
        return None, True
    price = np.zeros(len(found.unit))
    if fewest_moves:
        price = units.stay[found.unit] - units.at_home[found.unit] * (units.home[found.unit] == found.node)
    result = run(found.rows, price.astype(float), len(found.unit), seconds=seconds)
    if result.x is None:
        return None, result.status == _INFEASIBLE
    on = found.placement(np.asarray(result.x), units.size)
    return (on, False) if (on >= 0).all() else (None, False)


def run(rows: Sequence[Row], price: Floats, binary: int, *, seconds: float, nodes: int | None = None) -> Any:
    """Lowers `price` over columns of which the first `binary` are 0 or 1, the others at least 0 or free (see price)."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    size = len(price)
    data: list[float] = []
    columns: list[int] = []
    ends = [0]
    for coefficients, _, _ in rows:
        data += coefficients.values()
        columns += coefficients.keys()
        ends.append(len(data))
    matrix = csr_array(
        (np.array(data, np.float64), np.array(columns, np.int64), np.array(ends)), shape=(len(rows), size)
    )
    integral = np.zeros(size)
    integral[:binary] = 1
    low, high = np.full(size, -np.inf), np.full(size, np.inf)
    low[:binary], high[:binary] = 0, 1
    limits = LinearConstraint(matrix, [row[1] for row in rows], [row[2] for row in rows])
    options: dict[str, Any] = {"time_limit": max(0.05, seconds), "presolve": True}
    if nodes is not None:
        options["node_limit"] = max(1, nodes)
    return milp(price, integrality=integral, bounds=Bounds(low, high), constraints=limits, options=options)


def _rows(rule: Rule, column: Ints) -> Iterator[Row]:
    domain = np.arange(column.shape[1]) if rule.domain is None else rule.domain
    if rule.kind is RuleKind.APART:
        yield from _apart(rule, column, domain)
    elif rule.kind is RuleKind.NEAR:
        yield from _near(rule, column, domain)
    elif rule.kind is RuleKind.SPREAD:
        yield from _spread(rule, column, domain)


def _apart(rule: Rule, column: Ints, domain: Ints) -> Iterator[Row]:
    for number in range(int(domain.max(initial=-1)) + 1):
        there = domain == number
        if rule.others is None:
            yield _sum([(unit, 1.0) for unit in rule.pods.tolist()], column, there), -np.inf, 1.0
            continue
        for one in np.unique(rule.pods).tolist():
            for other in np.unique(rule.others).tolist():
                if one != other:
                    yield _sum([(one, 1.0), (other, 1.0)], column, there), -np.inf, 1.0


def _near(rule: Rule, column: Ints, domain: Ints) -> Iterator[Row]:
    assert rule.others is not None
    for unit in np.unique(rule.pods).tolist():
        for place in np.flatnonzero(domain < 0).tolist():
            if column[unit, place] >= 0:
                yield {int(column[unit, place]): 1.0}, -np.inf, 0.0
        if rule.others.tolist() == [unit] or (rule.others == unit).sum() > 1:
            continue
        others = [(each, -1.0) for each in np.unique(rule.others).tolist() if each != unit]
        for number in range(int(domain.max(initial=-1)) + 1):
            yield _sum([(unit, 1.0), *others], column, domain == number), -np.inf, 0.0


def _spread(rule: Rule, column: Ints, domain: Ints) -> Iterator[Row]:
    assert rule.nodes is not None
    assert rule.others is not None
    for unit in np.unique(rule.pods).tolist():
        for place in np.flatnonzero(domain < 0).tolist():
            if column[unit, place] >= 0:
                yield {int(column[unit, place]): 1.0}, -np.inf, 0.0
    present = np.unique(domain[rule.nodes & (domain >= 0)]).tolist()
    crowd, large = rule.others.tolist(), float(len(rule.others))
    for number in range(int(domain.max(initial=-1)) + 1):
        here = _sum([(each, 1.0) for each in crowd], column, (domain == number) & rule.nodes)
        least: list[int | None] = [None] if len(present) < rule.min_domains else [d for d in present if d != number]
        for mover in np.unique(rule.pods).tolist():
            gate = _sum([(mover, large)], column, domain == number)
            for other in least:
                there = (
                    {} if other is None else _sum([(e, -1.0) for e in crowd], column, (domain == other) & rule.nodes)
                )
                yield _added(here, there, gate), -np.inf, rule.skew + large


def _sum(terms: Iterable[tuple[int, float]], column: Ints, there: Bools) -> dict[int, float]:
    found: dict[int, float] = {}
    for unit, factor in terms:
        for each in column[unit][there].tolist():
            if each >= 0:
                found[each] = found.get(each, 0.0) + factor
    return found


def _added(*parts: dict[int, float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for part in parts:
        for column, factor in part.items():
            found[column] = found.get(column, 0.0) + factor
    return found
