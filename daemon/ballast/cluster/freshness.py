"""How old what a watch shows may be before nothing is decided by it. Seconds since the server last sent anything."""

from __future__ import annotations

WATCH_SILENT = 120.0
"""A watch that was silent for longer is broken: a healthy one is renewed after 90 s of silence at the latest."""

SWITCHES_SILENT = 30.0
"""The pause switches have a bound of their own, so that a pause takes effect within 30 s or everything is paused.

Their watch is renewed after 15 s at most to keep within it.
"""
