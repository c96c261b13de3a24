"""Solvers that place pods on nodes: one problem, one function, several methods."""

from ballast.solving.objective import Objective, objective
from ballast.solving.problem import Problem, Rule, RuleKind, arrange
from ballast.solving.solution import Solution
from ballast.solving.solve import SOLVERS, improve, solve

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
