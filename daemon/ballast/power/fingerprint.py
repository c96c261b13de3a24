"""What the numbers of a policy's anchor mean: it holds as long as they mean the same."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec

from ballast.power.policy import PowerPolicy
from ballast.power.policy_section import PolicySection

_HOW = frozenset({"max_age", "expect_series", "freshness", "time_path", "floor_watts"})
"""How a feed is read and judged, which its watts do not depend on."""


def policy_fingerprint(policy: PowerPolicy) -> str:
    """Short text that changes when other watts or other replicas are meant: feed, basePower, nominal or compat.

    What is left at its default does not count.
    """
    told = {"base": policy.base_power, "compat": policy.compat, "nominal": policy.nominal, "feed": policy.feed}
    plain = {name: _plain(value) for name, value in told.items()}
    return sha256(msgspec.json.encode(plain, enc_hook=str, order="deterministic")).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if not isinstance(value, PolicySection):
        return value
    fields = type(value).model_fields
    return {name: _plain(each) for name, each in value if name not in _HOW and each != fields[name].default}
