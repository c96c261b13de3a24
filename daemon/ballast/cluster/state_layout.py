"""How the state lies in ConfigMaps: in one while it is small, and in parts beside it when it grows.

The first one holds an index of the parts, so that writing it makes a whole change count at once: chunks are written
before under names that nothing refers to yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

SCHEMA, SPLIT = "1", "1+parts"
"""Values of the key `schema`: readers of one ConfigMap alone know only the first."""

WHOLE = 800_000
"""Bytes up to which everything is in one ConfigMap; Kubernetes refuses one of more than 1 MiB."""

PART = 900_000
"""Bytes of a part, chunks of the state before included."""

PARTS = 8
CHUNK = 100_000
"""Characters of a value in one piece."""

INDEX = "parts"
_RESERVED = ("schema", INDEX)


class Place(msgspec.Struct, array_like=True, frozen=True):
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


def index(main: Mapping[str, str]) -> dict[str, list[Place]]:
    """Where the values are that `main` does not hold itself. Raises NOT_JSON, KeyError for a place with two values."""
    found = _index.decode(main.get(INDEX, "{}"))
    places = [place for each in found.values() for place in each]
    if len({(place.part, place.name) for place in places}) < len(places):
        raise KeyError("a place with two values")
    return found


def joined(main: Mapping[str, str], parts: Mapping[int, Mapping[str, str]]) -> dict[str, str]:
    """All keys with their values. Raises KeyError for a chunk that is not there, and as `index`."""
    keys = {key: value for key, value in main.items() if key not in _RESERVED}
    for key, places in index(main).items():
        keys[key] = "".join(parts[place.part][place.name] for place in places)
    return keys


def laid_out(
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
    for key in sorted(keys, key=lambda key: (-len(keys[key]), key)):
        if size(inline) <= WHOLE // 2:
            break
        value = inline.pop(key)
        there = before.get(key)
        if there is not None and value == "".join(parts[each.part][each.name] for each in there):
            places[key] = there
            continue
        found = room.placed(value)
        if found is None:
            return None
        places[key] = found
    return StateLayout({**inline, "schema": SPLIT, INDEX: _encode(places).decode()}, room.changed)


class _Room:
    """What the parts hold for the state before, and what is added for the next one; what neither needs is dropped."""

    def __init__(self, before: Mapping[str, list[Place]], parts: Mapping[int, Mapping[str, str]]) -> None:
        used = {(place.part, place.name) for places in before.values() for place in places}
        self._held = {
            number: {name: text for name, text in parts.get(number, {}).items() if (number, name) in used}
            for number in range(1, PARTS + 1)
        }
        self._sizes = {number: size(held) for number, held in self._held.items()}
        names = [int(name) for data in parts.values() for name in data if name.isdecimal()]
        self._next = max(names, default=0) + 1
        self.changed: dict[int, Mapping[str, str]] = {}

    def placed(self, value: str) -> list[Place] | None:
        """Where its chunks are now; None without room."""
        found = []
        for start in range(0, max(len(value), 1), CHUNK):
            place = self._place(value[start : start + CHUNK])
            if place is None:
                return None
            found.append(place)
        return found

    def _place(self, chunk: str) -> Place | None:
        need = len(chunk.encode()) + 20
        number = next((number for number, taken in self._sizes.items() if taken + need <= PART), None)
        if number is None:
            return None
        place = Place(number, str(self._next))
        self._next += 1
        self._held[number][place.name] = chunk
        self._sizes[number] += need
        self.changed[number] = self._held[number]
        return place


_index = msgspec.json.Decoder(dict[str, list[Place]])
_encode = msgspec.json.Encoder().encode
