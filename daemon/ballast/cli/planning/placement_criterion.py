"""The criterion by which pods land in `ballast plan redistribute`, from the settings and `--set KEY=VALUE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ballast.cli.score import key_and_value
from ballast.scoring import dominant_residual
from ballast.scoring.dominant_residual import DominantResidual
from ballast.settings import Settings

KEYS = ("lambda", "c", "g", "profiles", "resources", "weigh_by", "devices")


def taken(pairs: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """(the pairs that are no keys of the criterion, its keys with their values)."""
    mine = [pair for pair in pairs if pair.partition("=")[0].strip() in KEYS]
    return [pair for pair in pairs if pair not in mine], dict(map(key_and_value, mine))


def criterion(settings: Settings, keys: Mapping[str, object], *, published: bool) -> DominantResidual:
    """`BALLAST_SCORING__KEYS` of dominant-residual, and `keys` over them. `published` has the linear g unless one is
    set. Raises UsageError for keys and values that are not allowed."""
    found = {**settings.scoring.keys.get(dominant_residual.NAME, {}), **keys}
    return dominant_residual.parse({"g": "linear", **found} if published else found)
