"""Reads one Ballast's history of writes and finds the promises it broke. Pure: events in, broken promises out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ballast_lab.faults.events import Event

LEASE = 15.0
"""Seconds after its last renewal for which nobody else may take a Lease."""
_VERSIONED = frozenset(
    {"labels", "crane", "taint", "scale", "cap", "gate", "state", "plan", "endpoint", "deletion-cost"}
)
_ACTS = _VERSIONED | {"eviction"}
_SEEN_AFTER = 1.0
"""Seconds by which the driver's note of a new feed may be later than its first reader."""
_UNDER_WAY = 5.0
"""Seconds for which a fault may hold a write that was counted when it was sent."""


@dataclass(frozen=True)
class Rules:
    """What is promised of one Ballast. `nodes` and `namespaces` are all that it may write to.

    `rate` and `per_workload` are evictions in seconds; `watts` are (time, watts) of the feed, `each` the watts of a
    replica by namespace/name with `start` replicas; `originals` are caps by subject; `lease_removed` are times at which
    the driver removed the Lease of a process that it had ended; `touched` are times, by subject, at which others wrote,
    or somebody perhaps did.
    """

    prefix: str
    nodes: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    rate: tuple[int, float] | None = None
    per_workload: tuple[int, float] | None = None
    watts: Sequence[tuple[float, float]] = ()
    each: Mapping[str, float] = field(default_factory=dict)
    start: Mapping[str, int] = field(default_factory=dict)
    originals: Mapping[str, int] = field(default_factory=dict)
    lease_removed: Sequence[float] = ()
    touched: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Broken:
    """`promise` is a key of PROMISES; `events` are the positions in the history that show it."""

    promise: str
    what: str
    at: float = 0.0


@dataclass(frozen=True)
class Final:
    """The objects when all is quiet and nothing is asked for: as the API gives them."""

    nodes: Sequence[Mapping[str, Any]] = ()
    pods: Sequence[Mapping[str, Any]] = ()
    autoscalers: Sequence[Mapping[str, Any]] = ()
    state: Mapping[str, str] = field(default_factory=dict)


def judged(events: Sequence[Event], rules: Rules) -> list[Broken]:
    """All that is broken, by promise."""
    done = sorted((each for each in events if each.done), key=_order)
    return [broken for check in _CHECKS for broken in check(done, rules)]


def _order(event: Event) -> tuple[float, int]:
    return (event.at, event.version)


def _holder(event: Event) -> str:
    return str((event.answer.get("spec") or {}).get("holderIdentity") or "")


def _leases(events: Sequence[Event]) -> list[Event]:
    return sorted((each for each in events if each.kind == "lease"), key=lambda each: each.version)


def one_leader(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """Nobody takes the Lease while another one may hold it."""
    last: Event | None = None
    for event in _leases(events):
        if last is not None and _holder(last) and event.who != last.who and _holder(event) != _holder(last):
            removed = any(last.received < time <= event.at for time in rules.lease_removed)
            waited = event.received - last.received
            if not removed and waited < LEASE:
                yield Broken(
                    "one-leader", f"{event.who} took the Lease {waited:.1f} s after {last.who} renewed it", event.at
                )
        last = event


def superseded(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """A former leader's late write does not succeed against what its successor wrote.

    Labels and annotations of nodes are written without a version, so there a late one may pass; then the leader has to
    put them right afterwards. A gate that is gone can be removed again: that changes nothing.
    """
    gains = [(each.at, each.who) for each in _leases(events) if _holder(each)]
    for position, event in enumerate(events):
        if event.kind not in _VERSIONED:
            continue
        leader = next((who for at, who in reversed(gains) if at <= event.at), event.who)
        since = next((at for at, who in gains if who == leader), 0.0)
        if leader == event.who or not _led(gains, event.who):
            continue
        theirs = [
            each for each in events[:position] if _same_thing(each, event) and each.who == leader and each.at >= since
        ]
        if not theirs or _put_right(event, theirs[-1], events[position + 1 :]):
            continue
        yield Broken("superseded", f"{event.kind} of {event.subject} by {event.who} after {leader} wrote it", event.at)


def _led(gains: Sequence[tuple[float, str]], who: str) -> bool:
    return any(each == who for _, each in gains)


def _same_thing(one: Event, other: Event) -> bool:
    family = {"plan": "state"}
    return one.subject == other.subject and family.get(one.kind, one.kind) == family.get(other.kind, other.kind)


def _put_right(late: Event, theirs: Event, later: Sequence[Event]) -> bool:
    if late.kind not in ("labels", "crane", "gate"):
        return False
    same = _content(late) == _content(theirs)
    return same or any(_same_thing(each, late) and each.who != late.who for each in later)


def twice(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """No pod is evicted twice, and a successor does not repeat what stands there."""
    gains = [each.who for each in _leases(events) if _holder(each)]
    evicted: dict[str, Event] = {}
    last: dict[tuple[str, str], Event] = {}
    for event in events:
        if event.kind == "eviction":
            if (before := evicted.setdefault(event.uid, event)) is not event:
                yield Broken("twice", f"{event.subject} evicted by {before.who} and by {event.who}", event.at)
        elif event.kind in _VERSIONED - {"state", "plan", "endpoint"}:
            former = last.get((event.kind, event.subject))
            if former is not None and _succeeds(event.who, former.who, gains) and _stands(former, event, rules):
                yield Broken("twice", f"{event.kind} of {event.subject}: {event.who} repeats {former.who}", event.at)
            last[event.kind, event.subject] = event


def _succeeds(one: str, other: str, gains: Sequence[str]) -> bool:
    """Whether it is another one that did not lead before."""
    before = one in gains and other in gains and gains.index(one) < gains.index(other)
    return one != other and not before


def _stands(former: Event, event: Event, rules: Rules) -> bool:
    """Whether what the former wrote stood there, for all that is known, when the same was written again."""
    touched = any(former.at < time <= event.at for time in rules.touched.get(event.subject, ()))
    return not touched and _content(former) == _content(event)


def _content(event: Event) -> str:
    body = dict(event.body)
    metadata = {key: value for key, value in (body.get("metadata") or {}).items() if key != "resourceVersion"}
    return json.dumps({**body, "metadata": metadata}, sort_keys=True)


def written_first(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """Each eviction and each change of replicas or caps is in an open plan that was saved before it was sent.

    An eviction of a former leader that arrives once its successor has given the plan up counts among the past ones.
    """
    leases = _leases(events)
    states = [each for each in events if each.kind in ("state", "plan")]
    for event in events:
        if event.kind not in ("eviction", "scale", "cap"):
            continue
        before = [each for each in states if each.at <= event.received]
        data = (before[-1].body.get("data") or {}) if before else {}
        if event.kind == "eviction":
            leader = next((each.who for each in reversed(leases) if each.at <= event.at), event.who)
            late = leader != event.who and event.uid in data.get("eviction.history", "")
            found = late or event.uid in _planned_evictions(data)
        else:
            found = _is_planned(event, _planned_counts(data))
        if not found:
            yield Broken(
                "written-first", f"{event.kind} of {event.subject} by {event.who} is in no open plan", event.at
            )


def _planned_evictions(data: Mapping[str, str]) -> set[str]:
    plans = json.loads(data.get("eviction.plan") or "[]")
    return {step["uid"] for plan in plans for step in plan.get("steps", ())}


def _planned_counts(data: Mapping[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key, value in data.items():
        if key.startswith("power.plan."):
            plan = json.loads(value)
            counts.update(plan.get("replicas") or {})
            counts.update({name: counts.get(name, 0) for name in plan.get("entitled") or {}})
    return counts


def _is_planned(event: Event, counts: Mapping[str, int]) -> bool:
    name = event.subject.partition(":")[2]
    if event.kind == "scale":
        return counts.get(name) == (event.body.get("spec") or {}).get("replicas")
    return name in counts


def limits(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """The rates of evictions hold over all leaders together."""
    evictions = [each for each in events if each.kind == "eviction"]
    if rules.rate:
        yield from _within("all workloads", [each.at for each in evictions], *rules.rate)
    if rules.per_workload:
        by_workload: dict[str, list[float]] = {}
        for each in evictions:
            by_workload.setdefault(each.subject.rsplit("-", 2)[0], []).append(each.at)
        for name, times in by_workload.items():
            yield from _within(name, times, *rules.per_workload)


def _within(what: str, times: Sequence[float], most: int, seconds: float) -> Iterator[Broken]:
    for at in range(len(times) - most):
        if times[at + most] - times[at] < seconds - _UNDER_WAY:
            yield Broken(
                "limits", f"{most + 1} evictions of {what} within {seconds:g} s, at most {most}", times[at + most]
            )


def budget(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """Nothing is scaled up beyond the watts that the feed has told of."""
    counts = dict(rules.start)
    for event in events:
        name = event.subject.partition(":")[2]
        if event.kind != "scale" or name not in rules.each:
            continue
        replicas = int((event.body.get("spec") or {}).get("replicas", 0))
        rises = replicas > counts.get(name, 0)
        counts[name] = replicas
        load = sum(rules.each[each] * count for each, count in counts.items())
        given = [watts for time, watts in rules.watts if time <= event.at + _SEEN_AFTER]
        old = [watts for time, watts in rules.watts if time <= event.received - _UNDER_WAY]
        most = max(given[max(0, len(old) - 1) :], default=float("inf"))
        if rises and load > most:
            yield Broken("budget", f"{event.who} raised {name} to {replicas}: {load:g} W of {most:g} W", event.at)


def originals(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """The cap before Ballast's is never forgotten, and never exceeded."""
    for event in events:
        true = rules.originals.get(event.subject)
        if event.kind != "cap" or true is None:
            continue
        metadata, spec = event.body.get("metadata") or {}, event.body.get("spec") or {}
        noted = (metadata.get("annotations") or {}).get(f"{rules.prefix}/original-max-replicas", str(true))
        cap = next(iter(spec.values()), None)
        if noted is None and cap not in (None, true):
            yield Broken("originals", f"{event.subject} is left at {cap}, its cap was {true}", event.at)
        elif noted is not None and noted != str(true):
            yield Broken("originals", f"{event.subject} noted {noted}, its cap was {true}", event.at)
        elif cap is not None and cap > true:
            yield Broken("originals", f"{event.subject} was capped at {cap}, above its own {true}", event.at)


def within(events: Sequence[Event], rules: Rules) -> Iterator[Broken]:
    """Only its own nodes and namespaces are written to, and nothing but Ballast's keys on nodes."""
    for event in events:
        namespace, _, name = event.subject.partition(":")[2].partition("/")
        home = namespace in rules.namespaces if namespace else name in rules.nodes
        if event.kind == "event":
            continue
        if not home or event.kind == "other":
            yield Broken("within", f"{event.kind or event.verb} of {event.subject} by {event.who}", event.at)
        for section in ("labels", "annotations"):
            keys = (event.body.get("metadata") or {}).get(section) or {}
            foreign = [key for key in keys if not key.startswith(f"{rules.prefix}/")]
            if event.kind in ("labels", "cap") and foreign:
                yield Broken("within", f"{event.who} wrote {foreign[0]} of {event.subject}", event.at)


def returned(final: Final, rules: Rules) -> list[Broken]:
    """Every cap, taint, gate, plan and reservation is given back once nothing needs it."""
    found: list[str] = []
    for node in final.nodes:
        taints = [str(each["key"]) for each in (node.get("spec") or {}).get("taints") or ()]
        name = node["metadata"]["name"]
        found += [f"node {name} keeps the taint {key}" for key in taints if key.startswith(f"{rules.prefix}/")]
    for pod in final.pods:
        if any(each["name"].startswith(f"{rules.prefix}/") for each in pod["spec"].get("schedulingGates") or ()):
            found.append(f"pod {pod['metadata']['name']} keeps its gate")
    for autoscaler in final.autoscalers:
        subject, spec = autoscaler["subject"], autoscaler["spec"]
        cap = spec.get("maxReplicas", spec.get("maxReplicaCount"))
        if cap != rules.originals[subject]:
            found.append(f"{subject} keeps the cap {cap}, its own is {rules.originals[subject]}")
    open_keys = [key for key in final.state if ".plan" in key or key == "reservations"]
    found += [f"ballast-state keeps {key}" for key in open_keys if final.state[key] not in ("", "[]")]
    return [Broken("returned", each) for each in found]


Check = Callable[[Sequence[Event], Rules], Iterator[Broken]]
_CHECKS: tuple[Check, ...] = (one_leader, superseded, twice, written_first, limits, budget, originals, within)
PROMISES: dict[str, str] = {
    check.__name__.replace("_", "-"): str(check.__doc__).partition("\n")[0] for check in (*_CHECKS, returned)
}
