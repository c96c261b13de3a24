"""Solvers of published tables."""
