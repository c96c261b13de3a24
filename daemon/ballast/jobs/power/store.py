"""The saved state of power policies in `ballast-state`, and the open plan, which is saved before it is applied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import msgspec

from ballast.base.errors import NOT_JSON, Superseded
from ballast.cluster.state import StateStore as Keys
from ballast.cluster.write import Result
from ballast.power.controller_state import ControllerMode, ControllerState, PowerPlan

_FRACTION = re.compile(r"-?\d+(?:/\d+)?", re.ASCII)
"""What `str` of a Fraction gives; other forms may stand for numbers of any size."""


@dataclass(frozen=True)
class Record:
    """What one policy remembers."""

    state: ControllerState = field(default_factory=ControllerState)
    """In a dry run its counts are those that would be."""
    based: float | None = None
    """Unix time of the baseline."""
    planned: float | None = None
    """Unix time at which the open plan was made."""
    lost: float | None = None
    """Unix time at which the state was found missing."""
    found: Mapping[str, int] | None = None
    """In a dry run, the real counts by namespace/name."""
    fingerprint: str | None = None
    """The policy's fingerprint at the baseline."""
    watts: Mapping[str, Fraction] | None = None
    """Watts of one replica by namespace/name at the baseline."""

    def lasting(self) -> Record:
        """The record without windows and modes, which a restart forgets; if the rest is the same, nothing is saved."""
        return replace(self, state=replace(self.state.lasting(), mode=ControllerMode.STABLE))


class _Kept(msgspec.Struct, frozen=True):
    """The record's form under `power.state.<policy>`, or `power.shadow.<policy>` in dry-run."""

    state: ControllerState
    based: float | None = None
    lost: float | None = None
    found: Mapping[str, int] | None = None
    fingerprint: str | None = msgspec.field(default=None, name="meaning")
    watts: Mapping[str, Fraction] | None = None


@dataclass(frozen=True)
class _Open:
    """The fields beside the plan's own under `power.plan.<policy>`."""

    created: float
    status: str = "open"


class PowerStore:
    """One policy's keys. A save fails where another replica changed them since they were read or written here."""

    def __init__(self, keys: Keys, policy: str, *, shadow: bool) -> None:
        self._keys = keys
        self._policy = policy
        self._kept = f"power.shadow.{policy}" if shadow else f"power.state.{policy}"
        self._plan = f"power.plan.{policy}"
        self._shadow = shadow
        self._known: dict[str, str | None] | None = None
        self._written: Record | None = None

    def read(self) -> Record | None:
        """The saved record, None without one. Raises ClusterError, ValueError where it cannot be decoded."""
        found = self._keys.read()
        self._known = {key: found.get(key) for key in self._names}
        kept, plan = found.get(self._kept), None if self._shadow else found.get(self._plan)
        record = _decoded(kept, plan) if kept is not None else None
        self._written = record
        return record

    def save(self, record: Record, *, reason: str) -> str | None:
        """Writes the record if it changed; returns why it is not written, or None.

        Raises Superseded where another replica wrote meanwhile, ClusterError where the keys cannot be read.
        """
        if record.lasting() == (self._written or Record(found=record.found)).lasting():
            return None
        wanted = self._encoded(record)

        def change(keys: dict[str, str]) -> Mapping[str, str]:
            if self._known is not None and any(keys.get(key) != self._known[key] for key in self._names):
                raise Superseded(f"someone else wrote the power state of {self._policy}; it is read again")
            rest = {key: value for key, value in keys.items() if key not in self._names}
            return {**rest, **{key: value for key, value in wanted.items() if value is not None}}

        outcome = self._keys.update(change, reason=reason)
        if not outcome.done:
            self._known = self._known if outcome.result in (Result.REFUSED, Result.CONFLICT) else None
            return outcome.reason
        self._known, self._written = wanted, record
        return None

    @property
    def _names(self) -> tuple[str, ...]:
        return (self._kept,) if self._shadow else (self._kept, self._plan)

    def _encoded(self, record: Record) -> dict[str, str | None]:
        state = replace(record.state, plan=None)
        wanted: dict[str, str | None] = {self._kept: _text(_kept(record, state))}
        if not self._shadow:
            plan = record.state.plan
            opened = {**_plain(_Open(record.planned or 0.0)), **_plain(plan)} if plan is not None else None
            wanted[self._plan] = _text(opened) if opened is not None else None
        return wanted


def _decoded(kept: str, plan: str | None) -> Record:
    try:
        record = msgspec.json.decode(kept, type=_Kept, dec_hook=_fraction)
        if record.state.schema != 1:
            raise ValueError(f"schema {record.state.schema} is unknown, expected 1")
        found = Record(record.state, record.based, None, record.lost, record.found, record.fingerprint, record.watts)
        _check(record.state)
        if plan is None:
            return found
        beside = msgspec.json.decode(plan, type=_Open)
        if beside.status == "done":
            return found
        opened = msgspec.json.decode(plan, type=PowerPlan, dec_hook=_fraction)
        _check_counts(opened.replicas)
    except (*NOT_JSON, ZeroDivisionError) as error:
        raise ValueError(str(error)) from None
    return replace(found, state=replace(found.state, plan=opened), planned=beside.created)


def _kept(record: Record, state: ControllerState) -> _Kept:
    return _Kept(state, record.based, record.lost, record.found, record.fingerprint, record.watts)


def _check(state: ControllerState) -> None:
    """Raises ValueError for impossible numbers."""
    anchor, reference = state.anchor, state.reference
    if anchor is not None and (anchor.watts <= 0 or anchor.load < 0):
        raise ValueError(f"an anchor of {anchor.load} at {anchor.watts} W")
    if reference is not None and (reference < 0 or (anchor is not None and not reference)):
        raise ValueError(f"a reference of {reference} W")
    _check_counts(state.last)
    _check_counts(state.baseline)


def _check_counts(counts: Mapping[str, int]) -> None:
    if wrong := [name for name, count in counts.items() if count < 0]:
        raise ValueError(f"a negative number of replicas of {wrong[0]}")


def _text(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str, order="deterministic").decode()


def _plain(value: object) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(_text(value))
    return plain


def _fraction(kind: type[Any], value: Any) -> Any:
    if kind is not Fraction:
        raise ValueError(f"{kind} is not expected")
    if isinstance(value, str) and not _FRACTION.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no fraction such as 2/3")
    return Fraction(value)
