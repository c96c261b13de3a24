"""Solvers that place pods on nodes: one problem, one function, several methods."""

from ballast.placement.solvers.objective import Objective, objective
from ballast.placement.solvers.problem import Problem, Rule, RuleKind, arrange
from ballast.placement.solvers.solution import Solution
from ballast.placement.solvers.solve import SOLVERS, improve, solve

__all__ = [
    "SOLVERS",
    "Objective",
    "Problem",
    "Rule",
    "RuleKind",
    "Solution",
    "arrange",
    "improve",
    "objective",
    "solve",
]
