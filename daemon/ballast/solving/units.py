"""The problem as solvers see it: pods that stay together are one unit, and rules about nodes are masks."""

from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.problem import Problem, Rule, RuleKind
from ballast.solving.solution import counting, known

_UNARY = (RuleKind.AFFINE, RuleKind.FORBID, RuleKind.SITE)
# Requests that exceed the room by less than this share of it fit: sums of floats are not exact.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Units:
    """Pods contracted to units, with one more row of zeros at the end of `use` and `request`: no unit at all.

    `of` [pod] is its unit. `sites` [site, node] are the distinct masks of nodes, `site` [unit] which one holds.
    `scale` [node, resource] turns use into load, 0 where it cannot be expressed; `cost` [resource] is w_k / n_k, so
    that the value is the sum of `cost` times squared differences from the mean. `home` [unit] is where most of its
    pods came from, `stay` [unit] how many pods came with a node, `at_home` [unit] how many with that one.
    """

    problem: Problem
    of: Ints
    use: Floats
    request: Floats
    sites: Bools
    site: Ints
    scale: Floats
    there: Bools
    count: Floats
    cost: Floats
    start: Floats
    room: Floats
    home: Ints
    stay: Ints
    at_home: Ints
    rules: tuple[Rule, ...]

    @property
    def size(self) -> int:
        """How many units there are."""
        return len(self.site)

    def allowed(self, unit: int) -> Bools:
        """[node]: nodes that rules about nodes leave, and that are large enough when empty."""
        open_nodes: Bools = self.sites[self.site[unit]] & (self.request[unit] <= self.room).all(axis=1)
        return open_nodes

    def pods(self, on: Ints) -> Ints:
        """[pod] from [unit]."""
        return on[self.of]

    def leaving(self, unit: Ints, node: Ints) -> Ints:
        """By pair of a unit and a node: pods of the unit that came with another node."""
        pods = np.flatnonzero(self.problem.home >= 0)
        came = np.zeros((self.size, len(self.scale)), np.int64)
        np.add.at(came, (self.of[pods], self.problem.home[pods]), 1)
        return np.asarray(self.stay[unit] - came[unit, node])

    def moves(self, on: Ints) -> int:
        """Pods that are not where they came from."""
        home = self.problem.home
        return int(np.count_nonzero((home >= 0) & (home != on[self.of])))


def units(problem: Problem) -> Units:
    """Contracts `together` and turns rules about nodes into masks; the other rules remain, in rows of units."""
    of, size = _contracted(problem)
    there = known(problem)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(there, problem.factor / problem.capacity, 0.0)
    count = np.maximum(there.sum(axis=0), 1).astype(float)
    site, sites = _sites(problem, of, size)
    home, stay, at_home = _homes(problem, of, size)
    return Units(
        problem=problem,
        of=of,
        use=_summed(problem.use, of, size),
        request=_summed(problem.request, of, size),
        sites=sites,
        site=site,
        scale=scale,
        there=there,
        count=count,
        cost=counting(problem) / count,
        start=np.where(there, problem.base * scale, 0.0),
        room=problem.room * (1 + ROUNDING),
        home=home,
        stay=stay,
        at_home=at_home,
        rules=tuple(_of_units(rule, of) for rule in problem.rules if rule.kind not in (*_UNARY, RuleKind.TOGETHER)),
    )


def _contracted(problem: Problem) -> tuple[Ints, int]:
    parent = np.arange(len(problem.pods))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = int(parent[row])
        return row

    for rule in problem.rules:
        if rule.kind is RuleKind.TOGETHER and len(rule.pods):
            first = root(int(rule.pods[0]))
            for pod in rule.pods[1:].tolist():
                other = root(pod)
                first, other = min(first, other), max(first, other)
                parent[other] = first
    if any(rule.kind is RuleKind.TOGETHER for rule in problem.rules):
        roots = np.array([root(row) for row in range(len(parent))], np.int64)
    else:
        roots = parent.astype(np.int64)
    names, of = np.unique(roots, return_inverse=True)
    return of.reshape(-1).astype(np.int64), len(names)


def _summed(amounts: Floats, of: Ints, size: int) -> Floats:
    sums = np.zeros((size + 1, amounts.shape[1]))
    for column in range(amounts.shape[1]):
        sums[:size, column] = np.bincount(of, weights=amounts[:, column], minlength=size)
    return sums


def _sites(problem: Problem, of: Ints, size: int) -> tuple[Ints, Bools]:
    masks: list[Bools] = [np.ones(len(problem.nodes), bool)]
    numbers = {masks[0].tobytes(): 0}
    site = np.zeros(size, np.int64)
    for rule in problem.rules:
        if rule.kind not in _UNARY:
            continue
        assert rule.nodes is not None
        allowed = ~rule.nodes if rule.kind is RuleKind.FORBID else rule.nodes
        rows = np.unique(of[rule.pods])
        for old in np.unique(site[rows]).tolist():
            mask = masks[old] & allowed
            number = numbers.setdefault(mask.tobytes(), len(masks))
            if number == len(masks):
                masks.append(mask)
            site[rows[site[rows] == old]] = number if number != old else old
    return site, np.array(masks, bool).reshape(len(masks), len(problem.nodes))


def _homes(problem: Problem, of: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    has = np.flatnonzero(problem.home >= 0)
    home, at_home = np.full(size, -1), np.zeros(size, np.int64)
    stay = np.bincount(of[has], minlength=size).astype(np.int64)
    if len(has):
        n = len(problem.nodes)
        pairs, counts = np.unique(of[has] * n + problem.home[has], return_counts=True)
        # The most common home is written last; of equal ones the first node.
        order = np.lexsort((-pairs, counts))
        home[pairs[order] // n] = pairs[order] % n
        at_home[pairs[order] // n] = counts[order]
    return home, stay, at_home


def _of_units(rule: Rule, of: Ints) -> Rule:
    # A unit stands in a list once for each of its pods: two pods of one unit may collide, or count twice.
    return Rule(
        kind=rule.kind,
        pods=np.sort(of[rule.pods]),
        nodes=rule.nodes,
        domain=rule.domain,
        others=None if rule.others is None else np.sort(of[rule.others]),
        skew=rule.skew,
        min_domains=rule.min_domains,
        name=rule.name,
    )
