"""What every room may use: clock, errors, log, metrics, bounds of memory and time, extensions, text."""
