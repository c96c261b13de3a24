"""`ballast experiment schedule`: every strategy places recorded load, and the hot node-minutes are counted."""
