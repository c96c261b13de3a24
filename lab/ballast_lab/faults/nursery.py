"""Daemons that start quickly: forked from a process that has imported Ballast, which is most of the work of a start.

As a program it is that process: it reads one JSON line for each daemon and answers with its process id.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO


class Child:
    """A forked daemon; `Process` of the control plane's tests, as far as a judge needs it."""

    def __init__(self, pid: int, log: Path) -> None:
        self.log = log
        self._pidfd: int | None = None
        with suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(pid)

    def signal(self, number: signal.Signals) -> None:
        if self._pidfd is not None and not self._ended(0.0):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def stop(self, within: float = 15.0) -> None:
        """SIGTERM, then SIGKILL after `within` seconds. May be called again, also after a SIGKILL."""
        self.signal(signal.SIGTERM)
        if not self._ended(within):
            self.signal(signal.SIGKILL)
            self._ended(60.0)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def tail(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _ended(self, within: float) -> bool:
        return self._pidfd is None or bool(select.select([self._pidfd], [], [], within)[0])


class Nursery:
    """Call `stop` at the end; daemons outlive it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ballast_lab.faults.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def start(self, env: Mapping[str, str], log: Path) -> Child:
        log.touch()
        with self._lock:
            print(json.dumps({"env": dict(env), "log": str(log)}), file=_pipe(self._process.stdin), flush=True)
            return Child(int(_pipe(self._process.stdout).readline()), log)

    def stop(self) -> None:
        _pipe(self._process.stdin).close()
        self._process.wait(30)


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def _serve() -> None:
    import ballast.cli.run
    import ballast.runtime.daemon  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        pid = os.fork()
        if not pid:
            _become_daemon(asked["env"], asked["log"])
        print(pid, flush=True)


def _become_daemon(env: Mapping[str, str], log: str) -> None:
    from ballast.cli.run import run

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    os.environ.clear()
    os.environ.update(env)
    code = 1
    try:
        run()
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
