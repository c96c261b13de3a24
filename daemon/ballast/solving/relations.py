"""Rules between pods, kept by counts: how many movers and how many of the others each domain holds."""

from collections.abc import Iterator, Sequence

import numpy as np

from ballast.base.text import named
from ballast.model.sample import Bools, Ints
from ballast.solving.device_shares import DeviceRelation
from ballast.solving.problem import Problem, Rule, RuleKind
from ballast.solving.units import ROUNDING, Units


class Relations:
    """Follows a placement of units. `permits` asks whether a unit that is nowhere may go to a node."""

    def __init__(self, units: Units) -> None:
        nodes, devices = len(units.problem.nodes), units.problem.devices
        self._each: list[_Relation | DeviceRelation] = [_KINDS[rule.kind](rule, nodes) for rule in units.rules]
        if devices is not None:
            self._each.append(DeviceRelation(devices, units.of.tolist(), nodes))
        self._of: list[list[_Relation | DeviceRelation]] = [[] for _ in range(units.size)]
        for relation in self._each:
            for unit in relation.members:
                self._of[unit].append(relation)
        self.simple: Bools = np.array([not rules for rules in self._of] + [True], bool)

    def permits(self, unit: int, node: int) -> bool:
        """Whether every rule would hold for the unit, and go on to hold for others, with the unit on the node."""
        return all(relation.permits(unit, node) for relation in self._of[unit])

    def releases(self, unit: int, node: int) -> bool:
        """Whether what remains keeps its rules after the unit has gone from the node."""
        return all(relation.holds(node) for relation in self._of[unit])

    def shift(self, unit: int, node: int, count: int) -> None:
        """Adds a unit to a node; count -1 takes it away."""
        for relation in self._of[unit]:
            relation.shift(unit, node, count)

    def exchange(self, changes: Sequence[tuple[int, int, int]]) -> bool:
        """Makes changes (unit, source, target) together if all rules hold afterwards; else changes nothing."""
        for unit, source, _ in changes:
            self.shift(unit, source, -1)
        done: list[tuple[int, int]] = []
        good = True
        for unit, _, target in changes:
            if not self.permits(unit, target):
                good = False
                break
            self.shift(unit, target, 1)
            done.append((unit, target))
        good = good and all(self.releases(unit, source) for unit, source, _ in changes)
        good = good and all(self.releases(unit, target) for unit, _, target in changes)
        if not good:
            for unit, target in done:
                self.shift(unit, target, -1)
            for unit, source, _ in changes:
                self.shift(unit, source, 1)
        return good


class _Relation:
    def __init__(self, rule: Rule, nodes: int) -> None:
        self.rule = rule
        self.domain: list[int] = (np.arange(nodes) if rule.domain is None else rule.domain).tolist()
        size = max(self.domain, default=-1) + 1
        self.movers = _counted(rule.pods)
        self.crowd = self.movers if rule.others is None else _counted(rule.others)
        self.members = sorted({*self.movers, *self.crowd})
        self.moving = [0] * size
        self.crowded = [0] * size

    def shift(self, unit: int, node: int, count: int) -> None:
        domain = self.domain[node]
        if domain >= 0:
            self.moving[domain] += count * self.movers.get(unit, 0)
            self.crowded[domain] += count * self.crowd.get(unit, 0)

    def permits(self, unit: int, node: int) -> bool:
        raise NotImplementedError

    def holds(self, node: int) -> bool:
        return True


class _Apart(_Relation):
    def permits(self, unit: int, node: int) -> bool:
        domain = self.domain[node]
        if domain < 0:
            return True
        moves, crowds = self.movers.get(unit, 0), self.crowd.get(unit, 0)
        if moves and crowds and max(moves, crowds) > 1:
            return False
        return not (moves and self.crowded[domain]) and not (crowds and self.moving[domain])


class _Near(_Relation):
    def __init__(self, rule: Rule, nodes: int) -> None:
        super().__init__(rule, nodes)
        size = len(self.moving)
        self.both = [0] * size
        self.everywhere = 0

    def shift(self, unit: int, node: int, count: int) -> None:
        super().shift(unit, node, count)
        domain = self.domain[node]
        self.everywhere += count * self.crowd.get(unit, 0)
        if domain >= 0 and unit in self.crowd:
            self.both[domain] += count * self.movers.get(unit, 0)

    def permits(self, unit: int, node: int) -> bool:
        if unit in self.movers and self.domain[node] < 0:
            return False
        alone = self.everywhere == 1
        self.shift(unit, node, 1)
        good = self.holds(node)
        if good and alone and self.everywhere > 1:
            # The one pod that had nobody to be near to, wherever it is, now has somebody.
            good = all(not both or crowd > 1 for both, crowd in zip(self.both, self.crowded, strict=True))
        self.shift(unit, node, -1)
        return good

    def holds(self, node: int) -> bool:
        domain = self.domain[node]
        if domain < 0 or not self.moving[domain]:
            return True
        if self.moving[domain] > self.both[domain] and not self.crowded[domain]:
            return False
        return not self.both[domain] or self.crowded[domain] >= 2 or self.everywhere == 1


class _Spread(_Relation):
    def __init__(self, rule: Rule, nodes: int) -> None:
        super().__init__(rule, nodes)
        assert rule.nodes is not None
        self.eligible = rule.nodes.tolist()
        self.present = sorted({d for d, good in zip(self.domain, self.eligible, strict=True) if good and d >= 0})

    def shift(self, unit: int, node: int, count: int) -> None:
        domain = self.domain[node]
        if domain >= 0:
            self.moving[domain] += count * self.movers.get(unit, 0)
            if self.eligible[node]:
                self.crowded[domain] += count * self.crowd.get(unit, 0)

    def permits(self, unit: int, node: int) -> bool:
        if unit in self.movers and (self.domain[node] < 0 or not self.present):
            return False
        self.shift(unit, node, 1)
        good = self.holds(node)
        self.shift(unit, node, -1)
        return good

    def holds(self, node: int) -> bool:
        if not self.present:
            return True
        least = min(self.crowded[domain] for domain in self.present)
        if len(self.present) < self.rule.min_domains:
            least = 0
        most = least + self.rule.skew
        return all(not moving or self.crowded[domain] <= most for domain, moving in enumerate(self.moving))


def _counted(units: Ints) -> dict[int, int]:
    names, counts = np.unique(units, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


_KINDS: dict[RuleKind, type[_Relation]] = {RuleKind.APART: _Apart, RuleKind.NEAR: _Near, RuleKind.SPREAD: _Spread}


def violations(problem: Problem, on: Ints) -> tuple[str, ...]:
    """Of a placement of every pod, in the order of nodes, then rules."""
    return (*_full(problem, on), *(sentence for rule in problem.rules for sentence in _broken(problem, rule, on)))


def _full(problem: Problem, on: Ints) -> Iterator[str]:
    for column, kind in enumerate(problem.kinds):
        requests = np.bincount(on, weights=problem.request[:, column], minlength=len(problem.nodes))
        some = np.bincount(on[problem.request[:, column] > 0], minlength=len(problem.nodes)) > 0
        over = some & (requests > problem.room[:, column] * (1 + ROUNDING))
        for node in np.flatnonzero(over).tolist():
            room = problem.room[node, column]
            yield f"node {problem.nodes[node]}: {requests[node]:g} of {kind} asked, {room:g} there"
    if problem.devices is not None:
        for node in range(len(problem.nodes)):
            pods = [pod for pod in np.flatnonzero(on == node).tolist() if problem.devices.asked[pod]]
            if pods and not problem.devices.fit(node, pods):
                yield f"node {problem.nodes[node]}: its devices cannot hold {named([problem.pods[p] for p in pods])}"


def _broken(problem: Problem, rule: Rule, on: Ints) -> Iterator[str]:
    if rule.kind in (RuleKind.AFFINE, RuleKind.SITE, RuleKind.FORBID):
        assert rule.nodes is not None
        bad = rule.nodes[on[rule.pods]] == (rule.kind is RuleKind.FORBID)
        for pod in rule.pods[bad].tolist():
            yield f"{rule.name}: pod {problem.pods[pod]} is on {problem.nodes[int(on[pod])]}"
    elif rule.kind is RuleKind.TOGETHER:
        if len(np.unique(on[rule.pods])) > 1:
            yield f"{rule.name}: the pods are on {len(np.unique(on[rule.pods]))} nodes"
    else:
        yield from _between(problem, rule, on)


def _between(problem: Problem, rule: Rule, on: Ints) -> Iterator[str]:
    domain = np.arange(len(problem.nodes)) if rule.domain is None else rule.domain
    others = rule.pods if rule.others is None else rule.others
    there = domain[on[others]]
    size = int(domain.max(initial=-1)) + 1
    if rule.kind is RuleKind.SPREAD:
        assert rule.nodes is not None
        counted = there[rule.nodes[on[others]] & (there >= 0)]
        counts = np.bincount(counted, minlength=size)
        present = np.unique(domain[rule.nodes & (domain >= 0)])
        least = 0 if len(present) < rule.min_domains or not len(present) else int(counts[present].min())
    for pod in rule.pods.tolist():
        mine = int(domain[on[pod]])
        near = int(((there == mine) & (others != pod)).sum()) if mine >= 0 else 0
        if rule.kind is RuleKind.APART:
            bad = near > 0
        elif rule.kind is RuleKind.NEAR:
            bad = mine < 0 or (near == 0 and others.tolist() != [pod])
        else:
            bad = mine < 0 or counts[mine] - least > rule.skew
        if bad:
            yield f"{rule.name}: pod {problem.pods[pod]} on {problem.nodes[int(on[pod])]}"


def keeps(units: Units, on: Ints) -> bool:
    """Whether a placement keeps the rules between pods."""
    relations = Relations(units)
    for unit, node in enumerate(on.tolist()):
        relations.shift(unit, node, 1)
    for unit, node in enumerate(on.tolist()):
        if not relations.simple[unit]:
            relations.shift(unit, node, -1)
            if not relations.permits(unit, node):
                return False
            relations.shift(unit, node, 1)
    return True
