"""A daemon of its own beside an embedded cluster, watched from outside while it is attacked."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ballast_lab.harness.process import Process, free_port

NODES = 200
LIMIT = 512 * 2**20
"""Bytes: the memory limit of the chart. What was never resident cannot be killed for it."""

GENUINE = json.dumps(
    {
        "Pod": {
            "metadata": {"name": "web", "namespace": "shop", "uid": "genuine"},
            "spec": {"schedulerName": "default-scheduler", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        },
        "Nodes": None,
        "NodeNames": [f"node-{number:03d}" for number in range(NODES)],
    }
).encode()
_SIZE = re.compile(r"^(VmHWM|VmRSS):\s+(\d+) kB$", re.MULTILINE)


@dataclass
class Seen:
    """Milliseconds of the genuine requests, and what could not be asked."""

    prioritize: list[float] = field(default_factory=list)
    livez: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """Of prioritize."""
        return statistics.quantiles(self.prioritize, n=100)[98]


class Victim:
    """The daemon: where it listens, how large it is, and how it answers."""

    def __init__(self, process: Process, port: int, health: int) -> None:
        self._process, self.port, self.health = process, port, health
        self.log = process.log

    @property
    def alive(self) -> bool:
        return self._process.code is None

    def resident(self) -> tuple[int, int]:
        """(peak, now) resident."""
        found = dict(_SIZE.findall(Path(f"/proc/{self._process.pid}/status").read_text()))
        return int(found["VmHWM"]) * 1024, int(found["VmRSS"]) * 1024

    def dial(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def post(self, body: bytes, path: str = "/scheduler/prioritize") -> int:
        """The status; 0 where the daemon closed the connection instead of answering."""
        return self.ask("POST", path, body)[0]

    def ask(self, method: str, path: str, body: bytes | None = None, port: int | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def scores(self) -> dict[str, int]:
        """What a genuine pod is told."""
        status, body = self.ask("POST", "/scheduler/prioritize", GENUINE)
        assert status == 200, status
        return {each["Host"]: each["Score"] for each in json.loads(body)}

    @contextmanager
    def watched(self) -> Iterator[Seen]:
        """Asks as kube-scheduler and kubelet do until the block ends."""
        seen, over = Seen(), threading.Event()
        asking = [
            threading.Thread(target=self._ask_on, args=(over, 0.03, seen.prioritize, seen.failed, False)),
            threading.Thread(target=self._ask_on, args=(over, 0.2, seen.livez, seen.failed, True)),
        ]
        for thread in asking:
            thread.start()
        try:
            yield seen
        finally:
            over.set()
            for thread in asking:
                thread.join()

    def _ask_on(
        self, over: threading.Event, pause: float, times: list[float], failed: list[str], probing: bool
    ) -> None:
        while not over.wait(pause):
            began = time.perf_counter()
            if probing:
                status, _ = self.ask("GET", "/livez", port=self.health)
            else:
                status, _ = self.ask("POST", "/scheduler/prioritize", GENUINE)
            times.append(1000 * (time.perf_counter() - began))
            if status != 200:
                failed.append(f"{'livez' if probing else 'prioritize'}: {status}")


@contextmanager
def cluster(folder: Path) -> Iterator[Mapping[str, str]]:
    """The environment of a daemon that watches an embedded cluster, which lives in a process of its own."""
    command = [sys.executable, "-m", "ballast", "demo", "--cluster-only", "--nodes", str(NODES), "-o", "json"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(folder / "kubeconfig")], stdout=subprocess.PIPE, text=True, env=_plain()
    )
    assert process.stdout is not None
    try:
        environment: dict[str, str] = json.loads(process.stdout.readline())["environment"]
        yield environment
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextmanager
def victim(folder: Path, environment: Mapping[str, str], **settings: str) -> Iterator[Victim]:
    """A daemon with these settings, ready."""
    port, health = free_port(), free_port()
    given = {
        **_plain(),
        **environment,
        "BALLAST_HTTP__HOST": "127.0.0.1",
        "BALLAST_HTTP__PORT": str(port),
        "BALLAST_HTTP__HEALTH_PORT": str(health),
        "BALLAST_TELEMETRY__INTERVAL": "2s",
        "BALLAST_WINDOWS__LENGTHS": "10s",
        "BALLAST_WINDOWS__MIN_SAMPLES": "1",
        "BALLAST_WINDOWS__MIN_COVERAGE": "0.1",
        **settings,
    }
    command = [sys.executable, "-m", "ballast", "run"]
    process = Process("ballast", command, folder / f"log-{port}", ready=lambda: _answers(port), env=given)
    try:
        yield Victim(process, port, health)
    except BaseException as error:
        error.add_note(process.tail(8))
        raise
    finally:
        process.stop()


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return True


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("BALLAST_")}
