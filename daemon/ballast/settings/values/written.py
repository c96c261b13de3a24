"""What value types have in common that are written as text, such as `5m` or `10%`."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


class WrittenValue:
    """A pydantic type: `parse` validates, `str` serializes, `ALLOWED` and `JSON_TYPE` are its JSON schema."""

    ALLOWED: ClassVar[str]
    """What may be written, as the end of a sentence that begins with `expected`."""

    JSON_TYPE: ClassVar[list[str]]
    """The JSON types that `parse` takes."""

    @classmethod
    def parse(cls, value: object) -> Self:
        """Takes an instance or what a person wrote; raises ValueError, saying what is allowed."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": cls.JSON_TYPE, "description": cls.ALLOWED}


class WrittenNumber(WrittenValue, float):
    """A number that keeps in `text` how it was written; pickles as that text."""

    text: str

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"
