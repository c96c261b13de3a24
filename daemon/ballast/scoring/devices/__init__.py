"""Devices that pods take whole or in part: room on them, what placed pods leave, and the columns they are."""
