"""One child process: its log in a file, its readiness polled, its port free again after the stop."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ballast_lab.harness.waiting import HUNG, eventually

_PORTS = itertools.cycle(range(12_000 + os.getpid() % 100 * 200, 12_200 + os.getpid() % 100 * 200))
"""200 ports for each process of the tests, below those that the kernel gives to connections (from 32,768). So nobody
takes a port between its choice and its use, or while its owner is stopped."""


def free_port() -> int:
    """The next of this process that nobody listens at."""
    return next(port for port in _PORTS if _is_free(port))


class Process:
    """Starts at construction. `ready` is polled; one that ends early fails with the tail of its log."""

    def __init__(
        self,
        name: str,
        command: Sequence[object],
        log: Path,
        *,
        ready: Callable[[], object] = lambda: True,
        port: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._port = port
        self._command = [str(part) for part in command]
        self._env = None if env is None else dict(env)
        self._ready = ready
        self.start()

    def start(self) -> None:
        """Called by the constructor; again after a `stop` or `kill`, with the same command."""
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._env,
                start_new_session=True,
            )
        try:
            eventually(f"{self.name} is ready", lambda: self._ended() or self._ready())
            if self._ended():
                raise AssertionError(f"{self.name} ended with {self.code} before it was ready")
        except BaseException as error:
            error.add_note(self.tail())
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._child.poll()

    def _ended(self) -> bool:
        return self.code is not None

    def tail(self, lines: int = 40) -> str:
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- last lines of {self.name} ({self.log})", *text[-lines:]])

    def signal(self, number: signal.Signals) -> None:
        if not self._ended():
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL: it gets no chance to say goodbye."""
        self.signal(signal.SIGKILL)
        self._child.wait(HUNG)
        self._wait_for_port()

    def stop(self, within: float = 15.0) -> int:
        """SIGTERM, then SIGKILL after `within` seconds; returns the exit code. May be called again."""
        self.signal(signal.SIGTERM)
        try:
            self._child.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
        self._wait_for_port()
        assert self.code is not None
        return self.code

    def _wait_for_port(self) -> None:
        if self._port is not None:
            eventually(f"port {self._port} of {self.name} is free", lambda: _is_free(self._port or 0))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
