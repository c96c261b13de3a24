"""Where settings come from: the environment, variables of load-watcher, the configuration file."""

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource

from ballast.base.yaml_loader import TreeLoader
from ballast.settings.lists import LONG
from ballast.settings.model import CONFIG_FILE, PREFIX, VARIABLES, Settings, injected, suggestion, variable
from ballast.settings.secrets import mask_urls
from ballast.settings.telemetry import HOSTED, WHY_NOT_HOSTED

ORIGIN = "environment"

_POWER = f"{PREFIX}POWER"
_LIST = variable("power", "policies")
_POLICIES = f" Power policies are a JSON list in {_LIST}, or stand under power in the file of {CONFIG_FILE}."
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_SOURCES = {"prometheus": "prometheus", "kubernetesmetricsserver": "metrics-server"}
_LEVELS = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "fatal": "error",
    "panic": "error",
}
_IGNORED = (
    "METRICS_PROVIDER_APP_KEY",
    "SIGNALFX_HOST_NAME_SUFFIX",
    "SIGNALFX_CLUSTER_NAME",
    "DATADOG_HOST_NAME_SUFFIX",
    "DATADOG_CLUSTER_NAME",
)


@dataclass(frozen=True)
class GivenValue:
    """A value as it was written, and its origin."""

    value: object
    origin: str


class SettingsSource(InitSettingsSource):
    """The values of one source by (part, field), with their origins; collects problems instead of raising."""

    def __init__(self, settings_cls: type[BaseSettings] = Settings, _init_state: Any = None) -> None:
        super().__init__(settings_cls, {}, _init_state=_init_state)
        self.values: dict[tuple[str, str], GivenValue] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def give(self, part: str, field: str, value: object, origin: str) -> None:
        """Sets the value of one field."""
        self.values[part, field] = GivenValue(value, origin)
        self.init_kwargs.setdefault(part, {})[field] = value


class EnvironmentSource(EnvSettingsSource, SettingsSource):
    """An empty variable counts as unset; an unknown one is a problem, unless Kubernetes set it for a Service."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        texts = {name: text for name in VARIABLES if (text := environ.get(name, "").strip())}
        self.problems += [
            f"{name}: expected text in UTF-8. Correct or unset it." for name in texts if not _utf8(texts[name])
        ]
        self.env_vars = {name.lower(): text for name, text in texts.items() if _utf8(text)}
        for part, fields in self().items():
            for field, text in fields.items():
                self.give(part, field, text, ORIGIN)
        for name, text in environ.items():
            if name.startswith(PREFIX) and name not in VARIABLES and name != CONFIG_FILE:
                self._unknown(name, text)

    def _unknown(self, name: str, text: str) -> None:
        meant = suggestion(name)
        if not injected(name):
            self.problems.append(
                f"{name} is not a setting of Ballast."
                + (_POLICIES if name.startswith(_POWER) else "")
                + (f" Did you mean {meant}?" if meant else " `ballast config show` lists all settings.")
                + " Correct or unset it."
            )
        elif meant and meant.replace("__", "_") == name and "://" not in text:
            self.warnings.append(
                f"{name} is ignored because it has the form of a Kubernetes Service variable. Did you mean {meant}?"
            )


def _utf8(text: str) -> bool:
    """Bytes of the environment that are no UTF-8 arrive as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


class AliasSource(SettingsSource):
    """The values of load-watcher's variables, which `BALLAST_` variables beat.

    They set a way to authenticate only if no setting in `own` does; an inline token beats a token file.
    """

    def __init__(self, environ: Mapping[str, str], own: Container[tuple[str, str]]) -> None:
        super().__init__()
        variables = {name: text.strip() for name, text in environ.items()}

        def alias(name: str, part: str, field: str, value: object = None) -> None:
            if value is not None or variables.get(name):
                self.give(part, field, variables[name] if value is None else value, f"alias {name}")

        name = variables.get("METRICS_PROVIDER_NAME", "")
        if name.lower() not in HOSTED:
            source = _SOURCES.get(name.lower(), name) if name else None
            alias("METRICS_PROVIDER_NAME", "telemetry", "source", source)
        elif not environ.get("BALLAST_TELEMETRY__SOURCE"):
            self.problems.append(
                f'METRICS_PROVIDER_NAME is "{name}": {HOSTED[name.lower()]} is not supported: {WHY_NOT_HOSTED}. '
                "Expected Prometheus or KubernetesMetricsServer. Correct it, or set BALLAST_TELEMETRY__SOURCE to "
                "prometheus or metrics-server."
            )
        alias("METRICS_PROVIDER_ADDRESS", "prometheus", "url")
        if skip := variables.get("INSECURE_SKIP_VERIFY"):
            alias("INSECURE_SKIP_VERIFY", "prometheus", "insecure_skip_verify", skip.lower() == "true")
        self._take_credentials(variables, own, alias)
        alias("KUBE_CONFIG", "cluster", "kubeconfig")
        if level := variables.get("LOG_LEVEL", "").lower():
            if level in _LEVELS:
                alias("LOG_LEVEL", "log", "level", _LEVELS[level])
            elif not environ.get("BALLAST_LOG__LEVEL"):
                self.warnings.append(f'LOG_LEVEL is "{level}", which is not a level of load-watcher; it is ignored.')
        self.warnings.extend(
            f"{name} has no effect in Ballast and is ignored." for name in _IGNORED if environ.get(name)
        )

    def _take_credentials(
        self, variables: Mapping[str, str], own: Container[tuple[str, str]], alias: Callable[..., None]
    ) -> None:
        authenticated = ("prometheus", "token_file") in own or ("prometheus", "username") in own
        if not authenticated:
            alias("METRICS_PROVIDER_TOKEN", "prometheus", "token")
        if "ENABLE_OPENSHIFT_AUTH" in variables:
            if not authenticated and ("prometheus", "token") not in self.values:
                alias("ENABLE_OPENSHIFT_AUTH", "prometheus", "token_file", f"{SERVICE_ACCOUNT}/token")
            alias("ENABLE_OPENSHIFT_AUTH", "prometheus", "ca_file", f"{SERVICE_ACCOUNT}/ca.crt")


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
    """Refuses a key that is given twice in one mapping; an integer that no setting takes is infinite."""

    def _read_integer(self, node: yaml.ScalarNode) -> float:
        if len(node.value) > LONG:
            return -math.inf if node.value.startswith("-") else math.inf
        return self.construct_yaml_int(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:merge" and isinstance(key.value, str):
                if key.value in keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} is given twice", key.start_mark
                    )
                keys.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader._read_integer)
