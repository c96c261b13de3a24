"""Answers schedulers: decisions, reservations, and the usage of sibling pods."""
