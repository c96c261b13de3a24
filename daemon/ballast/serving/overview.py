"""The first screen: is the cluster balanced, what is hot, what was done today, and what stands in the way."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from ballast.answers.api import Policy, Power, Status, Trouble, Wrong
from ballast.answers.evictions import Evictions, Plan
from ballast.answers.ledger_answer import LedgerAnswer, effect_of, last_day, total
from ballast.answers.views import Balance, HotNode, Obstacle, Overview, Today
from ballast.base.condition_types import CONDITION_TYPES, GOOD, OWN_TROUBLES, ConditionType, Rank
from ballast.base.text import duration
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
        held=held or evictions.breaker,
        considered=sum(pods for _, pods, _ in refused) + sum(len(plan.steps) for plan in newest),
        obstacles=[Obstacle(*obstacle) for obstacle in refused[:OBSTACLES]],
    )


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
    recent_plans = [plan for plan in plans if plan.time >= now - DAY]
    changes = [
        sum(map(abs, action.changes.values()))
        for policy in policies
        for action in policy.actions
        if action.time >= now - DAY
    ]
    return Today(
        evictions={name: int(total(hours, name) or 0) for name in ("evicted", "refused", "failed") if hours},
        predicted=total(hours, "predicted"),
        measured=total(hours, "measured"),
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


def told(found: Iterable[Trouble], now: float, interval: float) -> list[Wrong]:
    """The troubles as they are told at `now` (Unix seconds): page, status and log word nothing of their own."""
    rows = []
    for each in found:
        since = datetime.fromisoformat(each.since).timestamp() if each.since else None
        fresh = since is not None and now - since < BEGINS * interval
        advice = _LINK.sub(lambda link: f"docs/{link[1]}", each.do).replace("`", "")
        rows.append(
            Wrong(each.type, each.rank, each.title, each.message, since, "begins" if fresh else "holds", advice)
        )
    return rows


def own_troubles(status: Status) -> Iterator[tuple[str, str]]:
    """(type, message) of what is wrong with a daemon beside its conditions."""
    if status.snapshot is None:
        yield "NoData", "no cycle has ended yet, so nothing is known about any node"
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
