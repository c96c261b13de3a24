"""Ballast: a load watcher, power-budget autoscaler and safe rebalancer for Kubernetes."""

__version__ = "0.2.0"
