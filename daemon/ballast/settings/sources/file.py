"""Settings from the YAML file that `BALLAST_CONFIG_FILE` names."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from ballast.base.yaml_loader import TreeLoader
from ballast.settings.masking import mask_urls
from ballast.settings.model import Settings
from ballast.settings.names import CONFIG_FILE, VARIABLES, suggestion, variable
from ballast.settings.sources.source import SettingsSource


class FileSource(SettingsSource):
    """The same keys as the variables, in lower case, by part; an empty value counts as unset."""

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        if path is None:
            return
        self._path = path
        for part, fields in self._mapping(self._content(), "the file").items():
            if part not in Settings.model_fields:
                near = get_close_matches(part.lower(), list(Settings.model_fields), n=1, cutoff=0.7)
                self._unknown(part, near[0] if near else None)
                continue
            entries = self._mapping(fields, part)
            for key, value in (self._power(entries) if part == "power" else entries).items():
                if (part, key) not in VARIABLES.values():
                    meant = suggestion(variable(part, key))
                    self._unknown(f"{part}.{key}", ".".join(VARIABLES[meant]) if meant else None)
                elif value is not None and value != "":
                    self.give(part, key, value, f"file {path.name}")

    def _content(self) -> object:
        try:
            return yaml.load(self._path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            problem = f"expected a readable YAML file ({reason}). Correct or unset it."
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = f"expected YAML. {mask_urls(' '.join(str(error).split()))}. Correct the file."
        self.problems.append(f'{CONFIG_FILE} is "{self._path}": {problem}')
        return None

    def _mapping(self, value: object, what: str) -> dict[str, Any]:
        if isinstance(value, Mapping):
            return {str(key): item for key, item in value.items()}
        if value is not None:
            self.problems.append(
                f"{self._path.name}: expected a mapping for {what}, such as `prometheus: {{url: ...}}`. Correct it."
            )
        return {}

    def _power(self, entries: dict[str, Any]) -> dict[str, Any]:
        """Splits the block into its settings and its policies: one beside the mode, or a list under `policies`."""
        mode: dict[str, Any] = {key: entries.pop(key) for key in ("mode", "operator_only") if key in entries}
        policies = entries.pop("policies", None)
        if policies is None:
            return {**mode, "policies": [entries]} if entries else mode
        if entries:
            self.problems.append(
                f"{self._path.name}: power has policies and also {', '.join(sorted(entries))}. Move these into the "
                "policies."
            )
        return {**mode, "policies": policies}

    def _unknown(self, key: str, meant: str | None) -> None:
        hint = f"Did you mean {meant}?" if meant else "`ballast config show` lists all settings."
        self.problems.append(f"{self._path.name}: {key} is not a setting of Ballast. {hint} Correct or remove it.")


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
