"""Byte-level fuzzing of everything that reads what others wrote: `make fuzz`.

A target is one decoder or parser with well-formed examples and the exceptions that it may raise. Mutated examples go
in; any other exception is an escape. What escaped once is kept in `corpus/TARGET/` and tried again each time.
"""
