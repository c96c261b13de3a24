"""Decides and writes what nodes carry: labels, annotations, the taint."""
