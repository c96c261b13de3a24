"""A fingerprint of the parts of a policy that its anchor depends on."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from ballast.power.policy import PowerPolicy
from ballast.power.policy_section import PolicySection

_HOW = frozenset({"max_age", "expect_series", "freshness", "time_path", "floor_watts"})
"""Keys that say how a feed is read and checked; its watts do not depend on them."""


def policy_fingerprint(policy: PowerPolicy) -> str:
    """16 hexadecimal digits that change with feed, basePower, nominal or compat: the anchor's watts then mean others.

    Keys at their default do not count.
    """
    parts = {"base": policy.base_power, "compat": policy.compat, "nominal": policy.nominal, "feed": policy.feed}
    plain = {name: _plain(value) for name, value in parts.items()}
    return sha256(msgspec.json.encode(plain, enc_hook=str, order="deterministic")).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if not isinstance(value, PolicySection):
        return value
    fields = type(value).model_fields
    return {name: _plain(each) for name, each in value if name not in _HOW and each != fields[name].default}
