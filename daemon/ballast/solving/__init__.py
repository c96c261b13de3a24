"""Solvers that place pods on nodes: one problem, one function, several methods."""

from ballast.solving.problem import Problem, Rule, RuleKind, arrange
from ballast.solving.solution import Objective, Solution, objective
from ballast.solving.solve import ANY, SOLVERS, improve, solve

__all__ = [
    "ANY",
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
