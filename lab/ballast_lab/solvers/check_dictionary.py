"""The check dictionary of the published genetic algorithm: which node each pod tends to, and which it must not be on.

Source: Hu and Xue, Kubernetes resource scheduling based on a genetic algorithm, Computer Systems & Applications 30(9),
2021, tables 1 and 2. The printed result of the repair, {100, 010, 001, 010, 011, 100, 100}, has Pod5 on two nodes, of
which Node2 is forbidden to it: its bit was set on the node that it tends to, and not taken from the other. Here a
repaired row has exactly one bit; `both_bits` repeats the misprint.
"""

from __future__ import annotations

import numpy as np

from ballast.base.errors import Infeasible
from ballast.model.sample import Bools
from ballast.solving.problem import Problem, RuleKind


class CheckDictionary:
    """`allowed` [pod, node]: not forbidden; `tends` [pod, node]: affine and allowed."""

    def __init__(self, allowed: Bools, tends: Bools) -> None:
        self.allowed: Bools = allowed
        self.tends: Bools = np.logical_and(tends, allowed)
        self._forbidden: Bools = np.logical_not(allowed)
        self._preferred: Bools = np.where(np.asarray(self.tends.any(axis=1))[:, None], self.tends, allowed)

    def broken(self, chromosomes: Bools) -> Bools:
        """[individual, pod]: rows of [individual, pod, node] without exactly one bit, or with a forbidden one."""
        bits = np.add.reduce(chromosomes.view(np.uint8), axis=2, dtype=np.uint16)
        return np.asarray((bits != 1) | (chromosomes & self._forbidden).any(axis=2))

    def repair(self, chromosomes: Bools, rng: np.random.Generator, *, both_bits: bool = False) -> int:
        """Mends broken rows in place and returns how many there were.

        A row keeps one of its allowed bits; without one it gets a node that it tends to, else an allowed one.
        """
        one, pod = np.nonzero(self.broken(chromosomes))
        if not len(pod):
            return 0
        rows = chromosomes[one, pod]
        good = rows & self.allowed[pod]
        choice = np.where(np.asarray(good.any(axis=1))[:, None], good, self._preferred[pod])
        node = np.where(choice, rng.random(choice.shape), -1.0).argmax(axis=1)
        keep = both_bits & self.tends[pod, node] & (rows.sum(axis=1) == 1)
        repaired = np.where(keep[:, None], rows, False)
        repaired[np.arange(len(pod)), node] = True
        chromosomes[one, pod] = repaired
        return len(pod)


def check_dictionary(problem: Problem) -> CheckDictionary:
    """From the rules: `forbid`, rules of pod specs about nodes, and nodes too small for a pod forbid; `affine` tends.

    Raises Infeasible for a pod to which no node is left.
    """
    m, n = len(problem.pods), len(problem.nodes)
    allowed, tends = np.ones((m, n), bool), np.zeros((m, n), bool)
    for kind in range(len(problem.kinds)):
        allowed &= (problem.request[:, kind][:, None] <= problem.room[:, kind]) | (
            problem.request[:, kind][:, None] == 0
        )
    for rule in problem.rules:
        if rule.nodes is None or rule.kind is RuleKind.SPREAD:
            continue
        if rule.kind is RuleKind.AFFINE:
            tends[rule.pods] |= rule.nodes
        else:
            allowed[rule.pods] &= ~rule.nodes if rule.kind is RuleKind.FORBID else rule.nodes
    nowhere = np.flatnonzero(~allowed.any(axis=1))
    if len(nowhere):
        pod = int(nowhere[0])
        rules = [rule.name for rule in problem.rules if rule.nodes is not None and pod in rule.pods]
        raise Infeasible(
            f"Pod {problem.pods[pod]} has no node that is large enough and not forbidden."
            + (f" Rules on it: {'; '.join(rules)}." if rules else ""),
            tuple(rules),
        )
    return CheckDictionary(allowed, tends)
