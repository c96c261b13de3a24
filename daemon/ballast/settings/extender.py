"""The part `extender` of the settings."""

from __future__ import annotations

from typing import Annotated

from ballast.settings.part import Positive, SettingsPart
from ballast.settings.strategy import Strategy
from ballast.settings.values.duration import Duration
from ballast.settings.values.fraction import Load


class ExtenderSettings(SettingsPart):
    """How the scheduler extender answers."""

    strategy: Strategy = "blend"
    """Strategy behind the answers; ?profile= selects another one."""

    filter_threshold: Load | None = None
    """Load above which a node is filtered out; unset: no node is filtered out for its load."""

    assume_for: Annotated[Duration, Positive] = Duration("30s")
    """How long a placement decision counts while the watch has not confirmed it."""
