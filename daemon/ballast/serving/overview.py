"""The first screen: is the cluster balanced, what is hot, what was done today, and what stands in the way."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np

from ballast.answers.api import Headline, Policy, Power, Status, Trouble, Wrong
from ballast.answers.evictions import Evictions, Plan
from ballast.answers.ledger_answer import LedgerAnswer, effect_of, last_day, total
from ballast.answers.views import Balance, HotNode, NextPlan, Obstacle, Overview, ShownMove, Today
from ballast.base.condition_types import CONDITION_TYPES, GOOD, OWN_TROUBLES, ConditionType, Rank
from ballast.base.text import duration, pods
from ballast.eviction.check_words import CHECK_WORDS
from ballast.model.duration import DAY
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.serving.fleet_history import BINS, FleetHistory, bars_of, spread_of

BEGINS = 2
"""Cycles of telemetry for which something has only begun."""
_LINK = re.compile(r"\[[^\]]+\]\(\.\./([^)]+)\)")
"""A link as runbooks have it."""

HOTTEST = 5
OBSTACLES = 12
MOVES, STEPS = 24, 4
UNDER_WAY_FOR = 900.0
"""Seconds after which a move that has not ended is told no more."""
_UNDER_WAY = frozenset(("recorded", "evicted", "landed"))
SEEN_FOR = 120.0
"""Seconds for which a move counts as just made."""


def overview(  # noqa: PLR0913
    snapshot: Snapshot,
    history: FleetHistory,
    high: Mapping[str, float],
    *,
    now: float,
    plans: Sequence[Plan],
    evictions: Evictions,
    power: Power,
    ledger: LedgerAnswer | None,
    held: str | None,
) -> Overview:
    """`high`: the load from which a node is hot, by resource; `held`: why evictions are held now. The documents are
    those of the board; `ledger` is None where it cannot be read."""
    past, then = history.distributions(), history.spread().spread
    deviations = [round(value, 4) if np.isfinite(value) else None for value in spread_of(snapshot).tolist()]
    heat, which = _heat(snapshot, high)
    order = np.argsort(-heat, kind="stable")[:HOTTEST].tolist()
    newest = _newest(plans)
    refused = [(check, pods, plan.kind) for plan in newest for check, pods in plan.refused.items()]
    refused.sort(key=lambda row: (-row[1], row[0], row[2]))
    return Overview(
        time=snapshot.time,
        since=past[0] if past else None,
        balance={
            name: Balance(
                now=deviations[row],
                before=next((value for value in then.get(name, ()) if value is not None), None),
                mean=_number(np.nanmean, snapshot.primary.mean[row]),
                highest=_number(np.nanmax, snapshot.primary.mean[row]),
                threshold=high.get(name),
                bars=bars_of(snapshot.primary.mean[row]).tolist(),
                bars_before=past[1].get(name, [0] * BINS) if past else [0] * BINS,
            )
            for row, name in enumerate(snapshot.resources)
        },
        hot=int((heat >= 0).sum()),
        hottest=[
            HotNode(
                snapshot.nodes[row].name,
                snapshot.resources[which[row]],
                round(float(snapshot.primary.mean[which[row], row]), 4),
            )
            for row in order
            if heat[row] >= 0
        ],
        today=_today(plans, ledger, power.policies, now),
        held=held,
        considered=sum(pods for _, pods, _ in refused) + sum(len(plan.steps) for plan in newest),
        obstacles=[Obstacle(*row, plain=CHECK_WORDS.get(row[0], row[0])) for row in refused[:OBSTACLES]],
        doing=_doing(evictions, now),
        moves=[
            ShownMove(each.pod, each.source, each.landed_on or each.to, each.time)
            for each in evictions.recent
            if each.time >= now - SEEN_FOR and each.status not in ("recorded", "refused", "failed")
        ][:MOVES],
        plan=next(map(_shown, sorted((plan for plan in newest if plan.steps), key=lambda each: -each.time)), None),
    )


def _doing(evictions: Evictions, now: float) -> str | None:
    """ "moving 3 pods off node-002 and 1 more"."""
    sources = [
        each.source for each in evictions.recent if each.status in _UNDER_WAY and each.time >= now - UNDER_WAY_FOR
    ]
    names = list(dict.fromkeys(sources))
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"moving {pods(len(sources))} off {names[0]}{more}" if names else None


def _shown(plan: Plan) -> NextPlan:
    first = [ShownMove(step.pod, step.source, step.to, plan.time) for step in plan.steps[:STEPS]]
    return NextPlan(plan.id, plan.kind, plan.mode, plan.time, len(plan.steps), first)


def _heat(snapshot: Snapshot, high: Mapping[str, float]) -> tuple[Floats, list[int]]:
    """[node] how far the load is above the threshold, -inf where it is not; and by which resource."""
    if not snapshot.resources:
        return np.full(len(snapshot.nodes), -np.inf), [0] * len(snapshot.nodes)
    limits = np.array([high.get(name, np.inf) for name in snapshot.resources])
    above = np.where(np.isfinite(snapshot.primary.mean), snapshot.primary.mean - limits[:, None], -np.inf)
    best = above.max(axis=0)
    return np.where(best >= 0, best, -np.inf), above.argmax(axis=0).tolist()


def _newest(plans: Iterable[Plan]) -> list[Plan]:
    """The newest plan of each kind."""
    newest: dict[str, Plan] = {}
    for plan in plans:
        newest.setdefault(plan.kind, plan)
    return list(newest.values())


def _today(plans: Iterable[Plan], ledger: LedgerAnswer | None, policies: Iterable[Policy], now: float) -> Today:
    hours = last_day(ledger, now) if ledger is not None else []
    today = [day for day in ledger.days if day.begin > now - DAY] if ledger is not None else []
    recent_plans = [plan for plan in plans if plan.time >= now - DAY]
    changes = [
        sum(map(abs, action.changes.values()))
        for policy in policies
        for action in policy.actions
        if action.time >= now - DAY
    ]
    return Today(
        since=today[-1].begin if today else None,
        hot_node_minutes=total(today, "hot_node_minutes"),
        hot_node_minutes_without=total(today, "hot_node_minutes_without"),
        evictions={name: int(total(today, name) or 0) for name in ("evicted", "refused", "failed") if today},
        predicted=total(today, "predicted"),
        measured=total(today, "measured"),
        plans=len(recent_plans),
        moves=len({step.pod for plan in recent_plans for step in plan.steps}),
        replicas=sum(changes),
        would={"day": effect_of(hours), "week": effect_of(ledger.days[-7:])} if ledger is not None else {},
    )


def _number(of: Any, values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return round(float(of(known)), 4) if known.size else None


RUNBOOKS = "https://github.com/kube-ballast/ballast/blob/main/docs/runbooks/"
ORDER = {name: place for place, name in enumerate((*CONDITION_TYPES, *OWN_TROUBLES))}


def troubles(
    conditions: Iterable[Mapping[str, Any]], *, leader: bool, own: Iterable[tuple[str, str]] = ()
) -> list[Trouble]:
    """Of `conditions` as the API lists them, and of `own` (type, message) beside them. Causes come first, tuning last.

    That a follower does not act is no trouble.
    """
    held = [
        _trouble(condition["type"], condition.get("message") or condition.get("reason", ""), condition)
        for condition in conditions
        if (condition["status"] == "True") is not (condition["type"] in GOOD)
        and (leader or condition["type"] != "Active")
    ]
    held += [_trouble(name, message, {}) for name, message in own]
    return sorted(held, key=lambda each: (each.mild, ORDER.get(each.type, len(ORDER))))


def told(found: Iterable[Trouble], status: Status, interval: float) -> list[Wrong]:
    """The troubles as they are told now: page, `ballast status` and log word nothing of their own.

    `interval`: seconds between two cycles of telemetry.
    """
    rows = []
    for each in found:
        since = datetime.fromisoformat(each.since).timestamp() if each.since else None
        fresh = since is not None and status.time - since < BEGINS * interval
        advice = _LINK.sub(lambda link: f"docs/{link[1]}", each.do).replace("`", "")
        cause = each.message.replace("`", "")
        tense: Literal["begins", "holds", "recovering"] = "begins" if fresh else "holds"
        if status.snapshot is not None and not status.frozen and each.type in waits_to_see(status.conditions):
            # Evictions judge in their own interval, telemetry knows at once.
            known, nodes = status.snapshot.known, status.snapshot.nodes
            cause, tense = (
                f"{known:,} of {nodes:,} nodes are known again; evictions go on with their next cycle",
                "recovering",
            )
        rows.append(Wrong(each.type, each.rank, each.title, cause, since, tense, advice))
    return rows


def waits_to_see(conditions: Iterable[Any]) -> set[str]:
    """Types that hold because too many nodes were silent when their job last looked."""
    return {each["type"] for each in conditions if each["status"] == "True" and each.get("reason") == "NodesSilent"}


def headline(status: Status, wrong: Sequence[Wrong], hot: int) -> Headline:
    """How it stands, in one word: the worst that holds. `hot`: how many nodes are."""
    wrong = [row for row in wrong if row.tense != "recovering"]
    worst = next((row for row in wrong if row.rank == "outage"), None)
    snapshot = status.snapshot
    if snapshot is None:
        return Headline("No data yet", "warn")
    if not status.current:
        return Headline("Blind", "bad", snapshot.time)
    if status.frozen or (snapshot.nodes and not snapshot.known):
        return Headline("Blind", "bad", None if worst is None else worst.since)
    if worst is not None:
        return Headline("Trouble", "bad", worst.since)
    if any(status.paused[part] for part, mode in status.modes.items() if mode == "on"):
        return Headline("Paused", "warn")
    if not status.leader:
        return Headline("Standby", "warn" if hot else "ok")
    if hot:
        return Headline(f"{hot:,} hot", "warn")
    needs = next((row for row in wrong if row.rank == "partial"), None)
    return Headline("All well", "ok") if needs is None else Headline("Look", "warn", needs.since)


def count_hot(snapshot: Snapshot, high: Mapping[str, float]) -> int:
    """Nodes at or above the load from which one is hot, by any resource."""
    return int((_heat(snapshot, high)[0] >= 0).sum())


def own_troubles(status: Status) -> Iterator[tuple[str, str]]:
    """(type, message) of what is wrong with a daemon beside its conditions."""
    if status.snapshot is None:
        yield "NoData", "no cycle has ended yet, so nothing is known about any node"
    elif status.snapshot.nodes and not status.snapshot.known:
        yield "NoData", "no node is known: no node has enough fresh samples of cpu or memory"
    elif not status.current:
        yield "OldData", f"the newest data is {duration(status.snapshot.age)} old; the loads are history"
    for job in status.jobs:
        if not job.ok:
            yield "CycleFailed", job.sentence
    if not status.ready:
        yield "NotReady", "the daemon is not ready; see /readyz?verbose"


def _trouble(name: str, message: str, condition: Mapping[str, Any]) -> Trouble:
    known = CONDITION_TYPES.get(name) or OWN_TROUBLES.get(name) or ConditionType(name, "", "")
    since = condition.get("lastTransitionTime", "")
    runbook = f"{RUNBOOKS}{name}.md" if name in CONDITION_TYPES else None
    mild = known.rank is Rank.TUNING
    return Trouble(name, known.title, message, since, known.do, mild, runbook, rank=known.rank.value)
