"""The pause switches: ConfigMap `ballast-switches`."""

from collections.abc import Mapping

import msgspec

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.base.parts import SWITCHES
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Reader
from ballast.cluster.state import collection
from ballast.cluster.watch import Bounds, Collection, Reflector, WatchGroup

NAME = SWITCHES

SWITCHES_SILENT = 30.0
"""Seconds of silence after which everything is paused. Their watch is renewed after 15 s at most to keep within it."""

SWITCHES_WAIT = 10.0
"""Seconds between two attempts at most, also where the server asks for more."""

_decoder = msgspec.json.Decoder(wire.ConfigMap)


class Switches(WatchGroup):
    """Keys `paused` and `paused.<part>`, "true" or "false". No ConfigMap: not paused. When in doubt: paused."""

    def __init__(self, api: KubeApi, clock: Clock, metrics: Metrics, namespace: str) -> None:
        self._where = f"ConfigMap {namespace}/{NAME}"
        self._object = _Single()
        # A quiet watch may be silent for a minute; short watches keep a healthy one below SWITCHES_SILENT.
        self._watch = Reflector(
            api,
            clock,
            metrics,
            self._object,
            Reader("switches", _decoder.decode),
            Collection(collection(namespace), {"fieldSelector": f"metadata.name={NAME}"}),
            Bounds(lifetime=(10, 15), idle=20.0, longest_wait=SWITCHES_WAIT),
        )
        super().__init__(clock, {"switches": self._watch})

    @property
    def values(self) -> Mapping[str, str]:
        """Every key of the ConfigMap, empty without one."""
        return self._object.data

    def paused(self, part: str) -> str | None:
        """Why `part` must not act now, or None."""
        problem = f": {self._watch.problem}" if self._watch.problem else ""
        if not self._watch.synced:
            return f"paused because {self._where} has not been read{problem}"
        if self._watch.age > SWITCHES_SILENT:
            return f"paused because {self._where} was last seen {self._watch.age:.0f} s ago{problem}"
        for key in ("paused", f"paused.{part}"):
            value = self.values.get(key, "false")
            if value == "true":
                return f"paused by key {key} of {self._where}"
            if value != "false":
                return f'paused because key {key} of {self._where} is {value!r}; it may be "true" or "false"'
        return None


class _Single:
    def __init__(self) -> None:
        self.data: Mapping[str, str] = {}

    def replace(self, items: list[wire.ConfigMap]) -> None:
        self.data = next((item.data or {} for item in items if item.metadata.name == NAME), {})

    def put(self, item: wire.ConfigMap) -> None:
        if item.metadata.name == NAME:
            self.data = item.data or {}

    def remove(self, item: wire.ConfigMap) -> None:
        if item.metadata.name == NAME:
            self.data = {}
