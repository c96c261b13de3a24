"""Which hard rules a placement breaks, one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ballast.model.sample import Ints
from ballast.solving.problem import Problem, Rule, RuleKind
from ballast.solving.units import ROUNDING


def violations(problem: Problem, on: Ints) -> tuple[str, ...]:
    """Of a placement of every pod, in the order of nodes, then rules."""
    return (*_full(problem, on), *(each for rule in problem.rules for each in _broken(problem, rule, on)))


def _full(problem: Problem, on: Ints) -> Iterator[str]:
    for column, kind in enumerate(problem.kinds):
        asked = np.bincount(on, weights=problem.request[:, column], minlength=len(problem.nodes))
        some = np.bincount(on[problem.request[:, column] > 0], minlength=len(problem.nodes)) > 0
        over = some & (asked > problem.room[:, column] * (1 + ROUNDING))
        for node in np.flatnonzero(over).tolist():
            yield f"node {problem.nodes[node]}: {asked[node]:g} of {kind} asked, {problem.room[node, column]:g} there"


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
