"""Ballast: a load watcher, power-budget autoscaler and safe rebalancer for Kubernetes."""

__version__ = "0.3.0.dev0"
