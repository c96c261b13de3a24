"""The saved state of a policy: what of it is still valid, and what a new baseline waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.base.errors import ClusterError, Superseded
from ballast.jobs.power.store import PowerStore, Record
from ballast.jobs.power.view import TickContext, TickReport
from ballast.power.controller import rebaselined, resumed
from ballast.power.fingerprint import policy_fingerprint
from ballast.power.foreign_changes import without
from ballast.power.policy import Member, PowerPolicy

RECENT = 600.0
"""A confirmation counts from this many seconds before the loss of the state was noticed; older ones do not."""

Traces = Callable[[Mapping[str, TargetStatus]], Iterable[str]]


class SavedState:
    """Reads and saves the record of one policy. `traces` gives the targets that Ballast changed last."""

    def __init__(self, policy: PowerPolicy, store: PowerStore, traces: Traces) -> None:
        self._policy = policy
        self._store = store
        self._traces = traces
        self._fingerprint = policy_fingerprint(policy)
        self._watts = {name: place.member.watts for name, place in policy.places.items()}

    def read(self) -> Record:
        """The saved record; an empty one where there is none that can be decoded. Raises ClusterError."""
        try:
            found = self._store.read()
        except ValueError:
            found = None
        return Record() if found is None else replace(found, state=resumed(found.state))

    def save(self, record: Record, reason: str) -> str | None:
        """Why the record is not saved, or None. Raises Superseded where another replica wrote meanwhile."""
        try:
            return self._store.save(record, reason=reason)
        except Superseded:
            raise
        except ClusterError as error:
            return str(error)

    def marked(self, record: Record) -> Record:
        """The record with what its numbers mean, once it has some."""
        if record.state.reference is None:
            return record
        return replace(record, fingerprint=self._fingerprint, watts=self._watts)

    def valid(self, record: Record, now: TickContext) -> Record:
        """The part of the saved record that is still valid.

        A confirmed new baseline or a changed fingerprint empties it; targets that left the policy are taken out.
        """
        if now.confirmed is not None and record.based is not None and now.confirmed > record.based:
            return Record(rebaselined(record.state))
        if self._changed(record):
            return replace(record, state=rebaselined(record.state), based=None, planned=None, found=None)
        state = record.state
        named = {*state.last, *state.baseline, *state.away, *(state.plan.replicas if state.plan else ())}
        left = named - self._watts.keys()
        if not left:
            return record
        gone = {name: (record.watts or {}).get(name, Fraction(1)) for name in left}
        return replace(record, state=without(self._policy, state, gone))

    def _changed(self, record: Record) -> bool:
        if record.fingerprint is None or (record.fingerprint == self._fingerprint and record.watts is self._watts):
            return False
        pairs = ((each, self._watts.get(name, each)) for name, each in (record.watts or {}).items())
        return record.fingerprint != self._fingerprint or any(old != new for old, new in pairs)

    def waiting(self, view: TickReport, record: Record) -> str | None:
        """What a new baseline waits for; None where the next valid sample may be the baseline."""
        confirmed, noticed = view.now.confirmed, record.lost or view.now.wall
        if self._policy.absolute or self._policy.nominal is not None:
            return None
        if confirmed is not None and confirmed > noticed - RECENT:
            return None
        bound = {
            name: status
            for name, count in view.counts.items()
            if _at_a_bound(count, status := view.statuses[name], self._policy.places[name].member)
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


def _at_a_bound(count: int, status: TargetStatus, member: Member) -> bool:
    highest = min(member.max, status.maximum) if status.capped else member.max
    return count <= max(member.min, status.minimum) or count >= highest
