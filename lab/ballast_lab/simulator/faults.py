"""Faults of real clusters, each with a switch.

Each public method of `Faults` between `clear` and `values` is one switch, in Python and over HTTP:

    cluster.faults.kube_429(seconds=60)
    curl -X POST URL/faults -d '{"fault": "kube_429", "seconds": 60}'
    curl URL/faults            # active faults
    curl -X DELETE URL/faults  # all off

`seconds` count from now on the cluster's clock; without them a fault stays on until it is cleared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ballast.base.clock import Clock

Values = Mapping[str, Any]


class Faults:
    """No fault is on at first. Node names are those of the world; times are in seconds of `clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._on: dict[str, tuple[float, dict[str, Any]]] = {}
        self._denied: dict[tuple[str, str], float] = {}
        self.dark: dict[str, float] = {}
        self.nan: set[str] = set()

    def clear(self) -> None:
        """Switches all faults off."""
        self._on.clear()
        self._denied.clear()
        self.dark.clear()
        self.nan.clear()

    def kube_429(self, seconds: float | None = None, retry_after: int = 1) -> None:
        """The API server sheds load: 429 with Retry-After (whole seconds) to every request."""
        self._switch("kube_429", seconds, retry_after=retry_after)

    def kube_500(self, seconds: float | None = None) -> None:
        """The API server answers 500."""
        self._switch("kube_500", seconds)

    def kube_401(self, seconds: float | None = None) -> None:
        """The API server rejects the credentials."""
        self._switch("kube_401", seconds)

    def kube_slow(self, delay: float, seconds: float | None = None) -> None:
        """The API server delays every answer by `delay` seconds of real time."""
        self._switch("kube_slow", seconds, delay=delay)

    def kube_reset(self, seconds: float | None = None) -> None:
        """The API server resets connections."""
        self._switch("kube_reset", seconds)

    def kube_forbidden(self, verb: str, resource: str, seconds: float | None = None) -> None:
        """RBAC does not allow `verb` on `resource` ("nodes", "pods/eviction"); "*" matches any."""
        self._denied[verb, resource] = self._until(seconds)

    def kube_watch_gone(self, seconds: float | None = None) -> None:
        """Every watch ends with 410."""
        self._switch("kube_watch_gone", seconds)

    def kube_watch_silence(self, seconds: float | None = None) -> None:
        """Watches stay open but send nothing."""
        self._switch("kube_watch_silence", seconds)

    def metrics_server_missing(self, seconds: float | None = None) -> None:
        """metrics.k8s.io is not served: 503, as from an aggregator without a backend."""
        self._switch("metrics_server_missing", seconds)

    def prometheus_down(self, seconds: float | None = None) -> None:
        """Prometheus closes connections without an answer."""
        self._switch("prometheus_down", seconds)

    def prometheus_slow(self, delay: float, seconds: float | None = None) -> None:
        """Prometheus delays every answer by `delay` seconds of real time."""
        self._switch("prometheus_slow", seconds, delay=delay)

    def prometheus_html(self, seconds: float | None = None) -> None:
        """A proxy in front of Prometheus answers 200 with a login page instead of JSON."""
        self._switch("prometheus_html", seconds)

    def prometheus_401(self, seconds: float | None = None) -> None:
        """Prometheus rejects the credentials."""
        self._switch("prometheus_401", seconds)

    def prometheus_500(self, seconds: float | None = None) -> None:
        """Prometheus answers 500."""
        self._switch("prometheus_500", seconds)

    def prometheus_empty(self, seconds: float | None = None) -> None:
        """Every query returns an empty result."""
        self._switch("prometheus_empty", seconds)

    def prometheus_nan(self, seconds: float | None = None) -> None:
        """Every value is NaN."""
        self._switch("prometheus_nan", seconds)

    def prometheus_partial(self, share: float = 0.5, seconds: float | None = None) -> None:
        """Queries return only the first `share` of the nodes, with a warning, as Thanos does."""
        self._switch("prometheus_partial", seconds, share=share)

    def prometheus_clusters(
        self, names: Sequence[str] = ("blue", "green"), label: str = "cluster", seconds: float | None = None
    ) -> None:
        """Every series exists once for each of these values of the label, in the second and later ones 0.3 higher."""
        self._switch("prometheus_clusters", seconds, names=list(names), label=label)

    def prometheus_duplicates(self, label: str = "instance", seconds: float | None = None) -> None:
        """Every node has a second series: its `instance` is the node's name, or the label has another value."""
        self._switch("prometheus_duplicates", seconds, label=label)

    def prometheus_labels(self, labels: Mapping[str, str], seconds: float | None = None) -> None:
        """Every series of nodes has these labels; {node}, {address} and {index} stand for the node's."""
        self._switch("prometheus_labels", seconds, labels=dict(labels))

    def prometheus_higher(self, by: float, seconds: float | None = None, node: int | None = None) -> None:
        """Every ratio, or that of the node at this place, is higher by so much, up to 1: another unit, or a forgery."""
        self._switch("prometheus_higher", seconds, by=by, node=node)

    def prometheus_forged(
        self,
        nodes: Sequence[int],
        labels: Mapping[str, str],
        by: float,
        *,
        alone: bool = False,
        seconds: float | None = None,
    ) -> None:
        """A second series of the nodes at these places has these labels too, and is higher by so much, up to 1.

        With `alone` the first one of these nodes is silent.
        """
        self._switch("prometheus_forged", seconds, nodes=list(nodes), labels=dict(labels), by=by, alone=alone)

    def prometheus_stale(self, age: float, seconds: float | None = None) -> None:
        """All samples are `age` seconds old, as behind a lagging remote write."""
        self._switch("prometheus_stale", seconds, age=age)

    def node_dark(self, node: str, after: float = 0.0) -> None:
        """The node's exporter stops `after` seconds from now; its series and metrics-server entries end then."""
        self.dark[node] = self._clock.wall() + after

    def exporter_nan(self, node: str) -> None:
        """The node's exporter sends NaN."""
        self.nan.add(node)

    def power_level(self, watts: float, seconds: float | None = None) -> None:
        """The power feed shows this many watts instead of the scene's."""
        self._switch("power_level", seconds, watts=watts)

    def power_silent(self, seconds: float | None = None) -> None:
        """The power feed has no series; as JSON it has no watts."""
        self._switch("power_silent", seconds)

    def power_doubled(self, seconds: float | None = None) -> None:
        """The power feed has two series."""
        self._switch("power_doubled", seconds)

    def power_frozen(self, seconds: float | None = None) -> None:
        """The power feed's exporter stops now; Prometheus keeps answering with its last sample."""
        self._switch("power_frozen", seconds, at=self._clock.wall())

    def values(self, fault: str) -> Values | None:
        """The parameters of a fault, or None if it is off."""
        until, values = self._on.get(fault, (-math.inf, {}))
        return values if self._clock.monotonic() < until else None

    def on(self, fault: str) -> bool:
        """Whether a fault is on."""
        return self.values(fault) is not None

    def denied(self, verb: str, resource: str) -> bool:
        """Whether `kube_forbidden` applies to this verb and resource."""
        now = self._clock.monotonic()
        return any(
            now < until and denied_verb in ("*", verb) and denied_resource in ("*", resource)
            for (denied_verb, denied_resource), until in self._denied.items()
        )

    def apply(self, fault: str, **values: Any) -> None:
        """Switches a fault on by its name. Raises ValueError for an unknown name, TypeError for wrong parameters."""
        if fault not in SWITCHES:
            raise ValueError(f"there is no fault {fault!r}; there are {', '.join(SWITCHES)}")
        getattr(self, fault)(**values)

    def active(self) -> list[dict[str, Any]]:
        """The faults that are on, as JSON objects."""
        now = self._clock.monotonic()
        found = [{"fault": name, **values} for name, (until, values) in self._on.items() if now < until]
        found += [
            {"fault": "kube_forbidden", "verb": verb, "resource": resource}
            for (verb, resource), until in self._denied.items()
            if now < until
        ]
        found += [{"fault": "node_dark", "node": node, "at": at} for node, at in self.dark.items()]
        return found + [{"fault": "exporter_nan", "node": node} for node in sorted(self.nan)]

    def _switch(self, fault: str, seconds: float | None, **values: Any) -> None:
        self._on[fault] = self._until(seconds), values

    def _until(self, seconds: float | None) -> float:
        return math.inf if seconds is None else self._clock.monotonic() + seconds


SWITCHES = tuple(
    name
    for name in vars(Faults)
    if name.startswith(("kube_", "prometheus_", "power_", "node_", "exporter_")) or name == "metrics_server_missing"
)
