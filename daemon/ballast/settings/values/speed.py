"""Network link speeds, as people write them."""

from __future__ import annotations

import re
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(bit|B)(?:/s)?")
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_ALLOWED = "a link speed with its unit, such as 10Gbit or 1.25GB (per second)"


class Speed(float):
    """Bytes per second, positive; `text` is the spelling it was made from. `Speed("8bit") == 1.0`."""

    text: str

    def __new__(cls, value: str) -> Self:
        """Raises ValueError, saying what is allowed."""
        match = _TEXT.fullmatch(value.strip())
        speed = float(match[1]) * _FACTORS[match[2]] / (8 if match[3] == "bit" else 1) if match else 0.0
        if speed <= 0:
            raise ValueError(f"expected {_ALLOWED}")
        made = super().__new__(cls, speed)
        made.text = value.strip()
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Speed) else cls(str(value)),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.text),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "description": _ALLOWED}
