"""A process beside the daemon for what takes long: it has no credentials, little priority, and limits."""

import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import msgspec
import structlog

from ballast.base.errors import WorkerError
from ballast.planning.moment import Moment
from ballast.planning.request import FailureResponse, R, Request, decode, send

DEADLINE = 60.0
"""CPU seconds after which a request is given up and the process killed, at most."""

LEAST_DEADLINE = 20.0
"""CPU seconds that a request has at least."""

STARVED_AFTER = 20.0
"""Seconds that a request with little priority may take."""

LOOK_AFTER = 5.0
"""Seconds after which a request with little priority is starved that had less than `FAIR` of a processor."""

FAIR = 0.2

PATIENCE = 5.0
"""Deadlines that a request with ordinary priority may last: its CPU seconds end it, unless it waits for something."""

ORDINARY_FOR = 20
"""Requests that have ordinary priority after one that the machine left no time for. A process cannot raise its own."""

MEMORY = 256 * 2**20
"""Bytes that the process may have for itself: Python, numpy and the code."""

MEMORY_PER_POD = 3072
"""Bytes that it may have more for each pod."""

MEMORY_PER_NODE = 16 * 1024
"""Bytes that it may have more for each node."""

PAUSE = 0.0005
"""Seconds between two pieces of a request, in which other threads of the daemon have their turn."""

COMMAND = (sys.executable, "-m", "ballast.planning.start")
ORDINARY = "ordinary"
"""Argument of COMMAND: with the priority of the daemon."""
_log = structlog.get_logger("planning")
_never = threading.Event()
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")
_GOOD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


class _StarvedError(WorkerError):
    """The machine left a process of little priority no time."""


class PlanningProcess:
    """Started when it is first needed, and again after it ended. Threads have their turn one after the other."""

    def __init__(self, command: Sequence[str] | None = None, *, deadline: float = DEADLINE) -> None:
        """`command`: COMMAND by default; `deadline`: CPU seconds of a request after which the process is killed.

        With little priority a busy machine may leave it none of them: what has not ended after STARVED_AFTER seconds of
        the machine, or had no fair part of LOOK_AFTER, is asked again of a process of ordinary priority, and so are the
        next ORDINARY_FOR requests.
        """
        self._command = tuple(command or COMMAND)
        self._deadline = deadline
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._ordinary = 0

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    def ask(self, request: Request[R]) -> R:
        """Raises WorkerError when the process cannot be started, ends, or takes too long."""
        with self._turn:
            try:
                return self._ask(request)
            except _StarvedError as starved:
                _log.warning(str(starved))
                return self._ask(request)

    def _ask(self, request: Request[R]) -> R:
        process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()
        wall = PATIENCE * self._deadline if self._ordinary else min(self._deadline, STARVED_AFTER)
        timers = [threading.Timer(wall, _kill, [process, late])]
        if not self._ordinary and wall > LOOK_AFTER:
            timers.append(threading.Timer(LOOK_AFTER, _kill_starved, [process, late, _cpu_seconds(process.pid)]))
        for timer in timers:
            timer.daemon = True
            timer.start()
        try:
            return _exchange(process.stdin, process.stdout, request, self._deadline)
        except (OSError, EOFError, ValueError, msgspec.DecodeError) as error:
            raise self._ending(process, late.is_set(), error) from error
        except WorkerError:
            self._end(process)
            raise
        finally:
            for timer in timers:
                timer.cancel()
            if self._ordinary:
                self._ordinary -= 1
                if not self._ordinary:  # The next one has little priority again.
                    self._end(process)

    def prepare(self) -> None:
        """Starts it, if it does not run, before there is something to ask. Raises WorkerError."""
        self._start()

    def stop(self) -> None:
        """Ends it at once, also in the middle of a request."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None:
            self._end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        """In a group of its own, out of reach of a terminal's signals, but not in a session of its own: with
        `sched_autogroup` Linux shares the processor out among sessions, and a nice value counts within one alone.
        """
        process = self._process
        if process is not None and process.poll() is not None:
            self._end(process)
        with self._lock:
            if self._stopped:
                raise WorkerError("Ballast is stopping")
            if self._process is None:
                try:
                    self._process = subprocess.Popen(  # noqa: S603
                        (*self._command, ORDINARY) if self._ordinary else self._command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        env=_environment(),
                        cwd="/",
                        process_group=0,
                    )
                except OSError as error:
                    raise WorkerError(f"no process for planning can be started: {error}") from error
            return self._process

    def _ending(self, process: subprocess.Popen[bytes], late: bool, error: Exception) -> WorkerError:
        code, starved = self._end(process), not self._ordinary
        if self._stopped:
            return WorkerError("Ballast is stopping")
        if late:
            self._ordinary = ORDINARY_FOR + 1
            if starved:
                return _StarvedError("the machine left planning no time; it is done again with ordinary priority")
            return WorkerError(f"planning took longer than {PATIENCE * self._deadline:.0f} s and was ended")
        if code == -signal.SIGPROF:
            return WorkerError(f"planning took longer than {self._deadline:.0f} CPU seconds and was ended")
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return WorkerError(
            f"the process that plans ended {how} ({type(error).__name__}); the next cycle starts a new one"
        )

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        """Its exit code."""
        process.kill()
        code = process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        with self._lock:
            if self._process is process:
                self._process = None
        return code


def deadline_of(interval: float) -> float:
    """CPU seconds that a plan may take which is made every `interval` seconds: two intervals, within both bounds."""
    return min(DEADLINE, max(LEAST_DEADLINE, 2 * interval))


def allowance(moment: Moment) -> int:
    """Bytes of memory that the process may have for a request about this moment."""
    bodies = sum(map(len, moment.usage.bodies.values())) if moment.usage else 0
    return MEMORY + MEMORY_PER_POD * len(moment.objects.pods) + MEMORY_PER_NODE * len(moment.objects.nodes) + 8 * bodies


def _exchange(stdin: IO[bytes], stdout: IO[bytes], request: Request[R], seconds: float) -> R:
    try:
        stdin.write(pickle.dumps((allowance(request.moment), seconds)))
        send(request, stdin.write, lambda: _never.wait(PAUSE))
        stdin.flush()
    except BrokenPipeError:
        pass  # it says why, if it can
    size = stdout.read(8)
    if len(size) < 8:
        raise EOFError
    response = decode(stdout.read(int.from_bytes(size, "big")))
    if isinstance(response, FailureResponse):
        raise WorkerError(f"the plan could not be made: {response.problem}")
    return cast(R, response)


def _kill(process: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    process.kill()


def _kill_starved(process: subprocess.Popen[bytes], late: threading.Event, before: float) -> None:
    if _cpu_seconds(process.pid) - before < FAIR * LOOK_AFTER:
        _kill(process, late)


def _cpu_seconds(pid: int) -> float:
    """Of a process; always fair where nothing tells it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # proc(5): utime, stime


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _KEPT if name in os.environ} | _GOOD
