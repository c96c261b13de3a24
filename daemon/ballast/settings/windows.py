"""The part `windows` of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ballast.settings.part import Positive, SettingsPart
from ballast.settings.values.collection import ListOf
from ballast.settings.values.duration import Duration
from ballast.settings.values.fraction import Share


class WindowSettings(SettingsPart):
    """Over which times loads are averaged, and when an average counts as known."""

    lengths: Annotated[ListOf[Annotated[Duration, Positive]], Field(min_length=1)] = (
        Duration("15m"),
        Duration("10m"),
        Duration("5m"),
    )
    """Lengths of the windows; the first is the one scores, classes and annotations use."""

    min_coverage: Share = 0.5
    """Share of a window that samples must cover for it to be known."""

    min_samples: Annotated[int, Field(ge=1)] = 5
    """Samples a window needs to be known."""

    max_age: Annotated[Duration, Positive] | None = None
    """Age of the newest sample beyond which a node is silent; unset: max(3 * resolution, 90s)."""
