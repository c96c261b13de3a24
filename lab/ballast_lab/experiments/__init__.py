"""Reproduces published tables and measures on public traces. Nothing in it is needed by the daemon."""
