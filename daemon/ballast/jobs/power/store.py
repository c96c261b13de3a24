"""The saved state of a power policy in `ballast-state`: its keys, what of it is still valid, what a baseline waits for.

An open plan is part of it: it is saved before it is applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

import msgspec

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.base.errors import NOT_JSON, ClusterError, Superseded
from ballast.cluster.state import StateStore as Keys
from ballast.cluster.write import Result
from ballast.model.stamps import Stamps
from ballast.power.anchor import without
from ballast.power.controller import rebaselined, resumed
from ballast.power.controller_state import ControllerMode, ControllerState, PowerPlan
from ballast.power.policy import Member, PowerPolicy
from ballast.power.sections import PolicySection

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
    real: Mapping[str, int] | None = None
    """In a dry run, the real counts by namespace/name."""
    fingerprint: str | None = None
    """The policy's fingerprint at the baseline."""
    watts: Mapping[str, Fraction] | None = None
    """Watts of one replica by namespace/name at the baseline."""

    def lasting(self) -> Record:
        """The record without windows and modes, which a restart forgets; if the rest is the same, nothing is saved."""
        return replace(self, state=replace(self.state.lasting(), mode=ControllerMode.STABLE))


class _SavedRecord(msgspec.Struct, frozen=True):
    """The record's form under `power.state.<policy>`, or `power.shadow.<policy>` in dry-run.

    `real` and `fingerprint` keep the names of the first version: with others an upgrade would lose every baseline.
    """

    state: ControllerState
    based: float | None = None
    lost: float | None = None
    real: Mapping[str, int] | None = msgspec.field(default=None, name="found")
    fingerprint: str | None = msgspec.field(default=None, name="meaning")
    watts: Mapping[str, Fraction] | None = None


@dataclass(frozen=True)
class _PlanStatus:
    """The fields beside the plan's own under `power.plan.<policy>`."""

    created: float
    status: str = "open"


RECENT = 600.0
"""A confirmation counts from this many seconds before the loss of the state was noticed; older ones do not."""

Traces = Callable[[Mapping[str, TargetStatus]], Iterable[str]]


class SavedState:
    """The record of one policy, and what of it is still valid. `traces` gives the targets that Ballast changed last."""

    def __init__(self, policy: PowerPolicy, store: PowerStore, traces: Traces) -> None:
        self._policy = policy
        self._store = store
        self._traces = traces
        self._fingerprint = policy_fingerprint(policy)
        self._watts = {name: place.member.watts for name, place in policy.places.items()}

    def read(self) -> Record:
        """The saved record; an empty one where there is none that can be decoded. Raises ClusterError."""
        record = self._store.read()
        return Record() if record is None else replace(record, state=resumed(record.state))

    def save(self, record: Record, reason: str) -> str | None:
        """Why the record is not saved, or None. Raises Superseded where another replica wrote meanwhile."""
        try:
            return self._store.save(record, reason=reason)
        except Superseded:
            raise
        except ClusterError as error:
            return str(error)

    def sign(self, record: Record) -> Record:
        """The record with the policy's fingerprint, once it has numbers that depend on it."""
        if record.state.reference is None:
            return record
        return replace(record, fingerprint=self._fingerprint, watts=self._watts)

    def still_valid(self, record: Record, confirmed: float | None) -> Record:
        """The part of the saved record that is still valid.

        A new baseline, `confirmed` at that Unix time, or a changed fingerprint empties it; targets that left the policy
        are taken out.
        """
        if confirmed is not None and record.based is not None and confirmed > record.based:
            return Record(rebaselined(record.state))
        if self._changed(record):
            return replace(record, state=rebaselined(record.state), based=None, planned=None, real=None)
        state = record.state
        known = {*state.last, *state.baseline, *state.away, *(state.plan.replicas if state.plan else ())}
        left = known - self._watts.keys()
        if not left:
            return record
        gone = {name: (record.watts or {}).get(name, Fraction(1)) for name in left}
        return replace(record, state=without(self._policy, state, gone))

    def _changed(self, record: Record) -> bool:
        if record.fingerprint is None or (record.fingerprint == self._fingerprint and record.watts is self._watts):
            return False
        watts = record.watts or {}
        return record.fingerprint != self._fingerprint or any(
            self._watts.get(name, before) != before for name, before in watts.items()
        )

    def awaits(
        self,
        record: Record,
        statuses: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
        wall: float,
        confirmed: float | None,
    ) -> str | None:
        """What a new baseline waits for at Unix time `wall`; None where the next valid sample may be the baseline."""
        if self._policy.absolute or self._policy.nominal is not None:
            return None
        if confirmed is not None and confirmed > (record.lost or wall) - RECENT:
            return None
        # A target at a bound may stand there because of Ballast: as a baseline that would make the shortage permanent.
        bound = {
            name: status
            for name, count in counts.items()
            if _at_a_bound(count, status := statuses[name], self._policy.places[name].member)
        }
        ours = next(iter(self._traces(bound)), None) if bound else None
        if ours is None:
            return None
        why = (
            "the policy's feed, basePower, nominal or wattsPerReplica changed since the baseline"
            if self._changed(record)
            else "the state was lost"
        )
        return (
            f"{why}, and {ours} is at a bound where Ballast may have put it: set nominal in the policy, or confirm the "
            "present replicas with key power.rebaseline of ballast-switches"
        )


class PowerStore:
    """One policy's keys. A save fails where another replica changed them since they were read or written here."""

    def __init__(self, keys: Keys, policy: str, *, shadow: bool) -> None:
        self.keys = keys
        self._policy = policy
        self._record_key = f"power.shadow.{policy}" if shadow else f"power.state.{policy}"
        self._plan_key = f"power.plan.{policy}"
        self._names = (self._record_key,) if shadow else (self._record_key, self._plan_key)
        self._known: dict[str, str | None] | None = None
        self._written: Record | None = None

    def read(self) -> Record | None:
        """The saved record, None without one that can be decoded. Raises ClusterError."""
        keys = self.keys.read()
        self._known = {name: keys.get(name) for name in self._names}
        record, plan = self._known[self._record_key], self._known.get(self._plan_key)
        try:
            self._written = None if record is None else _decode(record, plan, self.keys.stamps(self._record_key))
        except ValueError as error:
            self._written = None
            for name, text in self._known.items():
                if text is not None:
                    self.keys.begin_anew(name, text, error)
        return self._written

    def save(self, record: Record, *, reason: str) -> str | None:
        """Writes the record if it changed; returns why it is not written, or None.

        Raises Superseded where another replica wrote meanwhile, ClusterError where the keys cannot be read.
        """
        if record.lasting() == (self._written or Record(real=record.real)).lasting():
            return None
        new = {name: text for name, text in self._encode(record).items() if name in self._names}

        def change(keys: dict[str, str]) -> Mapping[str, str]:
            if self._known is not None and any(keys.get(name) != self._known[name] for name in self._names):
                raise Superseded(f"someone else wrote the power state of {self._policy}; it is read again")
            others = {name: text for name, text in keys.items() if name not in self._names}
            return {**others, **{name: text for name, text in new.items() if text is not None}}

        outcome = self.keys.update(change, reason=reason)
        if not outcome.done:
            self._known = self._known if outcome.result in (Result.REFUSED, Result.CONFLICT) else None
            return outcome.reason
        self._known, self._written = new, record
        return None

    def _encode(self, record: Record) -> dict[str, str | None]:
        """The texts of both keys; None where there is no open plan."""
        plan, state = record.state.plan, replace(record.state, plan=None)
        saved = _SavedRecord(state, record.based, record.lost, record.real, record.fingerprint, record.watts)
        opened = (
            None
            if plan is None
            else _text({"created": record.planned or 0.0, "status": "open", **msgspec.to_builtins(plan, enc_hook=str)})
        )
        return {self._record_key: _text(saved), self._plan_key: opened}


def _decode(text: str, plan: str | None, stamps: Stamps) -> Record:
    try:
        saved = msgspec.json.decode(text, type=_SavedRecord, dec_hook=_fraction)
        if saved.state.schema != 1:
            raise ValueError(f"schema {saved.state.schema} is unknown, expected 1")
        based, lost = (None if at is None else stamps.past(at) for at in (saved.based, saved.lost))
        state = saved.state.read_at(stamps)
        record = Record(state, based, None, lost, saved.real, saved.fingerprint, saved.watts)
        _check(saved.state)
        if plan is None:
            return record
        status = msgspec.json.decode(plan, type=_PlanStatus)
        if status.status == "done":
            return record
        opened = msgspec.json.decode(plan, type=PowerPlan, dec_hook=_fraction)
        _check_counts(opened.replicas)
    except (*NOT_JSON, ZeroDivisionError, OverflowError) as error:
        raise ValueError(str(error)) from None
    return replace(record, state=replace(record.state, plan=opened), planned=status.created)


_HOW = frozenset({"max_age", "expect_series", "freshness", "time_path", "floor_watts"})
"""Keys that say how a feed is read and checked; its watts do not depend on them."""


def policy_fingerprint(policy: PowerPolicy) -> str:
    """16 hexadecimal digits that change with feed, basePower, nominal or compat: the anchor's watts then mean others.

    Keys at their default do not count.
    """
    parts = {"base": policy.base_power, "compat": policy.compat, "nominal": policy.nominal, "feed": policy.feed}
    plain = {name: _without_defaults(value) for name, value in parts.items()}
    return sha256(msgspec.json.encode(plain, enc_hook=str, order="deterministic")).hexdigest()[:16]


def _without_defaults(value: Any) -> Any:
    if not isinstance(value, PolicySection):
        return value
    fields = type(value).model_fields
    return {name: _without_defaults(part) for name, part in value if name not in _HOW and part != fields[name].default}


def _at_a_bound(count: int, status: TargetStatus, member: Member) -> bool:
    highest = min(member.max, status.maximum) if status.capped else member.max
    return count <= max(member.min, status.minimum) or count >= highest


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


def _fraction(kind: type[Any], value: Any) -> Any:
    if kind is not Fraction:
        raise ValueError(f"{kind} is not expected")
    if isinstance(value, str) and not _FRACTION.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no fraction such as 2/3")
    return Fraction(value)
