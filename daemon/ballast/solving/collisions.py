"""Why no placement keeps all rules: as few rules as can be found that collide."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ballast.base.errors import Infeasible
from ballast.base.text import named
from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.device_shares import DeviceRelation
from ballast.solving.problem import Problem, Rule, RuleKind
from ballast.solving.units import Units, units

_SECONDS = 5.0
DEVICES = "single devices"
"""How messages call it that devices are bins."""
# Times that a program learns which units no devices hold together.
_CUTS = 60
# Each of them has such a part of the time; the first few take nearly all.
_PARTS = 4
# Rules that are taken away one by one.
_MANY = 300


def endless() -> float:
    """Seconds that remain where nothing limits them."""
    return math.inf


def explain(
    found: Units, left: Iterable[int], *, proved: bool = True, remaining: Callable[[], float] = endless
) -> Infeasible:
    """The error for a problem in which the units `left` found no node; cheap reasons first.

    Which rules collide is looked for where it is `proved` that some do, or may be, while seconds are `remaining`.
    """
    problem = found.problem
    if not problem.nodes:
        return Infeasible("There are no nodes, so no pod can be placed.")
    if (alone := _nowhere(found)) is not None:
        return alone
    for column, kind in enumerate(problem.kinds):
        total, room = float(problem.request[:, column].sum()), float(found.room[:, column].sum())
        if total > room:
            return Infeasible(
                f"The pods ask for {total:g} of {kind}, and all nodes together have {room:g}.", (f"room for {kind}",)
            )
    near = _connected(problem, np.flatnonzero(np.isin(found.of, list(left))))
    for pods in (near, np.arange(len(problem.pods))) if proved else ():
        names = _minimal(_restricted(problem, pods), remaining)
        if names:
            return _collide(names, "cannot all hold")
    some = [problem.pods[row] for row in np.flatnonzero(np.isin(found.of, list(left))).tolist()]
    rules = [rule.name for rule in problem.rules if np.isin(found.of[rule.pods], list(left)).any()]
    return Infeasible(
        f"No node was found for {named(some)}, and that there is none is not proved. "
        + (f"Rules on them: {named(rules)}. " if rules else "")
        + "Give more time, relax a rule, lower requests or add a node.",
        tuple(rules),
    )


def _nowhere(found: Units) -> Infeasible | None:
    """The error for a unit that finds no node even alone."""
    problem = found.problem
    for unit in range(found.size):
        if not found.sites[found.site[unit]].any():
            return _collide(_unary(problem, np.flatnonzero(found.of == unit)), "leave no node")
        if not found.allowed(unit).any():
            return _too_large(found, unit)
        pods = np.flatnonzero(found.of == unit).tolist()
        allowed = np.flatnonzero(found.allowed(unit)).tolist()
        if problem.devices is not None and not any(problem.devices.fit(node, pods) for node in allowed):
            names = named([problem.pods[pod] for pod in pods if problem.devices.asked[pod]])
            return Infeasible(f"No node that rules leave has the single devices for {names}.", (DEVICES,))
    return None


def _collide(names: Sequence[str], what: str) -> Infeasible:
    devices = any(name.startswith(DEVICES) for name in names)
    advice = ", ask for less of a device, add one, or leave a pod out" if devices else ""
    return Infeasible(f"These rules {what}: {'; '.join(names)}. Change or remove one of them{advice}.", tuple(names))


def _too_large(found: Units, unit: int) -> Infeasible:
    problem = found.problem
    pods = [problem.pods[row] for row in np.flatnonzero(found.of == unit).tolist()]
    sites = found.sites[found.site[unit]]
    parts = [
        f"{found.request[unit, column]:g} of {kind} (largest node: {float(problem.room[sites, column].max()):g})"
        for column, kind in enumerate(problem.kinds)
        if found.request[unit, column] > found.room[sites, column].max()
    ] or [f"{found.request[unit, column]:g} of {kind}" for column, kind in enumerate(problem.kinds)]
    who = f"Pod {pods[0]} asks" if len(pods) == 1 else f"Pods {named(pods)}, which stay together, ask"
    rules = [rule.name for rule in problem.rules if np.isin(rule.pods, np.flatnonzero(found.of == unit)).any()]
    return Infeasible(
        f"{who} for {' and '.join(parts)}: no node that rules leave is large enough."
        + (f" Rules on it: {named(rules)}." if rules else ""),
        tuple(rules),
    )


def _unary(problem: Problem, pods: Ints) -> list[str]:
    part = _restricted(problem, pods)

    def collides(rules: Sequence[Rule]) -> bool:
        contracted = units(replace(part, rules=tuple(rules)))
        return bool((~contracted.sites[contracted.site].any(axis=1)).any())

    kinds = (RuleKind.AFFINE, RuleKind.FORBID, RuleKind.SITE, RuleKind.TOGETHER)
    return [rule.name for rule in _deleted([rule for rule in part.rules if rule.kind in kinds], collides)]


def _minimal(part: Problem, remaining: Callable[[], float]) -> list[str]:
    """Names of rules and kinds of requests that collide, empty if that cannot be proved.

    None of them can be taken away, unless the time ends before that is seen.
    """
    if len(part.pods) * len(part.nodes) > LARGEST or len(part.rules) > _MANY:
        return []

    def collides(rest: Sequence[Rule | int], part: Problem = part) -> bool:
        if remaining() <= 0:
            return False
        rules = [part_rule for part_rule in rest if isinstance(part_rule, Rule)]
        contracted = units(replace(part, rules=tuple(rules)))
        kinds = [kind for kind in rest if isinstance(kind, int)]
        return feasible(contracted, contracted.rules, seconds=_SECONDS, remaining=remaining, kinds=kinds)[1]

    everything: list[Rule | int] = [*range(len(part.kinds) + (part.devices is not None)), *part.rules]
    if not collides(everything):
        return []
    kept = _deleted(everything, collides)
    kinds = [culprit for culprit in kept if isinstance(culprit, int)]
    devices = ""
    if len(part.kinds) in kinds:
        left = replace(part, rules=tuple(culprit for culprit in kept if isinstance(culprit, Rule)))

        def still(pods: Sequence[int]) -> bool:
            rest = _restricted(left, np.array(pods, np.int64))
            return len(pods) > 0 and collides([*kinds, *rest.rules], rest)

        devices = _devices_of(left, _deleted(range(len(part.pods)), still))
    names = (*(f"room for {kind}" for kind in part.kinds), devices)
    return [culprit.name if isinstance(culprit, Rule) else names[culprit] for culprit in kept]


def _devices_of(problem: Problem, pods: Sequence[int]) -> str:
    """What asks for devices, and the nodes that rules leave and that have any."""
    assert problem.devices is not None
    contracted, there, asked = units(problem), problem.devices.there, problem.devices.asked
    asking = [pod for pod in pods if asked[pod]]
    allowed: Bools = np.any(contracted.sites[contracted.site[contracted.of[asking]]], axis=0)
    nodes = [name for row, name in enumerate(problem.nodes) if allowed[row] and (there[row] is None or there[row])]
    return f"{DEVICES} of {named(nodes)} for {named([problem.pods[pod] for pod in asking])}"


def _deleted(rules: Sequence[Rule | int], collides: Callable[[Sequence[Any]], bool]) -> list[Any]:
    """Takes rules, or pods, away, large groups first, as long as the rest collides."""
    kept = list(rules)
    step = max(1, len(kept) // 2)
    while True:
        begin = 0
        while begin < len(kept):
            rest = kept[:begin] + kept[begin + step :]
            if collides(rest):
                kept = rest
            else:
                begin += step
        if step == 1:
            return kept
        step = max(1, step // 2)


def _connected(problem: Problem, pods: Ints) -> Ints:
    """Pods that rules between pods tie to these."""
    chosen = np.zeros(len(problem.pods), bool)
    chosen[pods] = True
    while True:
        before = int(chosen.sum())
        for rule in problem.rules:
            if rule.kind in (RuleKind.AFFINE, RuleKind.FORBID, RuleKind.SITE):
                continue
            everybody = rule.pods if rule.others is None else np.union1d(rule.pods, rule.others)
            if chosen[everybody].any():
                chosen[everybody] = True
        if int(chosen.sum()) == before:
            return np.flatnonzero(chosen)


def _restricted(problem: Problem, pods: Ints) -> Problem:
    """The problem of some pods alone."""
    row = np.full(len(problem.pods), -1)
    row[pods] = np.arange(len(pods))
    rules = []
    for rule in problem.rules:
        mine = row[rule.pods]
        others = None if rule.others is None else row[rule.others]
        if (mine >= 0).any():
            others = None if others is None else others[others >= 0]
            rules.append(replace(rule, pods=mine[mine >= 0], others=others))
    return replace(
        problem,
        pods=tuple(problem.pods[pod] for pod in pods.tolist()),
        use=problem.use[pods],
        request=problem.request[pods],
        home=problem.home[pods],
        rules=tuple(rules),
        devices=problem.devices and problem.devices.of(range(len(problem.nodes)), pods.tolist()),
    )


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
    kept = [kind for kind in (range(units.room.shape[1]) if kinds is None else kinds) if kind < units.room.shape[1]]
    allowed = units.sites[units.site] if sites is None else sites
    for kind in kept:
        allowed = allowed & (units.request[:-1, kind][:, None] <= units.room[:, kind])
    unit, node = np.nonzero(allowed)
    column = np.full(allowed.shape, -1)
    column[unit, node] = np.arange(len(unit))
    possible = bool(allowed.any(axis=1).all())
    rows: list[Row] = [(dict.fromkeys(column[row][allowed[row]].tolist(), 1.0), 1.0, 1.0) for row in range(units.size)]
    for kind in kept:
        requests = units.request[:-1, kind]
        for place in range(len(units.room)):
            some = np.flatnonzero(allowed[:, place] & (requests > 0))
            if requests[some].sum() > units.room[place, kind]:
                whole = max(float(units.room[place, kind]), 1e-300)
                rows.append(
                    (
                        dict(zip(column[some, place].tolist(), (requests[some] / whole).tolist(), strict=True)),
                        -np.inf,
                        1.0,
                    )
                )
    for rule in rules:
        rows += _rows(rule, column)
    return Program(unit, node, column, tuple(rows), possible)


def feasible(
    units: Units,
    rules: Sequence[Rule],
    *,
    seconds: float,
    remaining: Callable[[], float] = endless,
    sites: Bools | None = None,
    kinds: Iterable[int] | None = None,
    fewest_moves: bool = False,
) -> tuple[Ints | None, bool]:
    """A placement of units that keeps the rules, or None; and whether it is proved that there is none.

    Each program has the `seconds` at most, and all together those that are `remaining`. `kinds`
    are columns of the room; the number after the last stands for single devices.
    """
    kinds = None if kinds is None else list(kinds)
    solution = program(units, rules, sites, kinds)
    if not solution.possible:
        return None, True
    price = np.zeros(len(solution.unit))
    if fewest_moves:
        price = units.leaving(solution.unit, solution.node).astype(float)
    devices = units.problem.devices if kinds is None or units.room.shape[1] in kinds else None
    relation = None if devices is None else DeviceRelation(devices, units.of.tolist(), len(units.room))
    rows = list(solution.rows)
    for _ in range(_CUTS):
        limit = min(remaining(), seconds if relation is None else seconds / _PARTS)
        if limit <= 0:
            break
        result = run(rows, price.astype(float), len(solution.unit), seconds=limit)
        if result.x is None:
            return None, result.status == _INFEASIBLE
        on = solution.placement(np.asarray(result.x), units.size)
        if (on < 0).any():
            return None, False
        cuts = [] if relation is None else list(_cuts(relation, on, solution.column))
        if not cuts:
            return on, False
        rows += cuts
    return None, False


def _cuts(relation: DeviceRelation, on: Ints, column: Ints) -> Iterator[Row]:
    """Units that collide on a node never share it again, nor any other node that cannot hold them."""
    for colliding, collide in relation.collisions(on.tolist()):
        for node in range(column.shape[1]):
            variables = [int(column[unit, node]) for unit in colliding if column[unit, node] >= 0]
            if len(variables) == len(colliding) and collide(node):
                yield dict.fromkeys(variables, 1.0), -np.inf, len(colliding) - 1.0


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
        others = [(other, -1.0) for other in np.unique(rule.others).tolist() if other != unit]
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
        here = _sum([(member, 1.0) for member in crowd], column, (domain == number) & rule.nodes)
        least: list[int | None] = [None] if len(present) < rule.min_domains else [d for d in present if d != number]
        for mover in np.unique(rule.pods).tolist():
            gate = _sum([(mover, large)], column, domain == number)
            for other in least:
                there = (
                    {} if other is None else _sum([(e, -1.0) for e in crowd], column, (domain == other) & rule.nodes)
                )
                yield _added(here, there, gate), -np.inf, rule.skew + large


def _sum(terms: Iterable[tuple[int, float]], column: Ints, there: Bools) -> dict[int, float]:
    coefficients: dict[int, float] = {}
    for unit, factor in terms:
        for variable in column[unit][there].tolist():
            if variable >= 0:
                coefficients[variable] = coefficients.get(variable, 0.0) + factor
    return coefficients


def _added(*parts: dict[int, float]) -> dict[int, float]:
    coefficients: dict[int, float] = {}
    for part in parts:
        for column, factor in part.items():
            coefficients[column] = coefficients.get(column, 0.0) + factor
    return coefficients
