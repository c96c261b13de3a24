"""How long a scheduler waits for the whole daemon: `ballast run` with every job on, nothing pinned; and in a crowd."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ballast_lab.bench.processes import Shape, simulated
from ballast_lab.bench.rows import Row, at_most

NODES = 5_000
ASKED = 500
"""Names that kube-scheduler sends at this size: a tenth of the nodes (percentageOfNodesToScore)."""
TOKEN = "token-of-the-bench"
"""New installations of the chart ask for one."""
NAME = "ip-10-0-12-{row:05d}.eu-central-1.internal"
"""38 characters with the row."""
ORDERS = 25
EVERY = 0.005
SECONDS = 600.0
SETTLED = 45.0
"""Seconds after the start before anything is measured: lists, windows read back, first plans."""
PATIENCE = 180.0
LARGE = 15_000
ASKED_OF_LARGE = 750
"""Likewise: a twentieth."""
CROWD = {"BALLAST_EVICTION__INTERVAL": "15s", "BALLAST_CLUSTER__QPS": "500", "BALLAST_CLUSTER__BURST": "500"}
QUICK = {"seconds": 20.0, "crowded": 30.0}
SETTINGS = {
    "BALLAST_TELEMETRY__INTERVAL": "15s",
    "BALLAST_PUBLISHING__MODE": "on",
    "BALLAST_EVICTION__MODE": "dry-run",
    "BALLAST_EVICTION__INTERVAL": "60s",
    "BALLAST_BATCH__MODE": "on",
    "BALLAST_POWER__MODE": "on",
    "BALLAST_POWER__POLICIES": json.dumps(
        [
            {
                "name": "sun",
                "feed": {"query": "simulated_power_watts", "semantics": "available"},
                "independents": [{"ref": "deployments.apps/shop/api", "min": 1, "max": 1000}],
            }
        ]
    ),
    "BALLAST_LOG__LEVEL": "error",
    "BALLAST_HTTP__HOST": "127.0.0.1",
}


def measure(seconds: float = SECONDS, crowded: float = SECONDS / 2) -> list[Row]:
    """Milliseconds from the request to the last byte, beside a server of another process that sends the same bytes."""
    return [*_calm(seconds), *_crowded(crowded)]


def _crowded(seconds: float) -> list[Row]:
    """Beside clients that send one byte a chunk, the cycles of three times as many nodes, and a busy planner."""
    shape = Shape(NAME, pods=2, scene="breathing", realistic=False)
    with simulated(LARGE, shape) as cluster, daemon(cluster.environment, **CROWD) as port, _echo() as echo:
        time.sleep(SETTLED)
        with beside(_compute), beside(_send_chunks, port):
            took, base = _asked(port, echo, seconds)
    value, same = (float(np.percentile(each, 99)) for each in (took, base))
    return [
        {
            "what": "prioritize in the whole daemon, in a crowd, p99",
            "at": f"{NODES:,} names, beside three clients of one-byte chunks, cycles of {LARGE:,} nodes and a planner "
            f"that is always busy, {seconds:.0f} s",
            "reach": "≤ 10 × an echo",
            "measured": f"{value:.1f} ms, {value / same:.1f} × a server that only sends the same bytes, meanwhile "
            f"({same:.2f} ms; p50 {np.percentile(took, 50):.1f} and {np.percentile(base, 50):.2f} ms; {len(took):,} "
            f"requests; load average {os.getloadavg()[0]:.1f})",
            "verdict": at_most(value, 10 * same),
        }
    ]


@contextmanager
def beside(work: Callable[..., None], *arguments: object) -> Iterator[None]:
    """Runs it in a process of its own until the block ends."""
    process = get_context("spawn").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _compute() -> None:
    """Without end, at the priority of planning."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        sum(range(100_000))


def _send_chunks(port: int) -> None:
    """Three clients that send bodies of one-byte chunks, and dial again when they are cut off."""
    head = b"POST /scheduler/prioritize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    def send() -> None:
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(head)
                while True:
                    client.sendall(b"1\r\nx\r\n" * 100)

    for _ in range(3):
        threading.Thread(target=send).start()


def _calm(seconds: float) -> list[Row]:
    """As kube-scheduler asks at each size, then about all nodes."""
    rows: list[Row] = []
    for nodes, sizes in ((NODES, (ASKED, NODES)), (LARGE, (ASKED_OF_LARGE,))):
        shape = Shape(NAME, pods=6 if nodes == NODES else 2, scene="breathing")
        with simulated(nodes, shape) as cluster, daemon(cluster.environment) as port:
            time.sleep(SETTLED)
            for asked in sizes:
                with _echo(asked) as echo:
                    rows += _judged(nodes, asked, seconds, *_asked(port, echo, seconds, asked, nodes))
    return rows


def _judged(nodes: int, asked: int, seconds: float, took: list[float], base: list[float]) -> list[Row]:
    at = f"{asked:,} of {nodes:,} nodes, names of {len(NAME.format(row=0))} characters, all jobs on, {seconds:.0f} s"
    rows: list[Row] = []
    for what, percentile, times in (
        ("p50", 50, 4.0 if asked == nodes else 3.0),
        ("p99", 99, 6.0),
        ("worst", 100, None),
    ):
        value, same = (float(np.percentile(each, percentile)) for each in (took, base))
        rows.append(
            {
                "what": f"prioritize in the whole daemon, {what}",
                "at": at,
                "reach": f"≤ {times:.0f} × an echo" if times else "≤ 60 ms",
                "measured": f"{value:.2f} ms, {value / same:.1f} × a server that only sends the same bytes, meanwhile "
                f"({same:.2f} ms; {len(took):,} requests; load average {os.getloadavg()[0]:.1f})",
                "verdict": at_most(value, times * same if times else 60.0),
            }
        )
    return rows


@contextmanager
def daemon(environment: dict[str, str], *, under: Sequence[str] = (), **more: str) -> Iterator[int]:
    """`under` is the command that it runs under."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {**SETTINGS, "BALLAST_HTTP__PORT": str(port), "BALLAST_HTTP__HEALTH_PORT": "0", **more}
    with TemporaryDirectory() as folder:
        token = Path(folder) / "token"
        token.write_text(TOKEN)
        own["BALLAST_EXTENDER__TOKEN_FILE"] = str(token)
        with _running([*under, sys.executable, "-m", "ballast", "run"], {**os.environ, **environment, **own}, port):
            yield port


@contextmanager
def _running(command: list[str], environment: dict[str, str], port: int) -> Iterator[None]:
    daemon = subprocess.Popen(command, env=environment)
    began = time.monotonic()
    try:
        while not _knows(port):
            assert daemon.poll() is None, "ballast run ended"
            assert time.monotonic() - began < PATIENCE, "no node is known"
            time.sleep(0.5)
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)


def _knows(port: int) -> bool:
    """Whether it decides by load."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            return b"x-ballast-neutral" not in exchange(connection, next(requests(1, 1)), bytearray(1 << 20))
    except OSError:
        return False


def _asked(
    port: int, echo: int, seconds: float, asked: int = NODES, nodes: int = NODES
) -> tuple[list[float], list[float]]:
    """Milliseconds of the daemon and of the echo, in turns, `EVERY` seconds apart."""
    took: tuple[list[float], list[float]] = ([], [])
    buffer = bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as one, socket.create_connection(("127.0.0.1", echo)) as other:
        for connection in (one, other):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        until = time.monotonic() + seconds
        for request in requests(asked, nodes):
            for connection, times in zip((one, other), took, strict=True):
                began = time.perf_counter()
                head = exchange(connection, request, buffer)
                times.append(1000 * (time.perf_counter() - began))
                assert head.startswith(b"HTTP/1.1 200"), head
            if time.monotonic() > until:
                return took
            time.sleep(EVERY)
    raise AssertionError("unreachable")


def exchange(connection: socket.socket, request: bytes, buffer: bytearray) -> bytes:
    """The head of the answer."""
    view = memoryview(buffer)
    connection.sendall(request)
    size = connection.recv_into(view)
    head = bytes(view[:size]).partition(b"\r\n\r\n")[0]
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    whole = len(head) + 4 + int(fields[b"content-length"])
    while size < whole:
        size += connection.recv_into(view[size:])
    return head.lower().replace(b"http/1.1", b"HTTP/1.1")


def requests(asked: int, nodes: int) -> Iterator[bytes]:
    dice, names = random.Random(1), [NAME.format(row=row) for row in range(nodes)]
    orders = [json.dumps(dice.sample(names, asked), separators=(",", ":")).encode() for _ in range(ORDERS)]
    number = 0
    while True:
        number += 1
        requests = {"cpu": f"{50 * (1 + number % 12)}m", "memory": f"{128 * (1 + number % 12)}Mi"}
        pod = {
            "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"waiting-{number}"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        }
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (json.dumps(pod).encode(), orders[number % ORDERS])
        yield (
            b"POST /scheduler/%b/prioritize HTTP/1.1\r\nHost: ballast\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (TOKEN.encode(), len(body), body)
        )


@contextmanager
def _echo(asked: int = NODES) -> Iterator[int]:
    """A server of a process of its own that answers each request with as many bytes as the daemon does."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_answer, args=(theirs, asked))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _answer(parent: Connection, asked: int) -> None:
    body = b"[" + b"x" * (asked * (len(NAME.format(row=0)) + 20)) + b"]"
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parent.send(listener.getsockname()[1])
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(1 << 20))
        while True:
            size = connection.recv_into(buffer)
            if not size:
                return
            head, _, _ = bytes(buffer[:size]).partition(b"\r\n\r\n")
            whole = len(head) + 4 + int(head.lower().rpartition(b"content-length: ")[2].split(b"\r\n")[0])
            while size < whole:
                size += connection.recv_into(buffer)
            connection.sendall(answer)
