"""Pods behind a scheduling gate, planned together and released in the order of the plan."""
