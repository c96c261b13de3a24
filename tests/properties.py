"""How many examples of a property are drawn: few by `make test`, more by `make test-slow`, many by `make test-deep`."""

import os
from typing import Any

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "usual")
FACTOR = {"quick": 0.1, "usual": 1, "deep": 10}[PROFILE]


def examples(count: int = 100, **options: Any) -> settings:
    """Settings for so many examples in the usual profile; none fails for being slow, since machines are shared."""
    return settings(max_examples=max(5, round(count * FACTOR)), deadline=None, **options)
