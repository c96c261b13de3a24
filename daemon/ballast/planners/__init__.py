"""The planners: one file each, in order of urgency in `registry.py`."""
