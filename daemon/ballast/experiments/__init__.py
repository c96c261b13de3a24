"""Reproduces published tables on an embedded scheduler. Pure, except that it reads files of worlds."""
