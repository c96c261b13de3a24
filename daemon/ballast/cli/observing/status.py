"""`ballast status`: one screen that says whether the cluster is balanced, what was done today and what is wrong now."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import typer

from ballast.answers.ledger import DryRunEffect, LedgerAnswer, effect_of, in_words
from ballast.cli.observing.overview import broken, hot, limits_of, spread, wrong
from ballast.cli.observing.remote import NoAnswer, Remote, find
from ballast.cli.output import LiveOutput, LiveOutputOption, paint
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, UrlOption

NAMED = 5
"""Hot nodes that are named."""

COLOURS = {"outage": "red", "partial": "yellow"}


def status(
    url: UrlOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Show whether the cluster is balanced, what Ballast did today, and what is wrong now.

    Exit code: 0 if nothing is wrong but tuning, 1 if something is or no daemon answers, 2 for wrong use.
    """
    view = overview(find(Place(url, namespace, kubeconfig, context)))
    typer.echo(output.text(view, lambda: screen(view)))
    if broken(view["wrong"]):
        raise typer.Exit(1)


def overview(remote: Remote) -> dict[str, Any]:
    """The answer of `-o json`. Raises NoAnswer."""
    now = remote.json("/api/v1/status")
    nodes = nodes_of(remote)
    limits = limits_of(remote.json("/api/v1/config"))
    heated = hot(nodes["nodes"], limits)
    ledger = msgspec.convert(remote.json("/api/v1/ledger"), LedgerAnswer)
    known = any(node["state"] == "known" for node in nodes["nodes"])
    return {
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
        "today": msgspec.to_builtins(ledger.days[-1]),
        "would": msgspec.to_builtins({"today": effect_of(ledger.days[-1:]), "week": effect_of(ledger.days[-7:])}),
        "wrong": wrong(now),
    }


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
    ready = "ready" if found["ready"] else "not ready"
    lines = [
        f"Ballast {found['version']} at {found['address']}: {'leader' if found['leader'] else 'follower'}, {ready}",
        f"nodes     {_nodes(found['nodes'])}",
        f"balanced  {_describe_balance(found)}",
        f"spread    {spread_words(found['spread']) or 'unknown'}",
    ]
    lines += [f"  hot     {node['node']}: {_percents(node['load'])}" for node in found["hot"][:NAMED]]
    if more := len(found["hot"]) - NAMED:
        lines += [f"  hot     and {more} more; see `ballast top`"] if more > 0 else []
    lines += [f"parts     {', '.join(_part(name, state) for name, state in found['parts'].items())}"]
    lines += [f"today     {_today(found['today'])}"]
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
        if snapshot[state]
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


def _part(name: str, part: Mapping[str, str | None]) -> str:
    return f"{name} {part['mode']}" + (f" (paused: {part['paused']})" if part["paused"] else "")


def _today(done: Mapping[str, Any]) -> str:
    """Since midnight UTC; what is not known is left out."""
    words = [f"{done['evicted']} pods moved"]
    if done["predicted"]:
        words[0] += f" (measured effect {done['measured'] / done['predicted']:.0%} of the predicted)"
    words += [f"{done[name]} {name}" for name in ("refused", "failed") if done[name]]
    words.append(f"{done['label_writes']} label writes")
    if done["hot_node_minutes"] is not None:
        words.append(f"{done['hot_node_minutes'] / 60:.1f} hot node-hours")
    if done["over_watt_hours"] is not None:
        words.append(f"{done['over_watt_hours']:.1f} Wh above the feed")
    return ", ".join(words)
