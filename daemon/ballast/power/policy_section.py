"""The base class of all parts of a policy."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class PolicySection(BaseModel):
    """A frozen group of keys, written in camelCase."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)
