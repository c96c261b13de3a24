"""Presets of other packages: queries for an exporter that Ballast does not know.

A package adds one with an entry point of group `ballast.presets`: the name for BALLAST_PROMETHEUS__PRESET, and an
object that fulfils `Preset`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from ballast.base.extensions import extension
from ballast.settings.prometheus import BUILT_IN_PRESETS, PRESETS_GROUP


@runtime_checkable
class Preset(Protocol):
    """PromQL per node. `label` names the node in a series, `matchers` belong into every selector."""

    def queries(self, label: str, matchers: Sequence[str], window: str) -> Mapping[str, str]:
        """Resource → PromQL that gives a ratio 0..1 per node, aggregated by `label` and `cluster`.

        `window` is the range of every `rate`, such as 120s.
        """

    def freshness(self, label: str, matchers: Sequence[str]) -> str:
        """PromQL whose value per node is the Unix time of its newest sample, aggregated in the same way."""


def preset_of_package(name: str) -> Preset | None:
    """None for a name that is built in. Raises UsageError for a preset that cannot be used."""
    return None if name in BUILT_IN_PRESETS else extension(PRESETS_GROUP, name, _checked)


def _checked(loaded: object) -> Preset | str:
    lacking = [method for method in ("queries", "freshness") if not callable(getattr(loaded, method, None))]
    if lacking or isinstance(loaded, type):
        return f"a preset needs {', '.join(lacking) or 'to be an instance (it is a class)'}"
    assert isinstance(loaded, Preset)
    return loaded
