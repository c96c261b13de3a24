"""Parts of the settings that are little more than their fields; the others have files of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ballast.settings.fractions import Load, LoadLimit, NodeWeights, Share, Weights
from ballast.settings.lists import ListOf, as_list, as_map
from ballast.settings.names import label, label_key, selector, subdomain
from ballast.settings.part import Expert, File, Mode, ModeSetting, Positive, SettingsPart, Strategy
from ballast.settings.telemetry import TelemetrySettings
from ballast.settings.written import Duration


def _keys(value: object) -> dict[str, dict[str, object]]:
    from ballast.scoring.strategy import names  # numpy is slow to import, and most commands need no strategy

    keys_of = {}
    for name, keys in as_map(value).items():
        if name not in names():
            raise ValueError(f"expected names of strategies; {name!r} is not one of {', '.join(names())}")
        if not isinstance(keys, Mapping):
            raise ValueError(f'expected the keys of {name} as a map, such as {{"{name}": {{"key": "value"}}}}')
        keys_of[name] = {str(key): value for key, value in keys.items()}
    return keys_of


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError("expected an IANA time zone such as Asia/Shanghai or UTC") from None
    return name


def _policies(value: object) -> list[object]:
    policies = [] if isinstance(value, str) and not value.strip().startswith("[") else as_list(value)
    if not all(isinstance(policy, Mapping) for policy in policies) or (not policies and isinstance(value, str)):
        raise ValueError(
            'expected a list of policies, in the variable as JSON such as [{"feed": {...}, "independents": [...]}], in '
            "the file under power.policies"
        )
    return policies


def _off(value: object) -> object:
    """YAML reads a bare `off` as a boolean."""
    return "off" if value is False else value


def _level(value: object) -> object:
    text = value.lower() if isinstance(value, str) else value
    return "warning" if text == "warn" else text


def _bind(text: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]\s]*):(\d{1,5})", text)
    if not match or int(match[2]) > 65535:
        raise ValueError("expected HOST:PORT such as 127.0.0.1:2022")
    return text


def _hosts(value: object) -> list[str]:
    return [subdomain(str(name).strip().lower()) for name in as_list(value)]


class WindowSettings(SettingsPart):
    """Over which times loads are averaged, and when an average counts as known."""

    lengths: Annotated[ListOf[Annotated[Duration, Positive]], Field(min_length=1)] = (
        Duration("15m"),
        Duration("10m"),
        Duration("5m"),
    )
    """Lengths of the windows; the first is the one scores, classes and annotations use."""

    min_coverage: Expert[Share] = 0.5
    """Share of a window that samples must cover for it to be known."""

    min_samples: Expert[Annotated[int, Field(ge=1)]] = 5
    """Samples a window needs to be known."""

    max_age: Expert[Annotated[Duration, Positive] | None] = None
    """Age of the newest sample beyond which a node is silent; unset: max(3 * resolution, 90s)."""


class ClusterSettings(SettingsPart):
    """How to reach the Kubernetes API, which nodes to work on, and how fast to write."""

    kubeconfig: File | None = None
    """Kubeconfig file; unset: the pod's service account."""

    context: Expert[str | None] = None
    """Context of the kubeconfig; unset: its current one."""

    node_selector: Annotated[str, AfterValidator(selector)] | None = None
    """Label selector of the nodes Ballast works on, such as node-role=worker,!gpu; unset: all."""

    pool_label: Annotated[str, AfterValidator(label_key)] | None = None
    """Node label that names the pool; statistics and moves stay inside a pool. Unset: all nodes are one pool."""

    qps: Expert[Annotated[float, Field(gt=0)]] = 20
    """Writes per second, on average."""

    burst: Expert[Annotated[int, Field(ge=1)]] = 40
    """Writes that may be sent at once after a quiet period."""


class LeaseSettings(SettingsPart):
    """How the replica that writes is chosen."""

    enabled: Expert[bool] = True
    """Elect one writer among the replicas; false: this replica always writes."""

    name: Expert[Annotated[str, AfterValidator(subdomain)]] = "ballast"
    """Name of the Lease."""

    namespace: Expert[Annotated[str, AfterValidator(label)] | None] = None
    """Namespace of the Lease; unset: the pod's own (POD_NAMESPACE)."""


class ScoringSettings(SettingsPart):
    """Keys of the strategies, for every use in the daemon: labels, metrics, extender."""

    keys: Expert[
        Annotated[
            Mapping[str, Mapping[str, Any]],
            BeforeValidator(_keys),
            WithJsonSchema({"type": ["string", "object"], "additionalProperties": {"type": "object"}}),
        ]
    ] = {}
    """Keys of strategies, as `ballast score --set` takes them, such as {"most-allocated": {"resources": {"cpu": 1,
    "nvidia.com/gpu": 5}}, "peaks": {"node_power_model": "/etc/ballast/power.yaml"}}; `policy` and `node_power_model`
    may be file names."""

    resources: Weights = {"cpu": 1.0, "memory": 1.0}
    """Weight of each resource, 0 to 1, in load-variation and blend and in what rebalance evens out, such as {"cpu": 1,
    "memory": 1, "disk": 0.5}; a node needs those above 0 that it has."""

    node_weights: NodeWeights = {}
    """What the load of some nodes counts as, above 0 to 10, by node name or label selector and resource, in the same
    places; {"disk=ssd": {"disk": 0.5}} lets such nodes carry twice as much."""


class ExtenderSettings(SettingsPart):
    """How the scheduler extender answers."""

    strategy: Strategy = "load-aware"
    """Strategy behind the answers; ?profile= selects another one."""

    filter_threshold: Expert[Load | None] = None
    """Load above which a node is filtered out; unset: no node is filtered out for its load."""

    service: Expert[Annotated[str, AfterValidator(subdomain)]] = "ballast-extender"
    """Service without a selector whose EndpointSlice the leader writes, in its own namespace."""

    token_file: File | None = None
    """File with a token that callers must show, in the path /scheduler/TOKEN/prioritize or as Authorization: Bearer;
    read again when it changes."""

    client_ca_file: Expert[File | None] = None
    """CA of the certificates by which callers are let in; needs TLS. With a token too, one of both is enough."""

    assume_for: Expert[Annotated[Duration, Positive]] = Duration("30s")
    """How long a placement decision counts while the watch has not confirmed it."""


class PublishingSettings(SettingsPart):
    """What is written on the nodes."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether labels, annotations and taints are written."""

    prefix: Expert[Annotated[str, AfterValidator(subdomain)]] = "ballast.dev"
    """Prefix of all label, annotation and taint keys."""

    label_prefix: Expert[Annotated[str, AfterValidator(subdomain)] | None] = None
    """Prefix of the labels `score` and `load` of nodes; unset: PREFIX. Under ballast.node-restriction.kubernetes.io no
    kubelet can write them."""

    strategy: Strategy = "load-variation"
    """Strategy behind the score label."""

    taint: bool = False
    """Also taint overloaded nodes with PreferNoSchedule."""

    load_taint: Expert[Literal["PreferNoSchedule", "NoSchedule"] | None] = None
    """Effect of a taint `load` with the load in percent, for tolerations with Lt and Gt; unset: none. NoSchedule keeps
    off every pod that does not tolerate it."""

    crane: bool = False
    """Also write the annotations of crane-scheduler."""

    crane_policy_file: Expert[File | None] = None
    """DynamicSchedulerPolicy file of crane-scheduler; unset: its default policy."""

    crane_timezone: Expert[Annotated[str, AfterValidator(_time_zone)]] = "Asia/Shanghai"
    """Time zone of the timestamps in crane's annotations."""

    max_unknown: Expert[Share] = 0.2
    """Share of silent nodes, among the known and silent ones, above which publishing freezes."""

    forget_after: Expert[Duration] = Duration("1h")
    """How long keys stay on young nodes and during a freeze, taints on nodes that are not known, and how long a
    resource that not every node has is missed."""

    interval: Expert[Annotated[Duration, Positive] | None] = None
    """Time between two rounds of writing; unset: the telemetry interval."""

    jitter: Expert[Share] = 0.1
    """Share of the interval over which writes are spread."""

    refresh: Expert[Annotated[Duration, Positive]] = Duration("1h")
    """Time after which a node is written even if no label changed."""

    low: LoadLimit = 0.3
    """Load below which the class is low: a number for cpu and memory, or a map such as {"cpu": 0.3, "gpu": 0.2}; the
    class is low where all of these are."""

    high: LoadLimit = 0.8
    """Load from which the class is high, as low: where one of these is."""

    overloaded: LoadLimit = 0.9
    """Load from which the taint is set, as high."""

    class_hysteresis: Expert[Share] = 0.05
    """How far a load must pass a threshold to change the class."""

    def every(self, telemetry: TelemetrySettings) -> Duration:
        """Time between two rounds of writing: `interval`, or the telemetry interval."""
        return self.interval or telemetry.interval


class PowerSettings(SettingsPart):
    """Keeps the replicas of workloads within the available power."""

    mode: ModeSetting = Mode.DRY_RUN
    """Whether replica counts and caps are changed."""

    operator_only: Expert[ListOf[Literal["exclude", "exclude-until", "exclude-power"]]] = ()
    """Annotations of Ballast that count on namespaces alone, not on workloads, which tenants may change."""

    policies: Annotated[tuple[Mapping[str, Any], ...], BeforeValidator(_policies)] = ()
    """Power policies (docs/power.md): a JSON list. In the file the keys of one policy may stand beside `mode`."""


class BatchSettings(SettingsPart):
    """Pods with the scheduling gate `ballast.dev/batch` (under PUBLISHING__PREFIX) are planned together."""

    mode: ModeSetting = Mode.OFF
    """Whether gates are removed. In dry-run plans are only reported: pods with the gate wait until somebody else
    removes it."""

    order: Expert[Literal["arrival", "small-first", "fullest"]] = "arrival"
    """Which pods of equal priority are placed first: the oldest, the smallest, or by `fullest` the oldest or the
    largest, whichever uses more of what is short."""

    aging: Expert[Duration] = Duration("5m")
    """Where size decides: age from which a pod comes before all that are younger, whatever its size; 0: never."""

    ahead: Expert[Annotated[int, Field(ge=1)]] = 20
    """Maximum pods whose gate is removed and that are not bound yet; room is held for each of them."""

    gather: Expert[Duration] = Duration("2s")
    """Time without a new pod after which those that came are planned; at most a sixth of timeout."""

    timeout: Expert[Annotated[Duration, Positive]] = Duration("60s")
    """Time without progress after which no pod has the gate any more."""

    interval: Expert[Annotated[Duration, Positive]] = Duration("5s")
    """Time between two cycles; at most a sixth of timeout."""


class HttpSettings(SettingsPart):
    """Where Ballast listens."""

    host: Expert[str] = "0.0.0.0"  # noqa: S104
    """Address to listen on."""

    port: Annotated[int, Field(ge=0, le=65535)] = 2020
    """Port to listen on; 0: any free one."""

    health_port: Expert[Annotated[int, Field(ge=0, le=65535)]] = 2021
    """Port of `/livez` and `/readyz` alone, without TLS, served by a thread of its own; 0: any free one."""

    extender_bind: Expert[Annotated[str, AfterValidator(_bind)] | None] = None
    """HOST:PORT of a separate listener for the extender; unset: the common port."""

    tls_cert_file: File | None = None
    """Server certificate; if set, Ballast serves TLS."""

    tls_key_file: File | None = None
    """Private key of the server certificate."""

    allowed_hosts: Expert[Annotated[tuple[str, ...], BeforeValidator(_hosts)]] = ()
    """Names by which browsers may reach the page, beside addresses, names without a dot and names of the cluster."""

    client_ca_file: Expert[File | None] = None
    """CA that clients' certificates must come from; needs TLS."""

    metrics_auth: Expert[Literal["none", "kubernetes"]] = "none"
    """Who may read `/metrics`: everybody, or who shows a token of the cluster that may `get` this path."""

    api_auth: Expert[Literal["none", "kubernetes"]] = "none"
    """Who may read `/api/`, `/watcher` and the details of probes (`?verbose`): everybody, or who shows a token of the
    cluster that may `get` the path `/api/`, for `/watcher` that path."""

    @property
    def reviewed(self) -> tuple[str, ...]:
        """Paths for which tokens are reviewed."""
        protected = (("/metrics", self.metrics_auth), ("/api/", self.api_auth), ("/watcher", self.api_auth))
        return tuple(path for path, auth in protected if auth == "kubernetes")

    def of_health(self) -> HttpSettings:
        """The health port's address, without TLS. Any free port where `port` is 0 and no health port is set."""
        free = self.port == 0 and "health_port" not in self.model_fields_set
        return HttpSettings(host=self.host, port=0 if free else self.health_port)

    def of_extender(self) -> HttpSettings | None:
        """The same settings at the extender's own address; None without `extender_bind`."""
        if self.extender_bind is None:
            return None
        host, _, port = self.extender_bind.rpartition(":")
        return self.model_copy(update={"host": host.strip("[]") or "0.0.0.0", "port": int(port)})  # noqa: S104


class MetricsSettings(SettingsPart):
    """What `/metrics` shows."""

    nodes: Expert[
        Annotated[
            Literal["off", "primary", "all"],
            BeforeValidator(_off),
            WithJsonSchema({"enum": ["off", "primary", "all", False]}),
        ]
    ] = "primary"
    """Series per node: none; mean, deviation and score over the first window, by the leader alone; or all windows and
    percentiles, by every replica. The histogram ballast_load is always there."""


class LogSettings(SettingsPart):
    """What is logged, and how."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_level)] = "info"
    """Lowest level that is logged."""

    format: Expert[Literal["text", "json"] | None] = None
    """Format of a line; unset: text on a terminal, else json."""
