"""The problems of the genetic experiment: the paper names numbers of nodes and nothing about its pods."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.solving import Problem, Rule, RuleKind, arrange

RESOURCES = ("cpu", "memory", "disk", "network")
_SKEW, _SPREAD = 0.4, 0.2
_RULED_SKEW, _RULED_SPREAD = 1.5, 0.5
_LEVEL = 0.5
_REQUESTS = 0.35
FORBIDDEN, AFFINE = 0.3, 0.2


def skewed(seed: int, nodes: int = 6, pods: int = 100, *, skew: float = _SKEW, spread: float = _SPREAD) -> Problem:
    """Alike nodes half in use; requests are use times lognormal(.35).

    Each pod needs one resource 1 + `skew` times as much; `spread` is the deviation of the logarithm of use.
    """
    rng = np.random.default_rng(seed)
    use = rng.lognormal(0.0, spread, (pods, len(RESOURCES)))
    use[np.arange(pods), rng.integers(len(RESOURCES), size=pods)] *= 1 + skew
    use *= _LEVEL * nodes / use.sum(axis=0)
    request = use[:, :2] * rng.lognormal(0.0, _REQUESTS, (pods, 2))
    return _problem(nodes, pods, use, request)


def ruled(seed: int, nodes: int = 4, pods: int = 40) -> Problem:
    """Pods that differ more, with a random check dictionary: a node is forbidden with chance .3, affine with .2."""
    problem = skewed(seed, nodes, pods, skew=_RULED_SKEW, spread=_RULED_SPREAD)
    rng = np.random.default_rng(seed + 10_000)
    rules = []
    for pod in range(pods):
        forbidden = rng.random(nodes) < FORBIDDEN
        forbidden[rng.integers(nodes)] = False
        affine = (rng.random(nodes) < AFFINE) & ~forbidden
        for kind, mask in ((RuleKind.FORBID, forbidden), (RuleKind.AFFINE, affine)):
            if mask.any():
                rules.append(Rule(kind, np.array([pod]), nodes=mask, name=f"{kind} {problem.pods[pod]}"))
    return _problem(nodes, pods, problem.use, problem.request, rules)


def three(seed: int, level: float, pods: int = 60) -> Problem:
    """Three alike nodes and one resource, in use to `level`; the weights of the nodes are .5, 1 and 1."""
    rng = np.random.default_rng(seed)
    use = rng.lognormal(0.0, _RULED_SPREAD, (pods, 1))
    use *= level * 3 / use.sum()
    return arrange(
        ["n0", "n1", "n2"],
        [f"p{row:03d}" for row in range(pods)],
        ["load"],
        capacity=np.ones((3, 1)),
        use=use,
        kinds=["cpu"],
        room=np.ones((3, 1)),
        request=np.minimum(use, use * rng.lognormal(0.0, _REQUESTS, (pods, 1))),
        factor=np.array([0.5, 1.0, 1.0]),
    )


def stock(problem: Problem, seed: int) -> Ints:
    """Where kube-scheduler 1.17 puts the pods one after another: equations 2 to 4, ties at random.

    The score of a node is the mean share of cpu and memory that requests leave free, in whole percent as in that
    version (the paper prints tenths); a node where a request does not fit is passed over.
    """
    rng = np.random.default_rng(seed)
    free = problem.room.copy()
    on = np.zeros(len(problem.pods), np.int64)
    for pod in rng.permutation(len(problem.pods)).tolist():
        after = free - problem.request[pod]
        score = np.floor(100 * np.clip(after / problem.room, 0.0, 1.0)).mean(axis=1) // 1
        score = np.where((after >= 0).all(axis=1), score, -1.0)
        best = np.flatnonzero(score == score.max())
        node = int(rng.choice(best))
        on[pod] = node
        free[node] -= problem.request[pod]
    return on


def _problem(nodes: int, pods: int, use: Floats, request: Floats, rules: list[Rule] | None = None) -> Problem:
    return arrange(
        [f"n{row}" for row in range(nodes)],
        [f"p{row:03d}" for row in range(pods)],
        RESOURCES,
        capacity=np.ones((nodes, len(RESOURCES))),
        use=use,
        kinds=RESOURCES[:2],
        room=np.ones((nodes, 2)),
        request=request,
        rules=rules or (),
    )
