"""How long a scheduler waits for an answer about nodes with devices that are handed out in parts, beside plain ones."""

from __future__ import annotations

import gc
import statistics
import time
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess

from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast.settings.plain_parts import HttpSettings
from ballast_lab.bench.extender import NODES, REQUESTS, ask, orders_of, pin, service
from ballast_lab.bench.rows import Row, at_most

ROUNDS = 5
EACH = 8
"""Devices of a node."""
REACH = 1.2
QUICK = {"rounds": 2}


def measure(rounds: int = ROUNDS) -> list[Row]:
    """Milliseconds from the request to the last byte, and of the server's processor. Two servers take turns, so that a
    busy machine hits both.
    """
    with ExitStack() as stack:
        servers = {devices: _started(stack, devices) for devices in (0, EACH)}
        pin(1)
        stack.callback(pin)
        took: dict[int, list[tuple[float, float, float]]] = {devices: [] for devices in servers}
        for _ in range(rounds):
            for devices, (server, port) in servers.items():
                before = _spent(server)
                p50, p99 = ask(port, orders_of(NODES), 1, devices)
                took[devices].append((p50, p99, 1000 * (_spent(server) - before) / REQUESTS))
    best = {devices: [min(each) for each in zip(*rows, strict=True)] for devices, rows in took.items()}
    p50, p99, spent = best[EACH]
    ratio = statistics.median(ours[2] / plain[2] for ours, plain in zip(took[EACH], took[0], strict=True))
    at = f"{NODES:,} names in another order each time, {EACH} devices a node, 3 in 4 pods want some, best of {rounds}"
    return [
        {
            "what": "prioritize with devices, p50",
            "at": at,
            "reach": f"≤ {REACH:g} ms",
            "measured": f"{p50:.2f} ms; without devices {best[0][0]:.2f} ms",
            "verdict": at_most(p50, REACH),
        },
        {"what": "prioritize with devices, p99", "at": at, "reach": "reported", "measured": f"{p99:.2f} ms"},
        {
            "what": "prioritize with devices, processor time of the server",
            "at": "the same run, a request",
            "reach": "reported",
            "measured": f"{spent:.2f} ms, {ratio:.2f} × that without devices",
        },
    ]


def _started(stack: ExitStack, devices: int) -> tuple[Connection, int]:
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(theirs, devices))
    process.start()
    stack.callback(_stop, ours, process)
    port: int = ours.recv()
    return ours, port


def _spent(server: Connection) -> float:
    server.send("spent")
    spent: float = server.recv()
    return spent


def _stop(server: Connection, process: SpawnProcess) -> None:
    server.send("stop")
    process.join()


def _serve(parent: Connection, devices: int) -> None:
    """Answers its port, and then its processor time as often as it is asked."""
    pin(0)
    extender, board, metrics, _ = service(devices)
    server = Server(create_app(board, metrics, extender), HttpSettings(host="127.0.0.1", port=0))
    gc.freeze()
    parent.send(server.start())
    while parent.recv() != "stop":
        parent.send(time.process_time())
    server.stop()


if __name__ == "__main__":
    for row in measure():
        print(row)
