"""Reads the world's numbers: Prometheus, metrics-server, the power feed."""
