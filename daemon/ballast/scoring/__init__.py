"""Strategies: pure functions from a snapshot to scores 0..100."""
