"""What must survive a restart: ConfigMap `ballast-state`, with parts beside it where it is large."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import structlog

from ballast.base.clock import AHEAD, Clock, SystemClock
from ballast.base.errors import NOT_JSON, ClusterError, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import Writer
from ballast.model.stamps import Stamps

_log = structlog.get_logger("state")
_decoder = msgspec.json.Decoder(wire.ConfigMap)


@dataclass(frozen=True)
class ConfigMapStore:
    """`version` is its resourceVersion, empty where it does not exist yet."""

    data: Mapping[str, str]
    version: str = ""


def collection(namespace: str) -> str:
    """The path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


def read(api: KubeApi, namespace: str, name: str) -> ConfigMapStore:
    """The ConfigMap, an empty one without a version where there is none. Raises ClusterError."""
    path = object_path(collection(namespace), name)
    try:
        config_map = _decoder.decode(api.get(path))
    except NotFound:
        return ConfigMapStore({})
    except NOT_JSON as error:
        raise ClusterError(f"GET {path}: not a ConfigMap ({error})") from error
    return ConfigMapStore(config_map.data or {}, config_map.metadata.resource_version)


def writing(namespace: str, name: str, content: ConfigMapStore, *, kind: str, reason: str) -> Write:
    """Creates it, or replaces exactly the version that was read."""
    meta = {"name": name, "namespace": namespace, **({"resourceVersion": content.version} if content.version else {})}
    path = collection(namespace)
    return Write(
        kind=kind,
        part=None,
        method="PUT" if content.version else "POST",
        path=object_path(path, name) if content.version else path,
        target=WriteTarget("ConfigMap", name, namespace),
        reason=reason,
        body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(content.data)},
    )


SCHEMA = "1"
"""Value of the key `schema` while one ConfigMap holds all."""

SPLIT = "1+parts"
"""Its value while parts hold some of it. Versions that read one ConfigMap alone do not know this value."""

WHOLE = 800_000
"""Bytes up to which everything is in one ConfigMap; Kubernetes refuses one of more than 1 MiB."""

PART = 900_000
"""Bytes of a part, chunks of the state before included."""

PARTS = 8
"""Most ConfigMaps beside the first one."""

CHUNK = 100_000
"""Characters of a value in one piece."""

INDEX = "parts"
SAVES, SET_BACK = "saves", "set-back"
"""Keys: how often the state was saved, and when it was last found set back (Unix seconds)."""

UNREADABLE = "unreadable."
"""Before the name of a key: its value as it was when it could not be read, kept for people."""

_STAMPS = (SAVES, SET_BACK)
_RESERVED = ("schema", INDEX, *_STAMPS)


class Location(msgspec.Struct, array_like=True, frozen=True):
    """Where a chunk of a value is."""

    part: int
    name: str


@dataclass(frozen=True)
class StateLayout:
    """`parts` are those that have to be written before `main`, whole."""

    main: Mapping[str, str]
    parts: Mapping[int, Mapping[str, str]]


def size(data: Mapping[str, str]) -> int:
    """Bytes of keys and values."""
    return sum(len(key) + len(value.encode()) for key, value in data.items())


def index(main: Mapping[str, str]) -> dict[str, list[Location]]:
    """Where the values are that `main` does not hold itself. Raises NOT_JSON, KeyError for a place with two values."""
    by_key = _index.decode(main.get(INDEX, "{}"))
    places = [place for chunks in by_key.values() for place in chunks]
    if len({(place.part, place.name) for place in places}) < len(places):
        raise KeyError("a place with two values")
    return by_key


def join_parts(main: Mapping[str, str], parts: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """All keys with their values. Raises KeyError for a chunk that is not there, and as `index`."""
    keys = {key: value for key, value in main.items() if key not in _RESERVED}
    for key, places in index(main).items():
        keys[key] = "".join(parts[place.part][place.name] for place in places)
    return keys


def lay_out(
    keys: Mapping[str, str], main: Mapping[str, str], parts: Mapping[int, Mapping[str, str]]
) -> StateLayout | None:
    """The largest values go to parts until the rest is small; what has not changed stays where it is.

    `main` and `parts` are what is stored now. None where the parts have no room for it.
    """
    if size(keys) <= WHOLE:
        return StateLayout({**keys, "schema": SCHEMA}, {})
    before = index(main)
    room = _Room(before, parts)
    inline, places = dict(keys), {}
    # The largest values first, down to half: a value that grows a little does not move others to the parts each time.
    for key in sorted(keys, key=lambda key: (-len(keys[key]), key)):
        if size(inline) <= WHOLE // 2:
            break
        value = inline.pop(key)
        there = before.get(key)
        if there is not None and value == "".join(parts[place.part][place.name] for place in there):
            places[key] = there  # unchanged: the part is not written again
            continue
        taken = room.place_value(value)
        if taken is None:
            return None
        places[key] = taken
    return StateLayout({**inline, "schema": SPLIT, INDEX: _encode(places).decode()}, room.changed)


class _Room:
    """What the parts hold for the state before, and what is added for the next one; what neither needs is dropped."""

    def __init__(self, before: Mapping[str, list[Location]], parts: Mapping[int, Mapping[str, str]]) -> None:
        used = {(place.part, place.name) for places in before.values() for place in places}
        self._held = {
            number: {name: text for name, text in parts.get(number, {}).items() if (number, name) in used}
            for number in range(1, PARTS + 1)
        }
        self._sizes = {number: size(held) for number, held in self._held.items()}
        names = [int(name) for data in parts.values() for name in data if name.isdecimal()]
        self._next = max(names, default=0) + 1
        self.changed: dict[int, Mapping[str, str]] = {}

    def place_value(self, value: str) -> list[Location] | None:
        """Where its chunks are now; None without room."""
        chunks = []
        for start in range(0, max(len(value), 1), CHUNK):
            place = self._place(value[start : start + CHUNK])
            if place is None:
                return None
            chunks.append(place)
        return chunks

    def _place(self, chunk: str) -> Location | None:
        need = len(chunk.encode()) + 20
        number = next((number for number, taken in self._sizes.items() if taken + need <= PART), None)
        if number is None:
            return None
        place = Location(number, str(self._next))
        self._next += 1
        self._held[number][place.name] = chunk
        self._sizes[number] += need
        self.changed[number] = self._held[number]
        return place


_index = msgspec.json.Decoder(dict[str, list[Location]])
_encode = msgspec.json.Encoder().encode


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


def _unstamped(main: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in main.items() if key not in _STAMPS}


class StateAge:
    """How often the state was saved, as far as this process knows: from its own saves, and from the Lease."""

    def __init__(self) -> None:
        self.saves = 0

    def see(self, text: str | None) -> int:
        """What a Lease or a ConfigMap says; 0 where that is no count that saving can have come to."""
        saves = _number(text) or 0
        saves = saves if saves <= MOST_SAVES else 0
        self.saves = max(self.saves, saves)
        return saves

    @property
    def next(self) -> str:
        """The count of the next save, which can be read again whatever this one is."""
        return str(min(self.saves + 1, MOST_SAVES))


MOST_SAVES = 10**12
"""A save a second for 30,000 years."""

_DIGITS = 15


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


class StateStore:
    """Every write is against the version that was read, so a former leader cannot overwrite its successor.

    Each save counts. A ConfigMap with a smaller count than the Lease's was set back, by a restore or by somebody.
    """

    def __init__(
        self, api: KubeApi, writer: Writer, namespace: str, clock: Clock | None = None, age: StateAge | None = None
    ) -> None:
        """`age` is shared with who renews the Lease."""
        self._api = api
        self._writer = writer
        self._namespace = namespace
        self._clock = clock or SystemClock()
        self._age = age or StateAge()
        self.set_back: float | None = None
        """When the state was last found set back, Unix seconds."""
        self._noticed = 0
        self.ahead: dict[str, tuple[float, str]] = {}
        """{key: (Unix time, sentence)} of those that held times later than then."""
        self._unreadable: dict[str, str] = {}

    def read(self) -> Mapping[str, str]:
        """Its keys, without `schema`; empty where there is none. Raises ClusterError."""
        return self._read().keys

    def stamps(self, key: str) -> Stamps:
        """Reads the times in the value of a key, as of now. The first that is later than now is told."""
        now = self._clock.wall()

        def tell(at: float) -> None:
            if at <= now + AHEAD or key in self.ahead:
                return
            sentence = (
                f"key {key} of ConfigMap {self._namespace}/{NAME} has times later than now, such as {_stamp(at)}; "
                f"they count as {_stamp(now)}"
            )
            self.ahead[key] = now, sentence
            _log.warning(sentence)

        return Stamps(now, tell)

    def begin_anew(self, key: str, text: str, error: Exception) -> None:
        """Says that the value of a key cannot be read. The next save that replaces it keeps it under another name."""
        if self._unreadable.get(key) != text:
            self._unreadable[key] = text
            _log.warning(
                f"key {key} of ConfigMap {self._namespace}/{NAME} cannot be read and begins anew; what it held stays "
                f"under {UNREADABLE}{key}",
                error=str(error),
            )

    def check_age(self) -> None:
        """Notices a state that was set back while nothing else reads it. Raises ClusterError."""
        known = self._age.saves
        self._judge_age(read(self._api, self._namespace, NAME).data, known)

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
        stored = self._read()
        keys = {**change(dict(stored.keys))}
        keys |= self._replaced(stored.keys, keys)
        if size(keys) > WHOLE:
            stored = _StoredState(stored.main, self._all_parts(stored.parts), stored.keys)
        layout = lay_out(keys, stored.main.data, stored.data)
        if layout is None:
            return self._writer.record(self._refuse(keys, stored, reason))
        before = stored.main.data
        stamps = {SAVES: self._age.next} | ({} if self.set_back is None else {SET_BACK: f"{self.set_back:.0f}"})
        if layout.main == _unstamped(before) and stamps.get(SET_BACK) == before.get(SET_BACK):
            return WriteOutcome(self._writing(0, stored.main, layout.main, reason), Result.DONE, "nothing to change")
        for number, data in layout.parts.items():
            outcome = self._writer.submit(self._writing(number, stored.parts[number], data, reason))
            if outcome.result is not Result.DONE:
                return outcome
        outcome = self._writer.submit(self._writing(0, stored.main, {**layout.main, **stamps}, reason))
        if outcome.result is Result.DONE:
            self._age.see(stamps[SAVES])
        if outcome.result is Result.DONE and layout.main["schema"] == SCHEMA:
            for number, part in stored.parts.items():
                self._writer.submit(self._writing(number, part, {}, "the state is in one ConfigMap again"))
        return outcome

    def _replaced(self, before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
        """What could not be read and would be overwritten, under other names."""
        unread = self._unreadable.items()
        return {f"{UNREADABLE}{key}": text for key, text in unread if before.get(key) == text != after.get(key)}

    def _writing(self, number: int, before: ConfigMapStore, data: Mapping[str, str], reason: str) -> Write:
        content = ConfigMapStore(data, before.version)
        return writing(self._namespace, NAMES[number], content, kind="state", reason=reason)

    def _refuse(self, keys: Mapping[str, str], stored: _StoredState, reason: str) -> WriteOutcome:
        largest = max(keys, key=lambda key: len(keys[key]))
        text = (
            f"ConfigMaps {self._namespace}/{NAME} would have {size(keys):,} bytes; its {PARTS} parts "
            f"of {PART:,} have no room for that beside what they hold; key {largest} is the largest. Give "
            "fewer targets to this Ballast, or some to another one."
        )
        return WriteOutcome(self._writing(0, stored.main, keys, reason), Result.REFUSED, text)

    def _read(self) -> _StoredState:
        """Again where a part was rewritten between two reads."""
        missing: Exception | None = None
        for _ in range(_ATTEMPTS):
            known = self._age.saves  # before it is read: another thread may save meanwhile
            main = read(self._api, self._namespace, NAME)
            self._judge_age(main.data, known)
            schema = main.data.get("schema", SCHEMA)
            if schema not in (SCHEMA, SPLIT):
                raise ClusterError(
                    f"ConfigMap {self._namespace}/{NAME} has schema {schema!r}, this version of Ballast reads "
                    f"{SCHEMA!r} and {SPLIT!r}; install the version that wrote it, or delete the ConfigMap to forget "
                    "open plans."
                )
            try:
                places = index(main.data)
                parts = {
                    number: self._part(number)
                    for number in sorted({place.part for chunks in places.values() for place in chunks})
                }
                keys = join_parts(main.data, {number: part.data for number, part in parts.items()})
                return _StoredState(main, parts, keys)
            except (KeyError, IndexError, *NOT_JSON) as error:
                missing = error
        raise ClusterError(
            f"ConfigMap {self._namespace}/{NAME} names parts that cannot be read ({missing}); restore {NAME}-1 to "
            f"{NAME}-{PARTS}, or delete {NAME} to forget open plans."
        ) from missing

    def _judge_age(self, data: Mapping[str, str], known: int) -> None:
        earlier = _number(data.get(SET_BACK))
        # A time of the future counts as now, once: it is not moved on at each look.
        if earlier is not None and (self.set_back is None or earlier <= self._clock.wall()):
            self.set_back = max(self.stamps(SET_BACK).past(earlier), self.set_back or 0.0)
        if self._age.see(data.get(SAVES)) < known and (self.set_back is None or known > self._noticed):
            self.set_back, self._noticed = self._clock.wall(), known

    def _part(self, number: int) -> ConfigMapStore:
        if number < 1:
            raise IndexError(f"there is no part {number}")
        return read(self._api, self._namespace, NAMES[number])

    def _all_parts(self, known: Mapping[int, ConfigMapStore]) -> dict[int, ConfigMapStore]:
        return {number: known.get(number) or self._part(number) for number in range(1, PARTS + 1)}


def _stamp(time: float) -> str:
    try:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time:g} s since 1970"
