"""No example of a property fails for being slow: machines are shared, and no test is about time."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")
