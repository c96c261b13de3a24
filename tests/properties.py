"""How many examples of a property are drawn: few by `make test`, more by `make test-slow`, many by `make test-deep`."""

import os
from typing import Any

from hypothesis import settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "usual")
FACTOR = {"quick": 0.1, "usual": 1, "deep": 10}[PROFILE]


def examples(count: int = 100, deep: int | None = None, **options: Any) -> settings:
    """Settings for so many examples in the usual profile; none fails for being slow, since machines are shared.

    `deep` is the number of `make test-deep` where that is not ten times as many.
    """
    wanted = deep if deep is not None and PROFILE == "deep" else round(count * FACTOR)
    return settings(max_examples=max(5, wanted), deadline=None, **options)
