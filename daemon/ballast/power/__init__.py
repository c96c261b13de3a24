"""Replicas inside the power that is available: when the number changes, and whose."""
