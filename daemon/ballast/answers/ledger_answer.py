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
    hot_node_minutes_without: Annotated[
        float | None, Meta(description="hot_node_minutes, had the pods that were moved stayed where they were")
    ] = None
    would_evict: Annotated[float | None, Meta(description="pods that evictions in dry-run would have moved")] = None
    would_spare_hot_node_minutes: Annotated[
        float | None, Meta(description="hot_node_minutes less those had evictions in dry-run been on")
    ] = None
    would_spare_over_watt_hours: Annotated[
        float | None, Meta(description="over_watt_hours less those had power in dry-run been on")
    ] = None


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


class DryRunEffect(Answer):
    """What parts in dry-run would have brought in some time; null: not known, or no such part is in dry-run."""

    evict: Annotated[float | None, Meta(description="pods moved")] = None
    hot_node_minutes: Annotated[float | None, Meta(description="as it was, in these hours")] = None
    spare_hot_node_minutes: Annotated[float | None, Meta(description="how many fewer with evictions on")] = None
    over_watt_hours: Annotated[float | None, Meta(description="as it was, in these hours")] = None
    spare_over_watt_hours: Annotated[float | None, Meta(description="how many fewer with power on")] = None


def effect_of(entries: Sequence[LedgerEntry]) -> DryRunEffect:
    """Of some hours or days."""
    sums: dict[str, float | None] = {"evict": total(entries, "would_evict")}
    for name in ("hot_node_minutes", "over_watt_hours"):
        counted = [entry for entry in entries if getattr(entry, f"would_spare_{name}") is not None]
        sums |= {name: total(counted, name), f"spare_{name}": total(counted, f"would_spare_{name}")}
    return DryRunEffect(**sums)


def in_words(seen: DryRunEffect) -> list[str]:
    """What switching on would have brought, a phrase a part: "12 pods moved, 4.2 of 5.4 hot node-hours fewer"."""
    phrases = []
    if seen.evict is not None:
        hot = _fewer(seen.spare_hot_node_minutes, seen.hot_node_minutes, 60, "hot node-hours")
        phrases.append(", ".join([f"evictions: {seen.evict:.0f} pods moved", *hot]))
    if watts := _fewer(seen.spare_over_watt_hours, seen.over_watt_hours, 1, "Wh above the feed"):
        phrases.append(f"power: {watts[0]}")
    return phrases


def _fewer(spared: float | None, whole: float | None, unit: float, what: str) -> list[str]:
    if spared is None or whole is None:
        return []
    if spared < 0:
        return [f"{-spared / unit:.1f} more {what} than {whole / unit:.1f}"]
    return [f"{spared / unit:.1f} of {whole / unit:.1f} {what} fewer"]
