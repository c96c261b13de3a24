"""Cycles in words: their sentences, and the conditions they leave behind."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ballast.answers.api import StatusCondition
from ballast.base.text import duration, named, printable
from ballast.cluster.conditions import Conditions
from ballast.jobs.telemetry_cycle import TelemetryCycle
from ballast.model.node import Node
from ballast.model.node_state import NodeState
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.round import Round
from ballast.settings import Mode, PublishingSettings, Settings, TelemetrySettings
from ballast.telemetry.node_claims import Contest

NAMED = 5
TELLING = ("kubernetes.io/os", "eks.amazonaws.com/compute-type", "type", "kubernetes.io/arch")
"""Labels that are tried first; others may be the same by chance."""
HOSTNAME = "kubernetes.io/hostname"
OS = "kubernetes.io/os"

ALLOWED_JITTER = 0.05
"""Share of the interval by which scrapes may be further apart than readings."""


def condition(item: StatusCondition) -> dict[str, Any]:
    """A condition as JSON shows it."""
    shown: dict[str, Any] = msgspec.to_builtins(item)
    return shown


def report_telemetry(
    snapshot: Snapshot, telemetry: TelemetryCycle, freeze: Freeze, conditions: Conditions, settings: Settings
) -> None:
    """What this cycle found out of order. Messages hold still while nothing changes: they are saved when they do."""
    reading = telemetry.last
    problems = sorted(set(reading.problems.values())) if reading else []
    conditions.report("TelemetryDegraded", "QueryFailed", "; ".join(problems))
    conditions.report("PartialAnswers", "Warnings", "; ".join(sorted(set(reading.warnings))) if reading else None)
    strangers = ", ".join(reading.strangers[:NAMED]) if reading else ""
    conditions.report("UnmatchedSeries", "NoSuchNode", f"series that match no node: {strangers}" if strangers else None)
    conditions.report("ImpossibleValues", "CannotBe", _impossible(reading.impossible) if reading else None)
    conditions.report("SeriesDiffer", "SeveralThings", reading.differing.splitlines() if reading else None)
    several = reading.several_jobs if reading else None
    conditions.report("SeveralJobs", "OneNodeTwice", several.text.splitlines() if several else None)
    conditions.report("AddressClaimed", "SeveralNodes", _claimed(telemetry.contests))
    conditions.report("SourcesDisagree", "MeansApart", "; ".join(telemetry.disagreements))
    lent = sorted(name for name, source in snapshot.sources.items() if source != telemetry.primary)
    conditions.report("FallbackInUse", "PrimarySilent", f"{', '.join(lent)} from the fallback source" if lent else None)
    conditions.report("FallbackMissing", "NoAnswer", telemetry.witness_problem)
    names = [node.name for node, known in zip(snapshot.nodes, snapshot.known, strict=True) if not known]
    conditions.report("NodesUnknown", "NoWindow", f"unknown: {named(names, NAMED)}" if names else None)
    conditions.report("NodesUnmeasured", "NeverMeasured", unmeasured(snapshot, settings.cluster.node_selector))
    starved = [node.name for row, node in enumerate(snapshot.nodes) if snapshot.starved(row)]
    conditions.report("NodeStarved", "TimeLost", _starved(starved))
    conditions.report("MeasurementsDisputed", "SourcesApart", _disputed(telemetry.disputes.sides()))
    conditions.report("ScrapesSlow", "IntervalTooShort", _slow(snapshot, settings))
    frozen = (
        f"more than {freeze.max_unknown:.0%} of the measured nodes are silent; nothing is published until at most "
        f"{freeze.max_unknown / 2:.0%} are, in two successive cycles"
    )
    conditions.report("PublishingFrozen", "TooManyUnknown", frozen if freeze.frozen else None)


def _impossible(said: Mapping[str, str]) -> str | None:
    if not said:
        return None
    name = min(said)
    return (
        f"{named(sorted(said), NAMED)}: what their exporters tell cannot be, so it does not count. Look at what is "
        f"stored of them, such as node_cpu_seconds_total of {name}, of which each core and mode has to be there"
    )


def _starved(names: Sequence[str]) -> str | None:
    if not names:
        return None
    return (
        f"{named(names, NAMED)}: a fifth of the time or more is stolen by the hypervisor, or spent waiting for disks "
        "or memory; no pods are sent there. Look at `steal` and `iowait` of node_cpu_seconds_total, and at the disks"
    )


def _claimed(contests: Sequence[Contest]) -> str | None:
    """Who claims what of whom, by claimant; then what is nobody's."""
    owners: dict[str, set[str]] = {}
    for each in contests:
        for name in each.others if each.owner else ():
            owners.setdefault(name, set()).add(each.owner)
    liars = {name for each in contests for name in each.liars}
    said = [
        f"{name} lists addresses or names of {named(sorted(others), NAMED)}, who keep them"
        + (f"; {name} is disputed" if name in liars else "")
        for name, others in sorted(owners.items(), key=lambda one: (one[0] not in liars, one))[:NAMED]
    ]
    shared = [
        f"{printable(each.key)} is listed by {named(each.others, NAMED)}, and nothing tells whose it is"
        for each in contests
        if not each.owner
    ]
    if not (said := said + shared[:NAMED]):
        return None
    return f"{'; '.join(said)}. Compare `kubectl get nodes -o wide` with the machines, and mend status.addresses"


def _disputed(sides: Mapping[str, Sequence[str]]) -> str | None:
    if not sides:
        return None
    which = "; ".join(
        f"{side} metrics-server's by more than 20 points: {named(names, NAMED)}" for side, names in sides.items()
    )
    return (
        f"{which}. These nodes are disputed: they cause no eviction and get no better label. Compare `kubectl top "
        "node` with the node itself; then mend its exporter, or leave out by BALLAST_PROMETHEUS__MATCHERS whoever else "
        "reports it"
    )


def _slow(snapshot: Snapshot, settings: Settings) -> str | None:
    """Which resources are scraped less often than they are read, and whether the window then holds enough scrapes."""
    interval, fewest, window = settings.telemetry.interval, settings.windows.min_samples, snapshot.primary
    slow = {name: s for name, s in snapshot.scrape_intervals.items() if s > (1 + ALLOWED_JITTER) * interval}
    if not slow:
        return None
    names = ", ".join(f"{name} every {duration(seconds)}" for name, seconds in sorted(slow.items()))
    slowest = max(slow.values())
    text = (
        f"samples are read every {duration(interval)}, but scraped more slowly: {names}; set "
        f"BALLAST_TELEMETRY__INTERVAL={math.ceil(slowest)}s, or scrape more often"
    )
    if window.seconds / slowest >= fewest:
        return text
    return (
        f"{text}. A window of {window.name} holds fewer than BALLAST_WINDOWS__MIN_SAMPLES={fewest} scrapes, so no node "
        f"is known: begin BALLAST_WINDOWS__LENGTHS with {duration(math.ceil(fewest * slowest))} or more"
    )


def telemetry_sentence(snapshot: Snapshot, telemetry: TelemetryCycle) -> str:
    """ "know 198 of 200 nodes from prometheus, 2 unknown (1 young, 1 silent)"."""
    known = len(snapshot.nodes) - snapshot.unknown
    sources = " and ".join(sorted(set(snapshot.sources.values())))
    text = f"know {known:,} of {len(snapshot.nodes):,} nodes from {sources}, {snapshot.unknown:,} unknown"
    others = [
        f"{count:,} {state}" for state, count in snapshot.states.counts.items() if count and state != NodeState.KNOWN
    ]
    text += f" ({', '.join(others)})" if others else ""
    reading = telemetry.last
    if reading and reading.rejected:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reading.rejected.items()) if count)
        text += f"; rejected {reasons}" if reasons else ""
    if reading and reading.problems:
        text += f"; {'; '.join(sorted(set(reading.problems.values())))}"
    return text


def publishing_sentence(
    result: Round,
    snapshot: Snapshot,
    freeze: Freeze,
    publishing: PublishingSettings,
    telemetry: TelemetrySettings,
    now: float,
    *,
    paused: str | None = None,
) -> str:
    """ "labels current on 4,988 of 5,000 nodes (3 changed, 12 unknown); next in 60 s"."""
    nodes, unknown = len(snapshot.nodes), snapshot.unknown
    if freeze.frozen and not freeze.forgotten(now):
        left = freeze.forget_after - (now - (freeze.since or now))
        return (
            f"publishing is frozen: {snapshot.states.counts[NodeState.SILENT]:,} of {nodes:,} nodes are silent, more "
            f"than {freeze.max_unknown:.0%} of the measured ones; "
            f"what was published is withdrawn in {duration(left)} if that stays"
        )
    verb = "labels current" if publishing.mode is Mode.ON else "labels would be current"
    current = max(0, nodes - unknown - (result.planned - result.written))
    text = f"{verb} on {current:,} of {nodes:,} nodes ({result.written:,} changed, {unknown:,} unknown)"
    if freeze.frozen:
        verb = "withdrew" if publishing.mode is Mode.ON else "would withdraw"
        text = f"{verb} what was published from {result.written:,} of {nodes:,} nodes, {unknown:,} unknown"
    if paused is not None and result.stopped is None:
        text += f"; {paused}"
    return f"{text}{_left(result)}; next in {duration(publishing.every(telemetry))}"


def crane_sentence(
    result: Round,
    snapshot: Snapshot,
    foreign: Sequence[str],
    publishing: PublishingSettings,
    telemetry: TelemetrySettings,
) -> str:
    """ "wrote crane's annotations of 12 of 5,000 nodes, 3 unknown; next in 30 s"."""
    verb = "wrote" if publishing.mode is Mode.ON else "would write"
    nodes, unknown = len(snapshot.nodes), snapshot.unknown
    text = f"{verb} crane's annotations of {result.written:,} of {nodes:,} nodes, {unknown:,} unknown{_left(result)}"
    if foreign:
        text += f"; skipped metrics that Ballast does not compute: {', '.join(foreign)}"
    return f"{text}; next in {duration(publishing.every(telemetry))}"


def _left(result: Round) -> str:
    text = f", {result.waiting:,} left for the next round" if result.waiting else ""
    if result.failed:
        text += f", {result.failed:,} failed: {result.problem}"
    return f"{text}; stopped: {result.stopped}" if result.stopped else text


def unmeasured(snapshot: Snapshot, selector: str | None) -> str | None:
    """What to do about them, in a sentence with a line to copy; None where there are none.

    `selector` is the one that is set.
    """
    states = snapshot.states
    rows = states.are(NodeState.UNMEASURED)
    if not rows.any():
        return None
    nodes = [node for node, silent in zip(snapshot.nodes, rows.tolist(), strict=True) if silent]
    others = [node for node, silent in zip(snapshot.nodes, rows.tolist(), strict=True) if not silent]
    both = ",".join(filter(None, (selector, leaving_out(nodes, others))))
    never = zip(snapshot.resources, np.asarray(states.missing.any(axis=1)).tolist(), strict=True)
    missing = " or ".join(name for name, lacks in never if lacks)
    text = (
        f"{named([node.name for node in nodes], NAMED)} never gave a sample of {missing}, while others do; they count "
        "for nothing. "
        f"To leave them out, set BALLAST_CLUSTER__NODE_SELECTOR='{both}'"
    )
    if all(node.labels.get(OS) == "windows" for node in nodes):
        return f"{text}; to measure them, BALLAST_PROMETHEUS__PRESET=node-exporter,windows-exporter"
    return f"{text}; to measure them, install the exporter there, or add its preset to BALLAST_PROMETHEUS__PRESET"


def leaving_out(nodes: Sequence[Node], others: Sequence[Node]) -> str:
    """A label selector that all `others` meet and none of `nodes`."""
    keys = {key for node in (*nodes, *others) for key in node.labels} - {HOSTNAME}
    ordered = [key for key in TELLING if key in keys] + sorted(keys - set(TELLING))
    for key in ordered:
        values, kept = ({node.labels.get(key) for node in group} for group in (nodes, others))
        if len(kept) == 1 and not kept & values and None not in kept:
            return f"{key}={kept.pop()}"
        if len(values) == 1 and not kept & values and None not in values:
            return f"{key}!={values.pop()}"
    return f"{HOSTNAME} notin ({','.join(sorted(node.labels.get(HOSTNAME, node.name) for node in nodes))})"
