"""How the scheduler extender answers."""

from __future__ import annotations

from typing import Annotated

from ballast.settings.part import Positive, SettingsPart
from ballast.settings.strategy import Strategy
from ballast.settings.values.duration import Duration
from ballast.settings.values.fraction import Load


class ExtenderSettings(SettingsPart):
    strategy: Strategy = "blend"
    """Strategy behind the answers; ?profile= asks for another one."""

    filter_threshold: Load | None = None
    """Load above which a node is filtered out; unset: none is for its load."""

    assume_for: Annotated[Duration, Positive] = Duration("30s")
    """How long a decision counts before the watch confirms it."""
