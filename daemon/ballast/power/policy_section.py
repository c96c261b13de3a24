"""The base class of all parts of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel


class PolicySection(BaseModel):
    """A frozen group of keys, written in camelCase."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)

    other_names: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Second names of keys, and the names they stand for."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        doubled = [f"{new} and {old}" for new, old in cls.other_names.items() if new in value and old in value]
        if doubled:
            raise ValueError(f"expected only one of {doubled[0]}, they are the same")
        return {cls.other_names.get(key, key): each for key, each in value.items()}
