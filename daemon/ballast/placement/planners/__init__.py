"""Planners of moves, and the placement they simulate."""
