"""Settings from the YAML file that `BALLAST_CONFIG_FILE` names."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from ballast.settings.masking import mask_urls
from ballast.settings.model import Settings
from ballast.settings.names import CONFIG_FILE, VARIABLES, suggestion, variable
from ballast.settings.sources.layer import Layer
from ballast.yaml_loader import TreeLoader


def read_file(path: Path) -> Layer:
    """The same keys as the variables, in lower case, by part; an empty value counts as unset."""
    layer = Layer()
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        layer.problems.append(
            f'{CONFIG_FILE} is "{path}": expected a readable YAML file ({reason}). Correct or unset it.'
        )
        return layer
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        layer.problems.append(
            f'{CONFIG_FILE} is "{path}": expected YAML. {mask_urls(" ".join(str(error).split()))}. Correct the file.'
        )
        return layer
    for part, fields in _mapping(content, "the file", path, layer).items():
        if part not in Settings.model_fields:
            layer.problems.append(_unknown(part, path, _nearest_part(part)))
            continue
        entries = _mapping(fields, part, path, layer)
        if part == "power":
            entries = _power(entries, path, layer)
        for key, value in entries.items():
            if (part, key) not in VARIABLES.values():
                meant = suggestion(variable(part, key))
                layer.problems.append(_unknown(f"{part}.{key}", path, ".".join(VARIABLES[meant]) if meant else None))
            elif value is not None and value != "":
                layer.give(part, key, value, f"file {path.name}")
    return layer


class _Loader(TreeLoader):
    """Refuses a key that is given twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and isinstance(key.value, str):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _mapping(value: object, what: str, path: Path, layer: Layer) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        layer.problems.append(
            f"{path.name}: expected a mapping for {what}, such as `prometheus: {{url: ...}}`. Correct it."
        )
        return {}
    return {str(key): item for key, item in value.items()}


def _power(entries: dict[str, Any], path: Path, layer: Layer) -> dict[str, Any]:
    """Splits the block into its settings and its policies: one beside the mode, or a list under `policies`."""
    mode: dict[str, Any] = {key: entries.pop(key) for key in ("mode", "operator_only") if key in entries}
    policies = entries.pop("policies", None)
    if policies is None:
        return {**mode, "policies": [entries]} if entries else mode
    if entries:
        layer.problems.append(
            f"{path.name}: power has policies and also {', '.join(sorted(entries))}. Move these into the policies."
        )
    return {**mode, "policies": policies}


def _unknown(key: str, path: Path, meant: str | None) -> str:
    hint = f"Did you mean {meant}?" if meant else "`ballast config show` lists all settings."
    return f"{path.name}: {key} is not a setting of Ballast. {hint} Correct or remove it."


def _nearest_part(part: str) -> str | None:
    near = get_close_matches(part.lower(), list(Settings.model_fields), n=1, cutoff=0.7)
    return near[0] if near else None
