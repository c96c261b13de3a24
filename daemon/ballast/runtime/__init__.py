"""Builds the parts from the settings; owns threads, signals and the order of shutdown."""
