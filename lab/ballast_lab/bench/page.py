"""What the page costs a browser: first paint, bytes, an update. Needs chromium."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from ballast.model.node import Node
from ballast.model.snapshot import Snapshot
from ballast.serving.rendering import render
from ballast_lab.bench.rows import Row, at_most
from ballast_lab.harness.browser import Tab, browser
from tests.worlds.board import TIME, board_of, serving, snapshot

SIZES = 5_000, 15_000
RESOURCES = "cpu", "memory", "disk", "network"
OPENINGS, UPDATES = 15, 5
INTERVAL = 15.0
PAINTED = """
  new MutationObserver((_, watch) => { if (document.body?.dataset.rounds) {
    watch.disconnect(); requestAnimationFrame(() => setTimeout(() => { window.painted = performance.now(); })); } })
  .observe(document, { attributes: true, childList: true, subtree: true });
"""


def measure(openings: int = OPENINGS, updates: int = UPDATES) -> list[Row]:
    """The daemon's page in a process of its own, on loopback; the browser draws in software."""
    rows = []
    for count in SIZES:
        with _served(count) as (port, pipe), tempfile.TemporaryDirectory() as profile, browser(Path(profile)) as tab:
            tab.look(1280, 860)
            tab.call("Page.addScriptToEvaluateOnNewDocument", source=PAINTED)
            tab.call("Performance.enable", timeDomain="threadTicks")
            rows += _rows(count, _openings(tab, port, openings), _updates(tab, pipe, updates))
    return rows


QUICK = {"openings": 3, "updates": 3}


def _rows(count: int, opened: list[tuple[float, float, float]], updated: list[tuple[float, float]]) -> list[Row]:
    at = f"{count:,} nodes, {len(RESOURCES)} resources"
    first, drawn = min(each[0] for each in opened), sorted(each[1] for each in opened)
    size, spent = opened[0][2] / 1e3, statistics.median(each[0] for each in updated)
    median, packed, bound = statistics.median(drawn), max(each[1] for each in updated) / 1e3, count == SIZES[0]
    return [
        {
            "what": "page opened → everything on the first screen is drawn, nothing in the cache",
            "at": at,
            "reach": "≤ 1 s" if bound else "usable",
            "measured": f"{drawn[0]:.2f} s (least of {len(drawn)}, median {median:.2f}); first paint {first:.2f} s",
            "verdict": at_most(drawn[0], 1) if bound else "",
        },
        {
            "what": "bytes until then",
            "at": at,
            "reach": "≤ 150 kB" if bound else "reported",
            "measured": f"{size:.0f} kB",
            "verdict": at_most(size, 150) if bound else "",
        },
        {
            "what": "bytes of an update, all loads changed",
            "at": at,
            "reach": "≤ 60 kB" if bound else "reported",
            "measured": f"{packed:.1f} kB",
            "verdict": at_most(packed, 60) if bound else "",
        },
        {
            "what": "main thread of an update: script, style, layout, paint",
            "at": at,
            "reach": "≤ 50 ms" if bound else "reported",
            "measured": f"{spent:.0f} ms CPU (at most {max(each[0] for each in updated):.0f})",
            "verdict": at_most(spent, 50) if bound else "",
        },
    ]


def _openings(tab: Tab, port: int, count: int) -> list[tuple[float, float, float]]:
    """(seconds to the first contentful paint, to the drawn screen, bytes)."""
    found = []
    for _ in range(count):
        tab.call("Network.clearBrowserCache")
        tab.open(f"http://127.0.0.1:{port}/")
        tab.await_("window.painted")
        first = tab.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        drawn = tab.run("window.painted")
        found.append((first / 1e3, drawn / 1e3, float(sum(each["encodedDataLength"] for each in tab.requests))))
    return found


def _updates(tab: Tab, pipe: Connection, count: int) -> list[tuple[float, float]]:
    """(milliseconds of the main thread, bytes), of one round of the page with a new snapshot each."""
    found = []
    _round(tab)
    for _ in range(count):
        tab.requests.clear()
        pipe.send("next")
        pipe.recv()
        before = _busy(tab)
        _round(tab)
        spent = 1e3 * (_busy(tab) - before)
        found.append((spent, float(sum(each["encodedDataLength"] for each in tab.requests))))
    return found


def _round(tab: Tab) -> None:
    """Waits for the next round of the page to end, without work of the test in between."""
    tab.run(
        "new Promise(done => new MutationObserver((_, watch) => { watch.disconnect(); requestAnimationFrame(() => "
        "setTimeout(done)); }).observe(document.body, { attributeFilter: ['data-rounds'] }))"
    )


def _busy(tab: Tab) -> float:
    """Seconds of CPU of the page's main thread, without what the test asks of it."""
    metrics = {each["name"]: each["value"] for each in tab.call("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"] - metrics["DevToolsCommandDuration"])


@contextmanager
def _served(count: int) -> Iterator[tuple[int, Connection]]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs, count))
    server.start()
    try:
        yield ours.recv(), ours
    finally:
        ours.send("stop")
        server.join()


def _serve(parent: Connection, count: int) -> None:
    board = board_of(_taken(count, 0), scores=_scores(count, 0))
    with serving(board) as port:
        parent.send(port)
        number = 0
        while parent.recv() != "stop":
            number += 1
            taken, scores = _taken(count, number), _scores(count, number)
            board.history.observe(taken, scores, board.high)
            board.snapshot, board.scores = taken, scores
            board.rendered = render(taken, scores, previous=board.rendered)
            parent.send(number)


def _taken(count: int, number: int) -> Snapshot:
    """Loads that wander: each changes by about a point from one snapshot to the next."""
    base = np.random.default_rng(1).uniform(0.05, 0.95, (len(RESOURCES), count))
    moved = base + 0.01 * np.random.default_rng(number).standard_normal(base.shape)
    names = _names(count)
    taken = snapshot(np.clip(moved, 0, 1).tolist(), resources=RESOURCES, names=names, time=TIME + INTERVAL * number)
    nodes = tuple(
        Node(
            name,
            labels={
                "ballast.dev/load": "normal",
                "ballast.dev/score": "5",
                "topology.kubernetes.io/zone": f"eu-central-1{'abc'[row % 3]}",
                "eks.amazonaws.com/nodegroup": f"workers-{row % 5}",
            },
        )
        for row, name in enumerate(names)
    )
    return replace(taken, nodes=nodes)


def _scores(count: int, number: int) -> dict[str, int | None]:
    return dict(zip(_names(count), np.random.default_rng(7 + number).integers(0, 101, count).tolist(), strict=True))


def _names(count: int) -> list[str]:
    return [f"ip-10-0-{row // 256}-{row % 256}.eu-central-1.compute.internal" for row in range(count)]


if __name__ == "__main__":
    for row in measure():
        print(row)
