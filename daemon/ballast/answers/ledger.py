"""The answer of `/api/v1/ledger`: what was done and missed, by hour and by day."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ballast.answers.api import Answer


class LedgerEntry(Answer):
    """One hour or day."""

    begin: Annotated[float, Meta(description="Unix time at which it began; UTC")]
    evicted: Annotated[int, Meta(description="pods that were moved")]
    refused: Annotated[int, Meta(description="evictions that the API server refused")]
    failed: Annotated[int, Meta(description="evictions that were sent and did not happen")]
    predicted: Annotated[
        float | None,
        Meta(description="load that the moves were to take off their nodes, of those whose effect was measured"),
    ]
    measured: Annotated[float | None, Meta(description="load that they took off, as measured; null until then")]
    hot_node_minutes: Annotated[float | None, Meta(description="minutes times nodes above BALLAST_PUBLISHING__HIGH")]
    label_writes: Annotated[int, Meta(description="patches of labels and annotations of nodes")]
    over_watt_hours: Annotated[float | None, Meta(description="energy that was drawn above the feeds")]
    unmet_watt_hours: Annotated[float | None, Meta(description="energy that replicas beyond the caps would have drawn")]


class LedgerAnswer(Answer):
    """Complete hours of two days and complete days of ninety, the present ones last."""

    hours: Sequence[LedgerEntry]
    days: Sequence[LedgerEntry]


def last_day(ledger: LedgerAnswer, now: float) -> list[LedgerEntry]:
    """The hours of the last 24, the present one included."""
    return [hour for hour in ledger.hours if hour.begin > now - 24 * 3600]


def total(entries: Sequence[LedgerEntry], name: str) -> float | None:
    """The sum of one amount; None where it is known of no entry."""
    values = [value for entry in entries if (value := getattr(entry, name)) is not None]
    return sum(values) if values else None
