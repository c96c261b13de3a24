"""The JSON schema of a power policy, made from its model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from ballast.power.policy import PowerPolicy
from ballast.power.sections import PolicySection

Schema = dict[str, Any]


class _WithoutDefaults(GenerateJsonSchema):
    """Defaults stay with Ballast."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def policy_schema() -> dict[str, Schema]:
    """{"policy": its schema} and the definitions that it refers to. Second names of keys are allowed as well."""
    schema = PowerPolicy.model_json_schema(by_alias=True, schema_generator=_WithoutDefaults)
    definitions = schema.pop("$defs")
    renamed = {section.__name__: section.other_names for section in _sections(PolicySection)}
    found = {"policy": schema, **definitions}
    for name, each in found.items():
        for new, old in renamed.get("PowerPolicy" if name == "policy" else name, {}).items():
            each["properties"][new] = each["properties"][old]
            each["required"] = [key for key in each.get("required", []) if key != old]
        for key, value in each.get("properties", {}).items():
            each["properties"][key] = {"anyOf": [value, {"type": "null"}]}  # an empty value counts as unset
    found["policy"]["properties"]["increase"]["anyOf"].append({"const": "auto"})
    moved: dict[str, Schema] = json.loads(json.dumps(found).replace("#/$defs/", "#/definitions/"))
    return moved


def _sections(base: type[PolicySection]) -> Iterator[type[PolicySection]]:
    for each in base.__subclasses__():
        yield each
        yield from _sections(each)
