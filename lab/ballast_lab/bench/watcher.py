"""What one read of `/watcher` costs, and what rendering it costs once per snapshot."""

from __future__ import annotations

import http.client
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection

from ballast.serving.rendering import render
from ballast_lab.bench.rows import Row, at_most, times
from tests.worlds.board import board_of, fleet, serving

NODES = 5_000
READS = 300
RENDERINGS = 15
AT = f"{NODES:,} nodes, cpu and memory"
# A real binary built from upstream's sources (master 17df8f9), read on loopback.
LOAD_WATCHER = {"p50": 109, "megabytes": 22.4}


def measure() -> list[Row]:
    """Milliseconds and bytes; the server runs in a process of its own, the client keeps one connection on loopback."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,))
    server.start()
    try:
        port = ours.recv()
        plain, plain_bytes = _read(port, "identity")
        packed, packed_bytes = _read(port, "gzip")
    finally:
        ours.send("stop")
        server.join()
    part = packed_bytes / plain_bytes
    share = f"{100 * part:.1f} % of {plain_bytes / 1e6:.2f} MB"
    return [
        {
            "what": "`/watcher` plain, p50",
            "at": AT,
            "reach": "≤ 2 ms",
            "measured": f"{plain:.2f} ms",
            "verdict": at_most(plain, 2),
            "peer": f"load-watcher: {LOAD_WATCHER['p50']}–137 ms, no gzip",
            "ratio": f"{times(plain, LOAD_WATCHER['p50'])} faster",
        },
        {
            "what": "`/watcher` gzip, p50",
            "at": AT,
            "reach": "≤ 1 ms",
            "measured": f"{packed:.2f} ms",
            "verdict": at_most(packed, 1),
        },
        {
            "what": "`/watcher` gzip, size",
            "at": AT,
            "reach": "≤ 15 % of the bytes",
            "measured": share,
            "verdict": at_most(part, 0.15),
        },
        {
            "what": "`/watcher` plain, size",
            "at": AT,
            "reach": "reported",
            "measured": f"{plain_bytes / 1e6:.2f} MB",
            "peer": f"load-watcher: {LOAD_WATCHER['megabytes']} MB",
            "ratio": f"{times(plain_bytes / 1e6, LOAD_WATCHER['megabytes'])} smaller",
        },
        {
            "what": "`/watcher` rendered and packed, once per snapshot",
            "at": AT,
            "reach": "part of ≤ 250 ms CPU",
            "measured": f"{_rendering():.0f} ms CPU",
        },
    ]


def _serve(parent: Connection) -> None:
    with serving(board_of(fleet(NODES))) as port:
        parent.send(port)
        parent.recv()


def _read(port: int, encoding: str) -> tuple[float, int]:
    """Median milliseconds from the request to the last byte, and the body's size."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    buffer = bytearray(16 << 20)
    took, size = [], 0
    for _ in range(READS):
        started = time.perf_counter()
        connection.request("GET", "/watcher", headers={"accept-encoding": encoding})
        response = connection.getresponse()
        assert response.status == 200
        size = 0
        while read := response.readinto(memoryview(buffer)[size:]):
            size += read
        took.append(1000 * (time.perf_counter() - started))
    connection.close()
    return statistics.median(took), size


def _rendering() -> float:
    taken = fleet(NODES)
    took = []
    for _ in range(RENDERINGS):
        started = time.process_time()
        render(taken, {})
        took.append(1000 * (time.process_time() - started))
    return statistics.median(took)


if __name__ == "__main__":
    for row in measure():
        print(row)
