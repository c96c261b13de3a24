"""What the daemon will make of what Prometheus says now: the states of the nodes, and whether it would freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from ballast.base.errors import BallastError
from ballast.base.metrics import Metrics
from ballast.base.text import named
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.jobs.telemetry_cycle import TelemetryCycle, rules_of
from ballast.jobs.witnesses import differing, unexplained
from ballast.model.node_state import ALWAYS_NEEDED, NodeState, silent_share
from ballast.publishing.freeze import Freeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ballast.doctor.evidence import Evidence
    from ballast.model.sample import Bools, Floats
    from ballast.model.snapshot import Snapshot

NAMED = 5


class Outlook(Struct, frozen=True):
    """`states` counts the nodes by what they will be; `frozen_in_seconds` is None where nothing will freeze."""

    frozen_in_seconds: float | None
    states: dict[str, int]
    why: tuple[str, ...]


def outlook(evidence: Evidence) -> Outlook:
    """Runs a cycle of the daemon on the past and the present of Prometheus, and goes on as if nothing changed."""
    try:
        evidence.require_answer()
        settings = evidence.settings
        cycle = TelemetryCycle(evidence.source, None, rules_of(settings), clock=evidence.clock, metrics=Metrics())
        snapshot = cycle.cycle(evidence.names)
        return _replaced(snapshot, evidence) or _of(snapshot, cycle, evidence)
    except (CheckNotPossible, BallastError) as error:
        return Outlook(None, {}, (str(error),))


def _replaced(snapshot: Snapshot, evidence: Evidence) -> Outlook | None:
    """Where metrics-server stands in, because Prometheus measures some resource of no node."""
    known, witness = snapshot.primary.known, evidence.witness.samples
    lost = [name for row, name in enumerate(snapshot.resources) if name in ALWAYS_NEEDED and not known[row].any()]
    if not lost or any(name not in witness or not witness[name].rows.size for name in lost):
        return None
    measured = np.ones(len(snapshot.nodes), bool)
    for row, name in enumerate(snapshot.resources):
        if name in ALWAYS_NEEDED:
            measured &= np.isin(np.arange(len(measured)), witness[name].rows) if name in lost else known[row]
    if not measured.all():
        return None
    down = snapshot.states.are(NodeState.DOWN)
    counts = {state.value: 0 for state in snapshot.states.counts}
    counts |= {NodeState.DOWN.value: int(down.sum()), NodeState.KNOWN.value: int((~down).sum())}
    why = f"metrics-server measures {' and '.join(lost)}, of which Prometheus has nothing that counts"
    return Outlook(None, counts, (why,))


def _of(snapshot: Snapshot, cycle: TelemetryCycle, evidence: Evidence) -> Outlook:
    states = snapshot.states
    lacking = {name: _lacks(name, cycle, evidence) for name in snapshot.resources if name in ALWAYS_NEEDED}
    lacks: Bools = np.logical_or.reduce(list(lacking.values())) if lacking else np.zeros(len(snapshot.nodes), bool)
    young, known = states.are(NodeState.YOUNG), states.known
    ends = known & lacks
    counts = {state.value: count for state, count in states.counts.items()}
    counts["silent"] += int(ends.sum())
    counts["known"] += int((young & ~lacks).sum()) - int(ends.sum())
    counts["young"] -= int((young & ~lacks).sum())
    disputed = _disputed(snapshot.resources, cycle, evidence) & ~lacks & (known | young)
    counts[NodeState.DISPUTED.value] += int(disputed.sum())
    counts["known"] -= int(disputed.sum())
    why = [
        f"{name} of {named(names, NAMED)} has no sample now"
        for name, rows in lacking.items()
        if (names := _names(snapshot, rows & (ends | states.are(NodeState.SILENT))))
    ]
    why += [
        f"{name} of {named(names, NAMED)} was never there"
        for row, name in enumerate(snapshot.resources)
        if (names := _names(snapshot, states.missing[row]))
    ]
    if names := _names(snapshot, disputed):
        why.append(f"the two sources differ about {named(names, NAMED)}")
    seconds = _frozen_in(snapshot, ends, _left(snapshot, lacking, cycle), counts, evidence)
    if seconds is not None:
        why.append(f"with this the daemon freezes publishing in {seconds:.0f} s")
    return Outlook(seconds, counts, tuple(why))


def _disputed(resources: Sequence[str], cycle: TelemetryCycle, evidence: Evidence) -> Bools:
    """[node]: where Prometheus and metrics-server say too different things now."""
    ours, theirs = cycle.last.samples if cycle.last else {}, evidence.witness.samples
    gap = np.full((len(resources), len(evidence.nodes)), np.nan)
    for row, name in enumerate(resources):
        if name in ours and name in theirs:
            one, other = np.full((2, gap.shape[1]), np.nan)
            one[ours[name].rows], other[theirs[name].rows] = ours[name].values, theirs[name].values
            gap[row] = one - other
            if name == "memory":
                gap[row] = unexplained(gap[row], evidence.working_set_gap)
    above, below = differing(gap)
    return np.asarray((above | below).any(axis=0))


def _lacks(resource: str, cycle: TelemetryCycle, evidence: Evidence) -> Bools:
    """[node]: without a sample now; where Prometheus measures no node, metrics-server steps in."""
    has = np.zeros(len(evidence.nodes), bool)
    samples = cycle.last.samples.get(resource) if cycle.last else None
    if samples is None or not samples.rows.size:
        samples = evidence.witness.samples.get(resource)
    if samples is not None:
        has[samples.rows] = True
    return ~has


def _left(snapshot: Snapshot, lacking: dict[str, Bools], cycle: TelemetryCycle) -> Floats:
    """[node]: seconds until the newest sample of a resource that it lacks now is too old."""
    left = np.full(len(snapshot.nodes), np.inf)
    for name, rows in lacking.items():
        index = snapshot.resources.index(name)
        age = snapshot.time - snapshot.newest[index]
        left = np.where(rows, np.fmin(left, cycle.max_age(name) - age), left)
    return np.asarray(np.maximum(left, 0.0), float)


def _frozen_in(
    snapshot: Snapshot, ends: Bools, left: Floats, counts: dict[str, int], evidence: Evidence
) -> float | None:
    publishing = evidence.settings.publishing
    freeze = Freeze(publishing.max_unknown, publishing.forget_after)
    if freeze.after(snapshot.states.silent_share, 0.0).frozen:
        return 0.0
    silent, all_of_them = snapshot.states.counts[NodeState.SILENT], counts["known"] + counts["silent"]
    for number, seconds in enumerate(sorted(left[ends].tolist()), start=1):
        if freeze.after(silent_share(all_of_them - silent - number, silent + number), 0.0).frozen:
            return float(np.ceil(seconds))
    return None


def _names(snapshot: Snapshot, rows: Bools) -> list[str]:
    return [snapshot.nodes[row].name for row in np.flatnonzero(rows).tolist()]
