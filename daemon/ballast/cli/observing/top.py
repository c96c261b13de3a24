"""`ballast top`: the nodes by load."""

import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

import typer

from ballast.base.errors import UsageError
from ballast.cli.observing.remote import find
from ballast.cli.observing.status import nodes_of, spread_words
from ballast.cli.observing.summary import busiest, mean_of, spread
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, UrlOption

EVERY = 5.0
"""Seconds between two readings on a terminal."""

LOAD = "load"
AROUND = 5
"""Lines of a terminal that are not nodes."""


def top(
    sort: Annotated[
        str, typer.Option(help="load (cpu or memory), score (the worst first), name, or a resource.")
    ] = LOAD,
    pool: Annotated[str | None, typer.Option(help="Only the nodes of this pool.")] = None,
    url: UrlOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Show the nodes by load, the busiest first. On a terminal it updates until Ctrl-C; else it prints all once."""
    remote = find(Place(url, namespace, kubeconfig, context))
    if output is LiveOutput.TABLE and sys.stdout.isatty():
        return _follow(lambda: of_pool(nodes_of(remote), pool), sort)
    answer = of_pool(nodes_of(remote), pool)
    return typer.echo(output.text(rows(answer, sort), lambda: table(answer, sort=sort)))


def of_pool(answer: Mapping[str, Any], pool: str | None) -> Mapping[str, Any]:
    """The answer with the nodes of one pool alone. Raises UsageError where none is in it."""
    if pool is None:
        return answer
    chosen = [node for node in answer["nodes"] if node["pool"] == pool]
    if not chosen:
        pools = sorted({node["pool"] for node in answer["nodes"] if node["pool"]})
        raise UsageError(f"--pool {pool}: no node is in it; there are {', '.join(pools) or 'no pools'}")
    return {**answer, "nodes": chosen}


def rows(answer: Mapping[str, Any], sort: str = LOAD) -> list[dict[str, Any]]:
    """The nodes, those that are not known last. Raises UsageError for an order that does not exist."""
    orders: dict[str, Callable[[Any], float]] = {
        LOAD: lambda node: -busiest(node),
        "score": lambda node: math.inf if node["score"] is None else node["score"],
        "name": lambda node: 0.0,
        **{name: partial(_falling, name) for name in answer["resources"]},
    }
    if sort not in orders:
        raise UsageError(f"--sort {sort}: it is one of {', '.join(orders)}")
    ordered = sorted(answer["nodes"], key=lambda node: (orders[sort](node), node["name"]))
    return [
        {
            "node": node["name"],
            "state": node["state"],
            "pool": node["pool"],
            "score": node["score"],
            "load": {name: mean_of(node, name) for name in answer["resources"]},
            "published": node["published"],
        }
        for node in ordered
    ]


def _falling(resource: str, node: Any) -> float:
    mean = mean_of(node, resource)
    return math.inf if mean is None else -mean


def table(answer: Mapping[str, Any], lines: int | None = None, sort: str = LOAD) -> str:
    """A line for each node, at most `lines`."""
    resources = answer["resources"]
    nodes = rows(answer, sort)
    shown = [["NODE", "STATE", *(name.upper() for name in resources), "SCORE", "LABEL"]]
    for node in nodes[:lines]:
        loads = [_percent(node["load"][name]) for name in resources]
        label = "/".join(value or "-" for value in (node["published"]["score"], node["published"]["load"]))
        shown.append([node["node"], node["state"], *loads, "-" if node["score"] is None else f"{node['score']}", label])
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    if lines is not None and (rest := len(nodes) - lines) > 0:
        text.append(f"and {rest} more; the page, a pipe or -o json shows all")
    known = sum(node["state"] == "known" for node in nodes)
    words = spread_words(spread(answer["nodes"], resources)) or "unknown"
    return "\n".join([f"{known} of {len(nodes)} nodes known; window {answer['window']}; spread {words}", *text])


def _follow(read: Callable[[], Mapping[str, Any]], sort: str) -> None:
    try:
        while True:
            text = table(read(), max(1, shutil.get_terminal_size().lines - AROUND), sort)
            typer.echo(f"\033[H\033[2J{text}")
            time.sleep(EVERY)
    except KeyboardInterrupt:
        typer.echo("")


def _percent(load: float | None) -> str:
    return "-" if load is None else f"{load:.1%}"
