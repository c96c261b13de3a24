"""Network link speeds such as `10Gbit`."""

from __future__ import annotations

import re
from typing import ClassVar, Self

from ballast.settings.values.written import WrittenNumber

_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(bit|B)(?:/s)?")
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class Speed(WrittenNumber):
    """Bytes per second, positive; `text` is how it was written. `Speed("8bit") == 1.0`."""

    ALLOWED: ClassVar = "a link speed with its unit, such as 10Gbit or 1.25GB (per second)"
    JSON_TYPE: ClassVar = ["string"]

    def __new__(cls, value: str) -> Self:
        """Raises ValueError, saying what is allowed."""
        match = _TEXT.fullmatch(value.strip())
        speed = float(match[1]) * _FACTORS[match[2]] / (8 if match[3] == "bit" else 1) if match else 0.0
        if speed <= 0:
            raise ValueError(f"expected {cls.ALLOWED}")
        made = super().__new__(cls, speed)
        made.text = value.strip()
        return made

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes a Speed or text; raises ValueError, saying what is allowed."""
        return value if isinstance(value, cls) else cls(str(value))
