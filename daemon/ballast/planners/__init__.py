"""The planners: one file each, in order of urgency in `built_in.py`."""
