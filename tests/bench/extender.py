"""How long a scheduler waits for an answer, alone and while the pods are listed anew."""

from __future__ import annotations

import json
import os
import random
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

import numpy as np

from ballast.clock import SystemClock
from ballast.cluster.decoding import Reader, pod_reader
from ballast.daemon.extending import Extending
from ballast.metrics import Metrics
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot, Window
from ballast.serving.app import create_app
from ballast.serving.board import Board
from ballast.serving.rendering import render
from ballast.serving.server import Server
from ballast.settings.extender import Extender
from ballast.settings.http import Http
from tests.bench.rows import Row, at_most

NODES, PODS, KINDS = 5_000, 30_000, 12
REQUESTS = 400
ROUNDS = 5
PAGE, PAUSE = 250, 0.005
AT = "5,000 names, 30,000 pods, blend, one core, keep-alive, best of 5 interleaved"
QUICK = {"rounds": 2}


def measure(rounds: int = ROUNDS) -> list[Row]:
    """Milliseconds from the request to the last byte; the server has a core of its own where there are two."""
    ours, theirs = get_context("spawn").Pipe()
    server = get_context("spawn").Process(target=_serve, args=(theirs,))
    server.start()
    try:
        port = ours.recv()
        _pin(1)
        took: dict[str, list[tuple[float, float]]] = {"same": [], "shuffled": [], "500": [], "relist": []}
        for _ in range(rounds):
            took["same"].append(_ask(port, _bodies(NODES, shuffled=False)))
            took["shuffled"].append(_ask(port, _bodies(NODES, shuffled=True)))
            took["500"].append(_ask(port, _bodies(500, shuffled=True)))
            with _listing(ours):
                took["relist"].append(_ask(port, _bodies(NODES, shuffled=False)))
    finally:
        _pin()
        ours.send("stop")
        server.join()
    best = {name: (min(p50 for p50, _ in each), min(p99 for _, p99 in each)) for name, each in took.items()}
    p50, p99 = best["same"]
    return [
        _row("prioritize, p50", AT, "≤ 1 ms", p50, 1.0),
        _row("prioritize, idle p99", AT, "≤ 3 × p50", p99, 3 * p50),
        _row("prioritize, p99 while the pods are listed anew", AT, "≤ 2 × idle p99", best["relist"][1], 2 * p99),
        _row("prioritize, p50, names in another order each time", AT, "reported", best["shuffled"][0]),
        _row("prioritize, p50, as the scheduler's default asks", "500 of 5,000 names", "reported", best["500"][0]),
    ]


def _row(what: str, at: str, reach: str, value: float, limit: float | None = None) -> Row:
    row: Row = {"what": what, "at": at, "reach": reach, "measured": f"{value:.2f} ms"}
    if limit is not None:
        row["verdict"] = at_most(value, limit)
    return row


def _ask(port: int, bodies: Sequence[bytes]) -> tuple[float, float]:
    """(p50, p99), with a client that does nothing but send and receive."""
    took, buffer = [], memoryview(bytearray(1 << 20))
    requests = [
        b"POST /scheduler/prioritize HTTP/1.1\r\nHost: ballast\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        for body in bodies
    ]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for request in requests:
            started = time.perf_counter()
            connection.sendall(request)
            size, whole = connection.recv_into(buffer), 0
            while size < (whole := whole or _length(bytes(buffer[:size]))):
                size += connection.recv_into(buffer[size:])
            took.append(1000 * (time.perf_counter() - started))
    return statistics.median(took), float(np.percentile(took, 99))


def _length(start: bytes) -> int:
    """Bytes of the whole answer, by its head, which comes in one piece."""
    head, _, _ = start.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    assert head.startswith(b"HTTP/1.1 200")
    assert b"x-ballast-neutral" not in fields
    return len(head) + 4 + int(fields[b"content-length"])


def _bodies(count: int, *, shuffled: bool) -> list[bytes]:
    names, dice, made = _names()[:count], random.Random(1), []
    for number in range(REQUESTS):
        if shuffled:
            dice.shuffle(names)
        kind = number % KINDS
        pod = {
            "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"waiting-{number}"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": _requests(kind)}}]},
        }
        made.append(json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}, separators=(",", ":")).encode())
    return made


@contextmanager
def _listing(server: Connection) -> Iterator[None]:
    server.send("list")
    server.recv()
    try:
        yield
    finally:
        server.send("rest")
        server.recv()


def _serve(parent: Connection) -> None:
    _pin(0)
    clock, metrics, taken = SystemClock(), Metrics(), _snapshot()
    board = Board(snapshot=taken, rendered=render(taken, {}))
    extending = Extending(Extender(), clock, metrics, board, lambda: 0.0)
    reader = pod_reader(lambda key: False)
    pages = list(_pages())
    extending.replace(_listed(reader, pages, 0.0))
    extending.look(taken)
    server = Server(create_app(board, metrics, extending), Http(host="127.0.0.1", port=0))
    parent.send(server.start())
    rest = threading.Event()
    while (order := parent.recv()) != "stop":
        if order == "list":
            rest.clear()
            work = threading.Thread(target=_relist, args=(extending, reader, pages, rest))
            work.start()
        else:
            rest.set()
            work.join()
        parent.send("done")
    server.stop()


def _relist(extending: Extending, reader: Reader[Pod], pages: Sequence[bytes], rest: threading.Event) -> None:
    while not rest.is_set():
        extending.replace(_listed(reader, pages, PAUSE))


def _listed(reader: Reader[Pod], pages: Sequence[bytes], pause: float) -> list[Pod]:
    pods = []
    for page in pages:
        pods += reader.page(page)[0]
        time.sleep(pause)
    return pods


def _pages() -> Iterator[bytes]:
    names = _names()
    pods = [_pod(f"bound-{number}", number % KINDS, names[number % NODES]) for number in range(PODS)]
    pods += [_pod(f"waiting-{number}", number % KINDS, "") for number in range(REQUESTS)]
    for start in range(0, len(pods), PAGE):
        yield json.dumps({"metadata": {}, "items": pods[start : start + PAGE]}).encode()


def _pod(uid: str, kind: int, node: str) -> dict[str, object]:
    labels = {f"label-{number}": f"value-{kind}" for number in range(6)}
    managed = [{"manager": "kubelet", "fieldsV1": {f"f:{number}": {"f:x": {}} for number in range(150)}}]
    return {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, "labels": labels, "managedFields": managed},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": _requests(kind)}}]},
        "status": {"phase": "Running" if node else "Pending"},
    }


def _requests(kind: int) -> dict[str, str]:
    return {"cpu": f"{50 * (kind + 1)}m", "memory": f"{128 * (kind + 1)}Mi", "ephemeral-storage": "1Gi"}


def _names() -> list[str]:
    return [f"ip-10-0-{number // 256}-{number % 256}.eu-central-1.compute.internal" for number in range(NODES)]


def _snapshot() -> Snapshot:
    rng, known = np.random.default_rng(1), np.ones((2, NODES), bool)
    amounts = {"cpu": 16.0, "memory": 64 * 2.0**30, "ephemeral-storage": 100 * 2.0**30, "pods": 110.0}
    window = Window(
        name="15m",
        seconds=900.0,
        mean=rng.uniform(0, 0.8, (2, NODES)),
        std=rng.uniform(0, 0.1, (2, NODES)),
        p95=rng.uniform(0.5, 0.9, (2, NODES)),
        count=np.full((2, NODES), 60),
        coverage=known.astype(float),
        known=known,
    )
    now = SystemClock().wall()
    return Snapshot(
        time=now,
        nodes=tuple(Node(name, capacity=amounts, allocatable=amounts) for name in _names()),
        resources=("cpu", "memory"),
        windows={"15m": window},
        newest=np.full((2, NODES), now),
        allocatable_share=np.ones((2, NODES)),
        known=known[0],
        young=~known[0],
    )


def _pin(core: int | None = None) -> None:
    """Onto one core, or all of them; without a second one everybody stays where they are."""
    cores = sorted(_CORES)
    if len(cores) > 1:
        os.sched_setaffinity(0, _CORES if core is None else {cores[core]})


_CORES = os.sched_getaffinity(0)


if __name__ == "__main__":
    for row in measure():
        print(row)
