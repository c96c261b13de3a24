"""Reproduces published tables on an embedded scheduler and compares. Pure but for the files it is given."""
