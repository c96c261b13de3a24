"""How long a scheduler waits for an answer: alone, while the pods are listed again, and while a plan is made."""

from __future__ import annotations

import gc
import json
import logging
import os
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import structlog

from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.client import connect
from ballast.cluster.lease import Elector, LeaseTimes
from ballast.cluster.listing import PAGE
from ballast.cluster.objects.decoding import Reader, pod_reader
from ballast.eviction.facts import ClusterObjects
from ballast.extender.decisions import ExtenderService
from ballast.model.devices import ANNOTATIONS, SHARE_COUNT, SHARE_INDEX, SHARE_MILLI
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot, Window
from ballast.planning.moment import Moment
from ballast.planning.process import PlanningProcess
from ballast.planning.request import PlansRequest, RequestedPlan
from ballast.serving.board import Board
from ballast.serving.rendering import render
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast.settings import load
from ballast.settings.plain_parts import ExtenderSettings, HttpSettings
from ballast_lab.bench.processes import simulated
from ballast_lab.bench.rows import Row, all_equal, at_most

NODES, PODS, KINDS = 5_000, 30_000, 12
REQUESTS = 1_000
ROUNDS = 5
ORDERS = 25
LONG = 4
"""Thousands of requests while a plan is made or pods are listed, which let requests go first and take their time."""
PAUSE = 0.005
AT = "5,000 names in another order each time, 30,000 pods, blend, one core, keep-alive, best of 5 interleaved"
QUICK = {"rounds": 2}
RETRY = 2.0


def measure(rounds: int = ROUNDS) -> list[Row]:
    """Milliseconds from the request to the last byte; the server has a core of its own where there are two. The process
    that plans may take what is left of either: next to a server that never rests, it would not come to planning.
    """
    ours, theirs = get_context("spawn").Pipe()
    with simulated(10) as cluster:
        server = get_context("spawn").Process(target=_serve, args=(theirs, cluster.environment))
        server.start()
        try:
            port = ours.recv()
            pin(1)
            took: dict[str, list[tuple[float, float]]] = {}
            for _ in range(rounds):
                for what, names, disturbance in (
                    ("idle", orders_of(NODES), None),
                    ("relist", orders_of(NODES), "list"),
                    ("plan", orders_of(NODES), "plan"),
                    ("some", orders_of(NODES - 500), None),
                    ("few", orders_of(500), None),
                    ("same", orders_of(NODES)[:1], None),
                ):
                    with _disturbed(ours, disturbance):
                        took.setdefault(what, []).append(ask(port, names, LONG if disturbance else 1))
        finally:
            pin()
            ours.send("stop")
            gaps: list[float] = ours.recv()
            server.join()
    best = {name: (min(p50 for p50, _ in each), min(p99 for _, p99 in each)) for name, each in took.items()}
    p50, p99 = best["idle"]
    missed = sum(gap > 2 * 1.2 * RETRY for gap in gaps)
    return [
        _row("prioritize, p50", AT, "≤ 1 ms", p50, 1.0),
        _row("prioritize, idle p99", AT, "≤ 3 × p50", p99, 3 * p50),
        _row("prioritize, p99 while the pods are listed again", AT, "≤ 2 × idle p99", best["relist"][1], 2 * p99),
        _row("prioritize, p99 while plans are made", AT, "≤ 2 × idle p99", best["plan"][1], 2 * p99),
        {
            "what": "renewals of the Lease missed meanwhile",
            "at": "the same run, one every 2.0 to 2.4 s",
            "reach": "none",
            "measured": f"{missed} of {len(gaps)}, longest gap {max(gaps):.1f} s",
            "verdict": all_equal([missed], 0),
        },
        _row("prioritize, p50, one node in ten does not fit", "4,500 of 5,000 names", "≤ 1 ms", best["some"][0], 1.0),
        _row("prioritize, p50, as the scheduler's default asks", "500 of 5,000 names", "reported", best["few"][0]),
        _row("prioritize, p50, always the same list", "5,000 names", "reported", best["same"][0]),
    ]


def _row(what: str, at: str, reach: str, value: float, limit: float | None = None) -> Row:
    row: Row = {"what": what, "at": at, "reach": reach, "measured": f"{value:.2f} ms"}
    if limit is not None:
        row["verdict"] = at_most(value, limit)
    return row


def ask(port: int, orders: Sequence[bytes], times: int, devices: int = 0) -> tuple[float, float]:
    """(p50, p99) of so many thousands, with a client that does nothing but send and receive.

    Where nodes have `devices` that are handed out in parts, three pods in four ask for some.
    """
    took, buffer = [], memoryview(bytearray(1 << 20))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(times * REQUESTS):
            request = _request(number % REQUESTS, orders[number % len(orders)], devices)
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


def _request(number: int, names: bytes, devices: int) -> bytes:
    asked = _parts(number % KINDS) if devices else {}
    pod = {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"waiting-{number}", "annotations": asked},
        "spec": {"containers": [{"name": "c", "resources": {"requests": _requests(number % KINDS)}}]},
    }
    body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (json.dumps(pod, separators=(",", ":")).encode(), names)
    return (
        b"POST /scheduler/prioritize HTTP/1.1\r\nHost: ballast\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def orders_of(count: int) -> list[bytes]:
    """So many of the names, another choice in another order each time."""
    dice, names = random.Random(1), _names()
    return [json.dumps(dice.sample(names, count), separators=(",", ":")).encode() for _ in range(ORDERS)]


@contextmanager
def _disturbed(server: Connection, how: str | None) -> Iterator[None]:
    if how is None:
        yield
        return
    server.send(how)
    server.recv()
    try:
        yield
    finally:
        server.send("rest")
        assert server.recv(), f"nothing was done: {how}"


class _Renewing(Elector):
    """Keeps the times of its renewals."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.times: list[float] = []

    def tick(self) -> None:
        super().tick()
        if self.is_leader() and self.problem is None:
            self.times.append(time.monotonic())


def service(devices: int = 0) -> tuple[ExtenderService, Board, Metrics, list[bytes]]:
    """The extender with all pods, and those as pages of a list; nodes have `devices` that are handed out in parts."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    metrics, taken = Metrics(), _snapshot(devices)
    board = Board(snapshot=taken, rendered=render(taken, {}))
    extender = ExtenderService(ExtenderSettings(), SystemClock(), metrics, board, lambda: 0.0)
    pages = list(_pages(devices))
    extender.replace(_listed(_reader(extender), pages, 0.0))
    extender.observe(taken)
    return extender, board, metrics, pages


def _reader(extender: ExtenderService) -> Reader[Pod]:
    return pod_reader(lambda key: key in ANNOTATIONS, extender.give_way)


def _serve(parent: Connection, environment: dict[str, str]) -> None:
    pin(0)
    clock, (extender, board, metrics, pages) = SystemClock(), service()
    reader = _reader(extender)
    api = connect(load(environment).cluster, metrics)
    times = LeaseTimes(retry=RETRY)
    elector = _Renewing(api, clock, metrics, namespace="default", name="bench", identity="bench", times=times)
    elector.start()
    assert board.snapshot is not None
    worker, errand = PlanningProcess(), _errand(board.snapshot, _listed(reader, pages, 0.0))
    works: dict[str, Callable[[], object]] = {
        "list": lambda: extender.replace(_listed(reader, pages, PAUSE)),
        "plan": lambda: worker.ask(errand),
    }
    server = Server(create_app(board, metrics, extender), HttpSettings(host="127.0.0.1", port=0))
    worker.ask(errand)
    os.sched_setaffinity(worker.pid or 0, _CORES)
    gc.freeze()
    parent.send(server.start())
    rest = threading.Event()
    while (order := parent.recv()) != "stop":
        if order in works:
            rest.clear()
            counted: list[int] = []
            thread = threading.Thread(target=_again, args=(works[order], rest, counted))
            thread.start()
            parent.send(True)
        else:
            rest.set()
            thread.join()
            parent.send(len(counted))
    worker.stop()
    elector.stop()
    parent.send(np.diff(elector.times).tolist())
    server.stop()


def _again(work: Callable[[], object], rest: threading.Event, done: list[int]) -> None:
    """Again and again; what is under way when it shall rest is ended, but does not count as `done`."""
    while not rest.is_set():
        work()
        done += [1] * (not rest.is_set())


def _errand(taken: Snapshot, pods: Sequence[Pod]) -> PlansRequest:
    """All three plans, which take seconds and find little to do."""
    moment = Moment(taken.time, ClusterObjects(taken.nodes, pods), taken.resources, taken.primary.mean.T)
    return PlansRequest(moment, tuple(RequestedPlan(kind) for kind in ("relieve", "redistribute", "rebalance")))


def _listed(reader: Reader[Pod], pages: Sequence[bytes], pause: float) -> list[Pod]:
    pods = []
    for page in pages:
        pods += reader.page(page)[0]
        time.sleep(pause)
    return pods


def _pages(devices: int) -> Iterator[bytes]:
    names = _names()
    pods = [_pod(f"bound-{number}", number % KINDS, names[number % NODES], devices) for number in range(PODS)]
    pods += [_pod(f"waiting-{number}", number % KINDS, "", devices) for number in range(REQUESTS)]
    for start in range(0, len(pods), PAGE):
        yield json.dumps({"metadata": {}, "items": pods[start : start + PAGE]}).encode()


def _pod(uid: str, kind: int, node: str, devices: int) -> dict[str, object]:
    asked = _parts(kind) if devices else {}
    if asked and node:
        asked[SHARE_INDEX] = "-".join(str((kind + other) % devices) for other in range(int(asked[SHARE_COUNT])))
    labels = {f"label-{number}": f"value-{kind}" for number in range(6)}
    managed = [{"manager": "kubelet", "fieldsV1": {f"f:{number}": {"f:x": {}} for number in range(150)}}]
    return {
        "metadata": {
            "name": uid,
            "namespace": "default",
            "uid": uid,
            "labels": labels,
            "annotations": asked,
            "managedFields": managed,
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": _requests(kind)}}]},
        "status": {"phase": "Running" if node else "Pending"},
    }


def _requests(kind: int) -> dict[str, str]:
    return {"cpu": f"{50 * (kind + 1)}m", "memory": f"{128 * (kind + 1)}Mi", "ephemeral-storage": "1Gi"}


def _parts(kind: int) -> dict[str, str]:
    """Parts of one device for two kinds in four, two whole devices for a third one."""
    milli, count = ((250, 1), (500, 1), (1000, 2), (0, 0))[kind % 4]
    return {SHARE_MILLI: str(milli), SHARE_COUNT: str(count)} if milli else {}


def _names() -> list[str]:
    return [f"ip-10-0-{number // 256}-{number % 256}.eu-central-1.compute.internal" for number in range(NODES)]


def _snapshot(devices: int) -> Snapshot:
    rng, known = np.random.default_rng(1), np.ones((2, NODES), bool)
    amounts = {"cpu": 16.0, "memory": 64 * 2.0**30, "ephemeral-storage": 100 * 2.0**30, "pods": 110.0}
    if devices:
        amounts[SHARE_COUNT] = float(devices)
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
        states=NodeStates.of(known[0]),
    )


def pin(core: int | None = None) -> None:
    """Onto one core, or all of them; without a second one everybody stays where they are."""
    cores = sorted(_CORES)
    if len(cores) > 1:
        os.sched_setaffinity(0, _CORES if core is None else {cores[core]})


_CORES = os.sched_getaffinity(0)


if __name__ == "__main__":
    for row in measure():
        print(row)
