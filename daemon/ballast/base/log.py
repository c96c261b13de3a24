"""Log lines: one sentence each, text on a terminal and JSON elsewhere, those of libraries too."""

import logging
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

from ballast.base.text import LONGEST, printable, printable_document, printable_lines

_QUIET = ("urllib3", "kubernetes", "asyncio")
# apscheduler warns of each cycle that is skipped, uvicorn of each request that is no HTTP; Ballast counts both.
_SILENT = ("apscheduler", "uvicorn")
MOST_LINES = 1000
"""Lines that wait to be written; each has few facts of at most 2,048 characters."""

PATIENCE = 1.0

_UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


def configure(
    level: str = "info",
    format: Literal["text", "json"] | None = None,  # noqa: A002
    stream: TextIO | None = None,
    *,
    dropped: Callable[[], object] | None = None,
) -> None:
    """Routes structlog and the standard library to `stream` (standard error). May be called again.

    With `dropped` a thread writes, so that no thread that logs waits for whoever reads the stream; `dropped` is called
    for each line that is left out meanwhile.

    Without a `format` it is text on a terminal and json elsewhere. Libraries are heard from `warning` on, apscheduler
    and uvicorn from `error` on.
    """
    stream = sys.stderr if stream is None else stream
    terminal = stream.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    as_json = format == "json" or (format is None and not terminal)
    handler = logging.StreamHandler(stream) if dropped is None else QueuedHandler(stream, dropped)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _printable,
                *(_as_json() if as_json else _as_text(terminal)),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for name in _SILENT:
        logging.getLogger(name).setLevel(max(logging.ERROR, root.level))
    for name in _UVICORN:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.captureWarnings(True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


class QueuedHandler(logging.Handler):
    """Writes lines from a thread of its own; drops those that find `MOST_LINES` waiting, and says later how many."""

    def __init__(self, stream: TextIO, dropped: Callable[[], object]) -> None:
        super().__init__()
        self._stream = stream
        self._on_dropped = dropped
        self._dropped = 0
        self._lines: queue.Queue[str | threading.Event] = queue.Queue(MOST_LINES)
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues a line. Called by `logging` with the handler's lock held."""
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        try:
            if self._dropped:
                said = f"{self._dropped} lines of the log were dropped here, because nobody took them"
                self._lines.put_nowait(
                    self.format(logging.LogRecord("ballast", logging.WARNING, "", 0, said, (), None))
                )
                self._dropped = 0
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += 1
            self._on_dropped()

    def drain(self, patience: float) -> None:
        """Waits until what was logged so far is written, for at most `patience` seconds."""
        written = threading.Event()
        with suppress(queue.Full):
            self._lines.put(written, timeout=patience)
            written.wait(patience)

    def close(self) -> None:
        """Writes what waits, for at most `PATIENCE` seconds. `logging` calls it at exit."""
        self.drain(PATIENCE)
        super().close()

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            try:
                self._stream.write(f"{line}\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._on_dropped()


def get(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; its messages are sentences, its keyword arguments the facts beside them."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _as_json() -> list[Processor]:
    return [structlog.processors.EventRenamer("message"), structlog.processors.JSONRenderer(serializer=_json)]


def _as_text(terminal: bool) -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors=terminal, pad_event_to=0, timestamp_key="time", exception_formatter=structlog.dev.plain_traceback
        )
    ]


def _printable(logger: Any, method: str, event: EventDict) -> EventDict:
    """Whatever others said comes to the log by way of this. A traceback keeps its lines, indented."""
    return {
        key: f"  {printable_lines(value, '  ')}" if key == "exception" else _bounded(value)
        for key, value in event.items()
    }


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple | dict) and len(str(value)) <= LONGEST:
        return printable_document(list(value) if isinstance(value, tuple) else value)
    return printable(value)


def _json(event: EventDict, **_: Any) -> str:
    first = {key: event[key] for key in ("time", "level", "logger", "message") if key in event}
    return msgspec.json.encode({**first, **event}, enc_hook=str).decode()
