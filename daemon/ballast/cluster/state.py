"""What must survive a restart: ConfigMap `ballast-state`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ballast.cluster import configmaps
from ballast.cluster.client import KubeApi
from ballast.cluster.configmaps import ConfigMapStore
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.errors import ClusterError

NAME = "ballast-state"
SCHEMA = "1"
LARGEST = 1_000_000
"""Bytes. Kubernetes refuses a ConfigMap of more than 1 MiB; the part that grows beyond this cannot save, others can."""

_ATTEMPTS = 5


class StateStore:
    """Every write is against the version that was read, so a former leader cannot overwrite its successor."""

    def __init__(self, api: KubeApi, writer: Writer, namespace: str) -> None:
        self._api = api
        self._writer = writer
        self._namespace = namespace

    def read(self) -> Mapping[str, str]:
        """Its keys, without `schema`; empty where there is none. Raises ClusterError."""
        return {key: value for key, value in self._read().data.items() if key != "schema"}

    def update(self, change: Callable[[dict[str, str]], Mapping[str, str]], *, reason: str) -> WriteOutcome:
        """Replaces the keys by what the pure function `change` makes of them; again after a conflict.

        With nothing to change nothing is sent. Raises ClusterError when it cannot be read.
        """
        outcome: WriteOutcome | None = None
        for _ in range(_ATTEMPTS):
            found = self._read()
            keys = {key: value for key, value in found.data.items() if key != "schema"}
            wanted = {**change(dict(keys)), "schema": SCHEMA}
            write = configmaps.writing(
                self._namespace, NAME, ConfigMapStore(wanted, found.version), kind="state", reason=reason
            )
            if wanted == found.data:
                return WriteOutcome(write, Result.DONE, "nothing to change")
            if (size := _size(wanted)) > LARGEST and size > _size(found.data):
                largest = max(wanted, key=lambda key: len(wanted[key]))
                told = (
                    f"ConfigMap {self._namespace}/{NAME} would have {size:,} bytes, at most {LARGEST:,} can be kept; "
                    f"its key {largest} is the largest. Give fewer targets to this Ballast, or some to another one."
                )
                return self._writer.tell(WriteOutcome(write, Result.REFUSED, told))
            outcome = self._writer.submit(write)
            if outcome.result is not Result.CONFLICT:
                break
        assert outcome is not None
        return outcome

    def _read(self) -> ConfigMapStore:
        found = configmaps.read(self._api, self._namespace, NAME)
        schema = found.data.get("schema", SCHEMA)
        if schema != SCHEMA:
            raise ClusterError(
                f"ConfigMap {self._namespace}/{NAME} has schema {schema!r}, this version of Ballast reads {SCHEMA!r}; "
                "install the version that wrote it, or delete the ConfigMap to forget open plans."
            )
        return found


def _size(data: Mapping[str, str]) -> int:
    return sum(len(key) + len(value.encode()) for key, value in data.items())
