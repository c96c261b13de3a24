"""The part `scoring` of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from ballast.settings.part import SettingsPart
from ballast.settings.values.collection import as_map
from ballast.settings.values.fraction import Weights


def _keys(value: object) -> dict[str, dict[str, object]]:
    from ballast.scoring.strategy import names  # numpy is slow to import, and most commands need no strategy

    found = {}
    for name, keys in as_map(value).items():
        if name not in names():
            raise ValueError(f"expected names of strategies; {name!r} is not one of {', '.join(names())}")
        if not isinstance(keys, Mapping):
            raise ValueError(f'expected the keys of {name} as a map, such as {{"{name}": {{"key": "value"}}}}')
        found[name] = {str(key): each for key, each in keys.items()}
    return found


class ScoringSettings(SettingsPart):
    """Keys of the strategies, for every use in the daemon: labels, metrics, extender."""

    keys: Annotated[
        Mapping[str, Mapping[str, Any]],
        BeforeValidator(_keys),
        WithJsonSchema({"type": ["string", "object"], "additionalProperties": {"type": "object"}}),
    ] = {}
    """Keys of strategies, as `ballast score --set` takes them, such as {"most-allocated": {"resources": {"cpu": 1,
    "nvidia.com/gpu": 5}}, "peaks": {"node_power_model": "/etc/ballast/power.yaml"}}; `policy` and `node_power_model`
    may be file names."""

    resources: Weights = {"cpu": 1.0, "memory": 1.0}
    """Weight of each resource, 0 to 1, in load-variation and blend and in what rebalance evens out, such as {"cpu": 1,
    "memory": 1, "disk": 0.5}; a node needs those above 0 that it has."""
