"""What must survive a restart: ConfigMap `ballast-state`, with parts beside it where it is large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster import configmaps, state_layout
from ballast.cluster.client import KubeApi
from ballast.cluster.configmaps import ConfigMapStore
from ballast.cluster.state_layout import PARTS, SCHEMA, SPLIT
from ballast.cluster.write import Result, Write, WriteOutcome
from ballast.cluster.writer import Writer

NAME = "ballast-state"
NAMES = (NAME, *(f"{NAME}-{number}" for number in range(1, PARTS + 1)))
_ATTEMPTS = 5


@dataclass(frozen=True)
class _StoredState:
    main: ConfigMapStore
    parts: Mapping[int, ConfigMapStore]
    keys: Mapping[str, str]

    @property
    def data(self) -> dict[int, Mapping[str, str]]:
        return {number: part.data for number, part in self.parts.items()}


class StateStore:
    """Every write is against the version that was read, so a former leader cannot overwrite its successor."""

    def __init__(self, api: KubeApi, writer: Writer, namespace: str) -> None:
        self._api = api
        self._writer = writer
        self._namespace = namespace

    def read(self) -> Mapping[str, str]:
        """Its keys, without `schema`; empty where there is none. Raises ClusterError."""
        return self._read().keys

    def update(self, change: Callable[[dict[str, str]], Mapping[str, str]], *, reason: str) -> WriteOutcome:
        """Replaces the keys by what the pure function `change` makes of them; again after a conflict.

        With nothing to change nothing is sent. Raises ClusterError when it cannot be read.
        """
        outcome: WriteOutcome | None = None
        for _ in range(_ATTEMPTS):
            outcome = self._once(change, reason)
            if outcome.result is not Result.CONFLICT:
                break
        assert outcome is not None
        return outcome

    def _once(self, change: Callable[[dict[str, str]], Mapping[str, str]], reason: str) -> WriteOutcome:
        found = self._read()
        wanted = dict(change(dict(found.keys)))
        if state_layout.size(wanted) > state_layout.WHOLE:
            found = _StoredState(found.main, self._all_parts(found.parts), found.keys)
        layout = state_layout.laid_out(wanted, found.main.data, found.data)
        if layout is None:
            return self._writer.record(self._refused(wanted, found, reason))
        if layout.main == found.main.data:
            return WriteOutcome(self._writing(0, found.main, layout.main, reason), Result.DONE, "nothing to change")
        for number, data in layout.parts.items():
            outcome = self._writer.submit(self._writing(number, found.parts[number], data, reason))
            if outcome.result is not Result.DONE:
                return outcome
        outcome = self._writer.submit(self._writing(0, found.main, layout.main, reason))
        if outcome.result is Result.DONE and layout.main["schema"] == SCHEMA:
            for number, part in found.parts.items():
                self._writer.submit(self._writing(number, part, {}, "the state is in one ConfigMap again"))
        return outcome

    def _writing(self, number: int, before: ConfigMapStore, data: Mapping[str, str], reason: str) -> Write:
        wanted = ConfigMapStore(data, before.version)
        return configmaps.writing(self._namespace, NAMES[number], wanted, kind="state", reason=reason)

    def _refused(self, wanted: Mapping[str, str], found: _StoredState, reason: str) -> WriteOutcome:
        largest = max(wanted, key=lambda key: len(wanted[key]))
        text = (
            f"ConfigMaps {self._namespace}/{NAME} would have {state_layout.size(wanted):,} bytes; its {PARTS} parts "
            f"of {state_layout.PART:,} have no room for that beside what they hold; key {largest} is the largest. Give "
            "fewer targets to this Ballast, or some to another one."
        )
        return WriteOutcome(self._writing(0, found.main, wanted, reason), Result.REFUSED, text)

    def _read(self) -> _StoredState:
        """Again where a part was rewritten between two reads."""
        missing: Exception | None = None
        for _ in range(_ATTEMPTS):
            main = configmaps.read(self._api, self._namespace, NAME)
            schema = main.data.get("schema", SCHEMA)
            if schema not in (SCHEMA, SPLIT):
                raise ClusterError(
                    f"ConfigMap {self._namespace}/{NAME} has schema {schema!r}, this version of Ballast reads "
                    f"{SCHEMA!r} and {SPLIT!r}; install the version that wrote it, or delete the ConfigMap to forget "
                    "open plans."
                )
            try:
                places = state_layout.index(main.data)
                parts = {
                    number: self._part(number)
                    for number in sorted({place.part for each in places.values() for place in each})
                }
                keys = state_layout.joined(main.data, {number: part.data for number, part in parts.items()})
                return _StoredState(main, parts, keys)
            except (KeyError, IndexError, *NOT_JSON) as error:
                missing = error
        raise ClusterError(
            f"ConfigMap {self._namespace}/{NAME} names parts that cannot be read ({missing}); restore {NAME}-1 to "
            f"{NAME}-{PARTS}, or delete {NAME} to forget open plans."
        ) from missing

    def _part(self, number: int) -> ConfigMapStore:
        if number < 1:
            raise IndexError(f"there is no part {number}")
        return configmaps.read(self._api, self._namespace, NAMES[number])

    def _all_parts(self, known: Mapping[int, ConfigMapStore]) -> dict[int, ConfigMapStore]:
        return {number: known.get(number) or self._part(number) for number in range(1, PARTS + 1)}
