"""`ballast top`: the nodes by load."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

import typer

from ballast.cli.observing.remote import Remote, find
from ballast.cli.observing.status import nodes_of, spread_words
from ballast.cli.observing.summary import busiest, mean_of, spread
from ballast.cli.output import LiveOutput, LiveOutputOption
from ballast.cli.place import ContextOption, KubeconfigOption, NamespaceOption, Place, UrlOption

EVERY = 5.0
"""Seconds between two readings on a terminal."""

AROUND = 5
"""Lines of a terminal that are not nodes."""


def top(
    url: UrlOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: LiveOutputOption = LiveOutput.TABLE,
) -> None:
    """Show the nodes by load, the busiest first. On a terminal it updates until Ctrl-C; else it prints all once."""
    remote = find(Place(url, namespace, kubeconfig, context))
    if output is LiveOutput.TABLE and sys.stdout.isatty():
        return _follow(remote)
    answer = nodes_of(remote)
    return typer.echo(output.text(rows(answer), lambda: table(answer)))


def rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The nodes, those that are not known last."""
    ordered = sorted(answer["nodes"], key=lambda node: (-busiest(node), node["name"]))
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


def table(answer: Mapping[str, Any], lines: int | None = None) -> str:
    """A line for each node, at most `lines`."""
    resources = answer["resources"]
    nodes = rows(answer)
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


def _follow(remote: Remote) -> None:
    try:
        while True:
            text = table(nodes_of(remote), max(1, shutil.get_terminal_size().lines - AROUND))
            typer.echo(f"\033[H\033[2J{text}")
            time.sleep(EVERY)
    except KeyboardInterrupt:
        typer.echo("")


def _percent(load: float | None) -> str:
    return "-" if load is None else f"{load:.1%}"
