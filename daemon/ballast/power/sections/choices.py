"""The words that keys of a policy choose from."""

from __future__ import annotations

from enum import StrEnum


class BudgetKind(StrEnum):
    """What the watts of the feed are held against.

    ABSOLUTE: the watts of all replicas. ANCHOR: one pair of watts and replicas, from which all others follow.
    """

    ABSOLUTE = "absolute"
    ANCHOR = "anchor"


class Stability(StrEnum):
    """Whether every sample of a window must confirm a change, or its two ends alone."""

    WINDOW = "window"
    ENDPOINT = "endpoint"


class TargetBasis(StrEnum):
    """What a target is computed from: a fixed (watts, replicas) pair, or the last reference and the current count."""

    ANCHOR = "anchor"
    PAPER = "paper"


class Rounding(StrEnum):
    """SAFE rounds halves towards fewer replicas, NEAREST_AWAY halves of the change away from 0, FLOOR always down."""

    SAFE = "safe"
    NEAREST_AWAY = "nearest-away"
    FLOOR = "floor"


class ForeignChanges(StrEnum):
    """What a change of replicas by someone else does: it moves the anchor, or it is undone."""

    REBASE = "rebase"
    ENFORCE = "enforce"


class WhenSilent(StrEnum):
    """What a silent feed leads to: nothing, every target at its min, or the numbers given."""

    HOLD = "hold"
    FLOOR = "floor"
    REPLICAS = "replicas"


class Actuation(StrEnum):
    """How targets may be changed: as detected, by replicas alone, by caps alone, or not at all."""

    AUTO = "auto"
    DIRECT = "direct"
    CAP = "cap"
    OBSERVE = "observe"
