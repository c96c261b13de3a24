"""Pods behind a scheduling gate, planned together and let go in the order of the plan."""
