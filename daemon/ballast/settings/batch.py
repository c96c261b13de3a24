"""The part `batch` of the settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ballast.settings.part import Mode, ModeSetting, Positive, SettingsPart
from ballast.settings.values.duration import Duration


class BatchSettings(SettingsPart):
    """Pods with the scheduling gate `ballast.dev/batch` (under PUBLISHING__PREFIX) are planned together."""

    mode: ModeSetting = Mode.OFF
    """Whether gates are removed. In dry-run plans are only reported: pods with the gate wait until somebody else
    removes it."""

    order: Literal["arrival", "small-first"] = "arrival"
    """Which pods of equal priority are placed first: the oldest, or the smallest."""

    aging: Duration = Duration("5m")
    """With small-first: age from which a pod comes before all that are younger, whatever its size; 0: never."""

    ahead: Annotated[int, Field(ge=1)] = 20
    """Maximum pods whose gate is removed and that are not bound yet; room is held for each of them."""

    gather: Duration = Duration("2s")
    """Time without a new pod after which those that came are planned; at most a sixth of timeout."""

    timeout: Annotated[Duration, Positive] = Duration("60s")
    """Time without progress after which no pod has the gate any more."""

    interval: Annotated[Duration, Positive] = Duration("5s")
    """Time between two cycles; at most a sixth of timeout."""
