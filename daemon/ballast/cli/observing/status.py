"""`ballast status`: one screen that says whether the cluster is balanced, what was done today and what is wrong now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

import msgspec
import typer

from ballast.answers.api import State
from ballast.answers.ledger_answer import DryRunEffect, LedgerAnswer, effect_of, in_words
from ballast.base.condition_types import Rank
from ballast.base.errors import BallastError
from ballast.base.text import named
from ballast.cli.observing.remote import NoAnswer, Remote, find
from ballast.cli.observing.summary import broken, hot, limits_of, spread, wrong
from ballast.cli.output import LiveOutput, LiveOutputOption, paint
from ballast.cli.place import NEAR, ContextOption, KubeconfigOption, NamespaceOption, Place

NAMED = 5
"""Hot nodes that are named."""

COLOURS = {"outage": "red", "partial": "yellow"}


UrlsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"Address of the page of a daemon; several times for Ballasts that share a cluster. Default: {NEAR} if a "
        "daemon answers there, else the Service ballast of the installation.",
        show_default=False,
    ),
]


def status(
    url: UrlsOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Show whether the cluster is balanced, what Ballast did today, and what is wrong now.

    With several --url it shows them together: each node counts once, and what two of them claim is wrong. Exit code: 0
    if nothing is wrong but tuning, 1 if something is or a daemon does not answer, 2 for wrong use.
    """
    places = [Place(one, namespace, kubeconfig, context) for one in dict.fromkeys(url or (None,))]
    view = look(find(places[0]))[0] if len(places) == 1 else together(places)
    typer.echo(output.text(view, lambda: screen(view)))
    if broken(view["wrong"]):
        raise typer.Exit(1)


def look(remote: Remote) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer of `-o json` for one daemon, and its `/api/v1/nodes`. Raises NoAnswer."""
    now = remote.json("/api/v1/status")
    nodes = nodes_of(remote)
    limits = limits_of(remote.json("/api/v1/config"))
    heated = hot(nodes["nodes"], limits)
    try:
        days = msgspec.convert(remote.json("/api/v1/ledger"), LedgerAnswer).days
    except BallastError:  # A standby cannot ask the leader, or the leader cannot read its state: `wrong` says it.
        days = None
    known = any(node["state"] == "known" for node in nodes["nodes"])
    view = {
        "address": remote.address,
        "version": now["version"],
        "leader": now["leader"],
        "ready": now["ready"],
        "nodes": now["snapshot"],
        "balanced": not heated if known and now["current"] else None,
        "limits": limits,
        "spread": spread(nodes["nodes"], nodes["resources"]),
        "hot": heated,
        "parts": {part: {"mode": mode, "paused": now["paused"].get(part)} for part, mode in now["modes"].items()},
        "planners": now.get("planners", {}),
        "today": None if days is None else msgspec.to_builtins(days[-1]),
        "would": msgspec.to_builtins({"today": effect_of(days[-1:]), "week": effect_of(days[-7:])} if days else {}),
        "wrong": wrong(now),
    }
    return view, nodes


def together(places: Sequence[Place]) -> dict[str, Any]:
    """The answer of `-o json` for several daemons: the keys of one, over all, and each view under `daemons`.

    Raises BallastError where none answers.
    """
    views, lists, silent = [], [], []
    for place in places:
        try:
            view, nodes = look(find(place))
        except BallastError as error:
            silent.append(f"{error}")
        else:
            views.append(view)
            lists.append(nodes)
    if not views:
        raise BallastError(" ".join(silent))
    owners: dict[str, list[str]] = {}
    nodes_by_name: dict[str, dict[str, Any]] = {}
    for view, nodes in zip(views, lists, strict=True):
        for node in nodes["nodes"]:
            owners.setdefault(node["name"], []).append(view["address"])
            nodes_by_name.setdefault(node["name"], node)
    snapshots = [view["nodes"] for view in views if view["nodes"] is not None]
    states = Counter(node["state"] for node in nodes_by_name.values())
    counts = {"nodes": len(nodes_by_name), **{state: states[state] for state in get_args(State)}}
    resources = dict.fromkeys(name for nodes in lists for name in nodes["resources"])
    verdicts = {view["balanced"] for view in views}
    return {
        "address": ", ".join(view["address"] for view in views),
        "version": ", ".join(sorted({view["version"] for view in views})),
        "leader": all(view["leader"] for view in views),
        "ready": not silent and all(view["ready"] for view in views),
        "nodes": {**counts, "age": max(one["age"] for one in snapshots)} if snapshots else None,
        "balanced": False if False in verdicts else None if silent or None in verdicts else True,
        "limits": views[0]["limits"],
        "spread": spread(nodes_by_name.values(), resources),
        "hot": sorted(
            {node["node"]: node for view in views for node in view["hot"]}.values(),
            key=lambda node: (-max(node["load"].values()), node["node"]),
        ),
        "today": _sum([view["today"] for view in views if view["today"] is not None]),
        "would": _would_of([view["would"] for view in views if view["would"]]),
        "wrong": _wrong_together(views, owners, silent),
        "daemons": views,
    }


def _would_of(views: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {span: _sum([view[span] for view in views]) for span in (views[0] if views else ())}


def _sum(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What none of them knows is not known."""
    if not documents:
        return None
    known = {name: [one[name] for one in documents if one[name] is not None] for name in documents[0]}
    return {name: (values[0] if name == "begin" else sum(values)) if values else None for name, values in known.items()}


def _wrong_together(
    views: Sequence[Mapping[str, Any]], owners: Mapping[str, Sequence[str]], silent: Sequence[str]
) -> list[dict[str, Any]]:
    troubles: list[dict[str, Any]] = [
        _trouble("NoAnswer", "outage", "A Ballast does not answer", text) for text in silent
    ]
    shared: dict[tuple[str, ...], list[str]] = {}
    for name, addresses in owners.items():
        if len(addresses) > 1:
            shared.setdefault(tuple(addresses), []).append(name)
    for addresses, names in shared.items():
        text = f"{' and '.join(addresses)} work on the same nodes: {named(sorted(names), NAMED)}"
        troubles.append(_trouble("SecondBallast", "partial", "Nodes belong to two of these Ballasts", text))
    troubles += [
        {**trouble, **dict.fromkeys(("message", "cause"), f"{view['address']}: {trouble['message']}")}
        for view in views
        for trouble in view["wrong"]
    ]
    ranks = list(Rank)
    return sorted(troubles, key=lambda trouble: ranks.index(trouble["rank"]))


def _trouble(kind: str, rank: str, title: str, message: str) -> dict[str, Any]:
    do = "Give each its own nodes with BALLAST_CLUSTER__NODE_SELECTOR, and each Ballast one --url."
    row = {"type": kind, "rank": rank, "title": title, "cause": message, "since": None, "tense": "holds", "next": do}
    return row | {"message": message, "do": do}


def nodes_of(remote: Remote) -> dict[str, Any]:
    """`/api/v1/nodes`; no nodes before the first cycle. Raises NoAnswer."""
    try:
        answer: dict[str, Any] = remote.json("/api/v1/nodes")
    except NoAnswer as error:
        if error.status != 503:
            raise
        return {"window": "", "resources": [], "nodes": []}
    return answer


def screen(found: Mapping[str, Any]) -> str:
    """The same in words."""
    views = found.get("daemons", [found])
    lines = [
        f"Ballast {view['version']} at {view['address']}: {'leader' if view['leader'] else 'follower'}, "
        f"{'ready' if view['ready'] else 'not ready'}"
        for view in views
    ]
    lines += [
        f"nodes     {_nodes(found['nodes'])}",
        f"balanced  {_describe_balance(found)}",
        f"spread    {spread_words(found['spread']) or 'unknown'}",
    ]
    lines += [f"  hot     {node['node']}: {_percents(node['load'])}" for node in found["hot"][:NAMED]]
    if more := len(found["hot"]) - NAMED:
        lines += [f"  hot     and {more} more; see `ballast top`"] if more > 0 else []
    lines += dict.fromkeys(
        f"parts     {', '.join(_part(name, state, view['planners']) for name, state in view['parts'].items())}"
        for view in views
    )
    today = found["today"]
    lines += ["today     not known: the ledger cannot be read" if today is None else f"today     {_today(today)}"]
    lines += _would({span: msgspec.convert(seen, DryRunEffect) for span, seen in found["would"].items()})
    lines += _wrong(found["wrong"])
    return "\n".join(lines)


def _wrong(problems: Sequence[Mapping[str, str]]) -> list[str]:
    faults = broken(problems)
    hints = [problem for problem in problems if problem not in faults]
    words = f"{len(faults)}, causes first; `ballast doctor` names fixes" if faults else paint("nothing", "green")
    lines = [f"wrong     {words}"]
    lines += [
        f"  {paint(fault['rank'].ljust(8), COLOURS[fault['rank']])}{fault['type']}: {fault['message']}"
        for fault in faults
    ]
    lines += [f"hints     {len(hints)}, nothing is wrong with them"] if hints else []
    return lines + [f"  {hint['type']}: {hint['message']}" for hint in hints]


def _would(spans: Mapping[str, DryRunEffect]) -> list[str]:
    """What switching parts from dry-run to on would have brought, a line a part."""
    words = {span: in_words(seen) for span, seen in spans.items()}
    lines = [f"{today}; in 7 days {week.partition(': ')[2]}" for today, week in zip(*words.values(), strict=False)]
    return [f"{'dry-run' if not row else '':8}  {line}" for row, line in enumerate(lines)]


def spread_words(values: Mapping[str, float | None]) -> str:
    """Standard deviations as `cpu 0.083, memory 0.041`; unknown ones are left out."""
    return ", ".join(f"{name} {value:.3f}" for name, value in values.items() if value is not None)


def _nodes(snapshot: Mapping[str, Any] | None) -> str:
    if snapshot is None:
        return "unknown, no cycle has ended yet"
    others = [
        f"{snapshot[state]} {state}"
        for state in ("disputed", "silent", "down", "unmeasured", "young")
        if snapshot.get(state)
    ]
    beside = f" ({', '.join(others)})" if others else ""
    return f"{snapshot['known']} of {snapshot['nodes']} known{beside}, data {snapshot['age']:.0f} s old"


def _describe_balance(found: Mapping[str, Any]) -> str:
    above = _percents(found["limits"])
    if found["balanced"] is None:
        return "unknown"
    if found["balanced"]:
        return paint("yes", "green") + f", no node above {above}"
    count = len(found["hot"])
    return paint("no", "red") + f", {count} node{'s' if count != 1 else ''} above {above}"


def _percents(loads: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.0%}" for name, value in loads.items())


def _part(name: str, part: Mapping[str, str | None], planners: Mapping[str, str]) -> str:
    held = [f"{planner} {mode}" for planner, mode in planners.items() if name == "eviction" and mode != part["mode"]]
    beside = ([f"paused: {part['paused']}"] if part["paused"] else []) + held
    return f"{name} {part['mode']}" + (f" ({', '.join(beside)})" if beside else "")


def _today(done: Mapping[str, Any]) -> str:
    """Since midnight UTC; what is not known is left out."""
    words = [f"{done['evicted']} pods moved"]
    words += [f"{done[name]} {name}" for name in ("refused", "failed") if done[name]]
    words.append(f"{done['label_writes']} label writes")
    if done["hot_node_minutes"] is not None:
        without = done.get("hot_node_minutes_without")  # A daemon of before does not tell it.
        spared = f" ({without / 60:.1f} without the moves)" if without is not None else ""
        words.append(f"{done['hot_node_minutes'] / 60:.1f} hot node-hours{spared}")
    if done["over_watt_hours"] is not None:
        words.append(f"{done['over_watt_hours']:.1f} Wh above the feed")
    return ", ".join(words)
