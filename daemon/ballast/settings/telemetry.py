"""The part `telemetry` of the settings."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from ballast.settings.lists import TEXT_OR_MAP, as_list, as_map
from ballast.settings.part import Expert, Positive, SettingsPart
from ballast.settings.prometheus import BUILT_IN_PRESETS, PRESETS
from ballast.settings.written import Duration, Speed

KNOWN_RESOURCES = tuple(dict.fromkeys(name for names in BUILT_IN_PRESETS.values() for name in names))
EVERY_NODE = "*"
WINDOW_KEYS = ("v", "end", "length")
"""Keys of the window annotation besides its resources."""


HOSTED = {"signalfx": "SignalFx", "datadog": "Datadog"}
"""Sources of load-watcher that are no sources here."""
WHY_NOT_HOSTED = (
    "its service is asked in a language of its own, and every window here is PromQL; "
    "let its agent or an OpenTelemetry collector write to Prometheus too"
)


def _source(value: object) -> object:
    if isinstance(value, str) and value.lower() in HOSTED:
        raise ValueError(f"{HOSTED[value.lower()]} is not supported: {WHY_NOT_HOSTED}")
    return value


class ResourceSetting(BaseModel):
    """One resource. Without `query` it comes from the preset; `freshness` and `node_label` override the defaults."""

    model_config = ConfigDict(frozen=True)

    name: str
    query: str | None = None
    freshness: str | None = None
    node_label: str | None = None


def _resources(value: object) -> list[ResourceSetting]:
    if isinstance(value, tuple) and all(isinstance(item, ResourceSetting) for item in value):
        return list(value)
    if isinstance(value, Mapping) or (isinstance(value, str) and value.strip().startswith("{")):
        resources = [_described(name, details) for name, details in as_map(value).items()]
    else:
        resources = [_plain(item) for item in as_list(value)]
    if not resources:
        raise ValueError("expected at least one resource, such as cpu,memory")
    names = [resource.name for resource in resources]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"expected each resource once; {', '.join(doubled)} is given more than once")
    return resources


def _plain(item: object) -> ResourceSetting:
    if not isinstance(item, str):
        raise ValueError(
            f"expected either a list of names ({', '.join(KNOWN_RESOURCES)}) or one map from name to query; "
            'a list cannot hold maps. Write all of them as a map: {"cpu": {}, "gpu": {"query": "..."}}'
        )
    if item not in KNOWN_RESOURCES and not PRESETS.others():
        raise ValueError(
            f"expected names among {', '.join(KNOWN_RESOURCES)}; {item!r} needs a query. Write a map: "
            f'{{"cpu": {{}}, "{item}": {{"query": "PromQL that gives a ratio 0..1 per node"}}}}'
        )
    return ResourceSetting(name=item)


def _described(name: str, details: object) -> ResourceSetting:
    keys = {} if details is None else details
    if isinstance(keys, str):
        raise ValueError(f'expected a map for {name}, such as {{"{name}": {{"query": "..."}}}}')
    if not isinstance(keys, Mapping):
        raise ValueError(f"expected a map for {name}, with the keys query, freshness, node_label")
    unknown = sorted(set(map(str, keys)) - {"query", "freshness", "node_label"})
    if unknown:
        raise ValueError(
            f"expected the keys query, freshness, node_label for {name}; {', '.join(unknown)} is not one of them"
        )
    for key, text in keys.items():
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise ValueError(f"expected text for {key} of {name}")
    resource = ResourceSetting(name=name, **keys)
    if resource.node_label is not None:
        _label_names(resource.node_label)
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise ValueError(
            f"expected names of a-z, 0-9, _ and -, beginning with a letter, such as gpu; {name!r} does not match"
        )
    if name in WINDOW_KEYS:
        raise ValueError(f"{name} cannot be a resource: it is a key of the window annotation; choose another name")
    if name not in KNOWN_RESOURCES and resource.query is None and not PRESETS.others():
        raise ValueError(f'expected a query for {name}: {{"{name}": {{"query": "PromQL, a ratio 0..1 per node"}}}}')
    return resource


def _label_names(value: object) -> str | None:
    if value is None:
        return None
    names = [str(name) for name in as_list(value)]
    for name in names or [""]:
        if not re.fullmatch(r"""[^\W\d][^\s"'`{}\\,-]*""", name):
            raise ValueError("expected the name of a Prometheus label such as instance, node or k8s.node.name")
    return ",".join(names)


def _rewrites(value: object) -> dict[str, str]:
    rewrites = {}
    for pattern, replacement in as_map(value).items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"expected regular expressions; {pattern!r} is invalid: {error}") from None
        if not isinstance(replacement, str):
            raise ValueError(f"expected text as the replacement of {pattern!r}, such as $1")
        rewrites[pattern] = replacement
    return rewrites


def _speeds(value: object) -> dict[str, object]:
    if isinstance(value, str) and not value.strip().startswith("{"):
        return {EVERY_NODE: value}
    return as_map(value)


class TelemetrySettings(SettingsPart):
    """What is measured, where, and how often."""

    source: Annotated[Literal["prometheus", "metrics-server"], BeforeValidator(_source)] = "prometheus"
    """Where samples come from; metrics-server is also the fallback when Prometheus is silent."""

    interval: Annotated[Duration, Positive] = Duration("30s")
    """Time between two readings."""

    resources: Annotated[
        tuple[ResourceSetting, ...],
        BeforeValidator(_resources),
        WithJsonSchema({"type": ["string", "array", "object"]}),
    ] = (ResourceSetting(name="cpu"), ResourceSetting(name="memory"))
    """Names among cpu, memory, disk, network, pods, gpu, psi-cpu, psi-memory, psi-io, or a map such as {"cpu": {},
    "gpu": {"query": "...", "freshness": "...", "node_label": "Hostname"}}; a query gives a ratio 0..1 per node,
    freshness the Unix time of its newest sample; an entry for a known name overrides its preset."""

    node_label: Annotated[
        str | None, BeforeValidator(_label_names), WithJsonSchema({"type": ["string", "array", "null"]})
    ] = None
    """Label of the series that holds the node's name, such as node or k8s.node.name; of several, separated by commas,
    the first that names a node counts. Unset: the preset's, usually instance."""

    node_identity: Expert[str | None] = None
    """Kubernetes label of the node that holds its name in the series, such as example.com/hostname; unset: only its
    name, addresses and host names are matched."""

    node_rewrite: Expert[Annotated[Mapping[str, str], BeforeValidator(_rewrites), WithJsonSchema(TEXT_OR_MAP)]] = {}
    """Rewrites the node names of the series before they are looked up: a map from patterns that match the whole name
    to replacements, such as {"(.+)-metal": "$1"}."""

    network_speed: Expert[Annotated[Mapping[str, Speed], BeforeValidator(_speeds), WithJsonSchema(TEXT_OR_MAP)]] = {}
    """Link speed where the exporter does not report it: one for all nodes, such as 10Gbit, or a map such as {"node-a":
    "25Gbit", "*": "10Gbit"}."""

    offset: Expert[Duration] = Duration("0s")
    """Minimum age of a query time, for a Prometheus that scrapes or receives late; query times stay multiples of
    the interval."""

    def speed_of(self, node: str) -> float | None:
        """Configured link speed of a node in bytes per second; None if none is configured."""
        return self.network_speed.get(node, self.network_speed.get(EVERY_NODE))
