"""Why no placement keeps all rules: as few rules as can be found that collide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ballast.base.errors import Infeasible
from ballast.base.words import named
from ballast.model.sample import Ints
from ballast.solving import linear
from ballast.solving.problem import Problem, Rule, RuleKind
from ballast.solving.units import Units, units

_SECONDS = 5.0
# Rules that are taken away one by one.
_MANY = 300


def explain(found: Units, left: Iterable[int]) -> Infeasible:
    """The error for a problem in which the units `left` found no node; cheap reasons first."""
    problem = found.problem
    if not problem.nodes:
        return Infeasible("There are no nodes, so no pod can be placed.")
    for unit in range(found.size):
        if not found.sites[found.site[unit]].any():
            return _collide(_unary(problem, np.flatnonzero(found.of == unit)), "leave no node")
    for unit in range(found.size):
        if not found.allowed(unit).any():
            return _too_large(found, unit)
    for column, kind in enumerate(problem.kinds):
        asked, room = float(problem.request[:, column].sum()), float(found.room[:, column].sum())
        if asked > room:
            return Infeasible(
                f"The pods ask for {asked:g} of {kind}, and all nodes together have {room:g}.", (f"room for {kind}",)
            )
    near = _connected(problem, np.flatnonzero(np.isin(found.of, list(left))))
    for pods in (near, np.arange(len(problem.pods))):
        names = _minimal(_restricted(problem, pods))
        if names:
            return _collide(names, "cannot all hold")
    some = [problem.pods[row] for row in np.flatnonzero(np.isin(found.of, list(left))).tolist()]
    rules = [rule.name for rule in problem.rules if np.isin(found.of[rule.pods], list(left)).any()]
    return Infeasible(
        f"No node was found for {named(some)}. "
        + (f"Rules on them: {named(rules)}. " if rules else "")
        + "Relax a rule, lower requests or add a node.",
        tuple(rules),
    )


def _collide(names: Sequence[str], what: str) -> Infeasible:
    return Infeasible(f"These rules {what}: {'; '.join(names)}. Change or remove one of them.", tuple(names))


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


def _minimal(part: Problem) -> list[str]:
    """Names of rules and kinds of requests of which none can be taken away; empty if that cannot be proved."""
    if len(part.pods) * len(part.nodes) > linear.LARGEST or len(part.rules) > _MANY:
        return []

    def collides(rest: Sequence[Rule | int]) -> bool:
        rules = [each for each in rest if isinstance(each, Rule)]
        contracted = units(replace(part, rules=tuple(rules)))
        kinds = [each for each in rest if isinstance(each, int)]
        return linear.feasible(contracted, contracted.rules, seconds=_SECONDS, kinds=kinds)[1]

    everything: list[Rule | int] = [*range(len(part.kinds)), *part.rules]
    if not collides(everything):
        return []
    kept = _deleted(everything, collides)
    return [each.name if isinstance(each, Rule) else f"room for {part.kinds[each]}" for each in kept]


def _deleted(rules: Sequence[Rule | int], collides: Callable[[Sequence[Any]], bool]) -> list[Any]:
    """Takes rules away, large groups first, as long as the rest collides."""
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
        pods=tuple(problem.pods[each] for each in pods.tolist()),
        use=problem.use[pods],
        request=problem.request[pods],
        home=problem.home[pods],
        rules=tuple(rules),
    )
