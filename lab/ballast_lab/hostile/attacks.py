"""What anybody in the network may send to the daemon."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ballast_lab.hostile.victim import NODES, Victim

NAMES = [f"node-{number:03d}" for number in range(NODES)]
Attack = Callable[[Victim], object]

UNSEEN = "pods that nobody has seen"


def args(pod: Any, names: Any = NAMES[:1], nodes: Any = None) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": nodes, "NodeNames": names}).encode()


def of(uid: str = "u", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec}


def raw(*parts: bytes, count: int = 1, wait: bool = True) -> Attack:
    """Sends bytes as they are on `count` connections at once, as far as the daemon takes them."""

    def attack(of: Victim) -> None:
        held: list[socket.socket] = []
        for _ in range(count):
            with contextlib.suppress(OSError):
                client = of.dial()
                held.append(client)
                for part in parts:
                    client.sendall(part)
        for client in held:
            if wait:
                drain(client)
            client.close()

    return attack


def posts(*bodies: bytes, path: str = "/scheduler/prioritize", accepted: bool | None = False) -> Attack:
    """Sends bodies one after another; unless `accepted` is None, all are answered with 200, or none."""

    def attack(of: Victim) -> None:
        found = {of.post(body, path) for body in bodies}
        assert 500 not in found
        if accepted is not None:
            assert (found == {200}) if accepted else (200 not in found), found

    return attack


def many(body: Callable[[int], bytes], count: int, *, accepted: bool | None = False) -> Attack:
    return lambda of: posts(*(body(number) for number in range(count)), accepted=accepted)(of)


def flood(path: str, clients: int = 8, seconds: float = 3.0) -> Attack:
    def attack(of: Victim) -> None:
        until = time.monotonic() + seconds

        def ask() -> None:
            while time.monotonic() < until:
                of.ask("GET", path)

        threads = [threading.Thread(target=ask) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return attack


def in_a_row(requests: bytes, connections: int = 4) -> Attack:
    """Sends requests without waiting for their answers, which are read all the while."""

    def stream(of: Victim) -> None:
        with contextlib.suppress(OSError), of.dial() as client:
            reader = threading.Thread(target=drain, args=(client,))
            reader.start()
            client.sendall(requests)
            reader.join()

    def attack(of: Victim) -> None:
        threads = [threading.Thread(target=stream, args=(of,)) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return attack


def drain(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.settimeout(2)
        while client.recv(65536):
            pass


def untaken(request: bytes, count: int) -> Attack:
    """Asks on many connections, and takes one byte of each answer."""

    def attack(of: Victim) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                with contextlib.suppress(OSError):
                    client = stack.enter_context(of.dial())
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    client.sendall(request)
                    client.recv(1)

    return attack


HEAD = b"POST /scheduler/prioritize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
CHUNK = b"100000\r\n" + b"x" * 1_048_576 + b"\r\n"
HEADLESS = b'{"Pod":{"metadata":{"name":"a"},"spec":{}},"Nodes":{"items":['
ONE_NODE = [{"metadata": {"name": "a"}}]
NESTED = (b"[" * 500_000, b'{"Pod":' * 300_000, args(of()).replace(b'"spec": {}', b'"spec": ' + b'{"a":' * 200_000))


def asking(**requests: str) -> list[dict[str, Any]]:
    """Containers."""
    return [{"resources": {"requests": requests}}]


MANY_NAMES = args(of(), [f"{number:0200}" for number in range(60_000)])
LARGE_ANSWER = HEAD.replace(b"prioritize", b"filter") + b"content-length: %d\r\n\r\n" % len(MANY_NAMES) + MANY_NAMES


def labelled(number: int) -> bytes:
    labels = {f"k{number}-{each}": "v" * 60 for each in range(300)}
    return args({"metadata": {"uid": f"{number}", "labels": labels}, "spec": {}})


ATTACKS: Mapping[str, Attack] = {
    "none, for comparison": lambda of: time.sleep(1.0),
    "many headers": raw(b"GET /livez HTTP/1.1\r\n", b"a: b\r\n" * 4_500_000),
    "a large header": raw(b"GET /livez HTTP/1.1\r\nhost: ", b"x" * 60_000_000),
    "a large name of a header": raw(b"GET /livez HTTP/1.1\r\n", b"x" * 20_000_000),
    "a large address": raw(b"GET /", b"x" * 30_000_000),
    "headers on many connections": raw(b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 10_000, count=60),
    "unfinished bodies": raw(HEAD + b"content-length: 60000000\r\n\r\n", b"x" * 59_000_000, count=9),
    "unfinished bodies in chunks": raw(HEAD + b"transfer-encoding: chunked\r\n\r\n", CHUNK, count=80),
    "requests in a row": in_a_row(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n" * 1_000_000),
    "answers that nobody takes": untaken(LARGE_ANSWER, 40),
    "slow connections": raw(b"G", count=1500, wait=False),
    "containers, 0.5 MB": posts(args(of(containers=[{}] * 166_000))),
    "containers, 12 MB": posts(args(of(containers=[{}] * 4_000_000))),
    "init containers": posts(args(of(initContainers=[{}] * 300_000))),
    "tolerations": posts(args(of(tolerations=[{"key": "a"}] * 200_000)), accepted=None),
    "labels": many(labelled, 200, accepted=None),
    "requests": posts(args(of(containers=asking(**{f"r{n}": "1" for n in range(100_000)}))), accepted=None),
    "names of schedulers": many(lambda n: args(of(f"u{n}", schedulerName=f"{n}" + "s" * 900_000)), 60),
    "quantities": many(lambda n: args(of(f"u{n}", containers=asking(cpu=f"{n}." + "1" * 900_000))), 60),
    "names of nodes": posts(args(of(), ["n" * 900_000])),
    "two million names": posts(args(of(), ["n"] * 2_000_000)),
    "many nodes": posts(args(of(), None, {"items": ONE_NODE * 500_000}), path="/scheduler/filter", accepted=None),
    "many braces for nodes": posts(
        HEADLESS + b",".join([b"{}"] * 20_000_000) + b"]}}", path="/scheduler/filter", accepted=None
    ),
    "nesting": posts(*NESTED),
    UNSEEN: many(
        lambda n: args(of(f"made-up-{n}", containers=asking(cpu="1000000")), [NAMES[n % NODES]]), 1000, accepted=True
    ),
    "/metrics": flood("/metrics"),
    "/watcher": flood("/watcher"),
    "/api/v1/nodes": flood("/api/v1/nodes"),
    "/api/v1/config": flood("/api/v1/config"),
    "scores of pods": flood("/api/v1/pods/shop/web/scores"),
}
