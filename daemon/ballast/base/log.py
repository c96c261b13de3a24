"""Log lines: one sentence each, text on a terminal and JSON elsewhere, those of libraries too."""

import logging
import sys
from typing import Any, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor

_QUIET = ("urllib3", "uvicorn", "kubernetes", "asyncio")
# It warns of each cycle that is skipped; so does Ballast, naming it.
_SILENT = ("apscheduler",)
_UVICORN = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")


def configure(
    level: str = "info",
    format: Literal["text", "json"] | None = None,  # noqa: A002
    stream: TextIO | None = None,
) -> None:
    """Routes structlog and the standard library to `stream` (standard error). May be called again.

    Without a `format` it is text on a terminal and json elsewhere. Libraries are heard from `warning` on, apscheduler
    from `error` on.
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
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
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
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def get(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; its messages are sentences, its keyword arguments the facts beside them."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def _as_json() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(serializer=_json),
    ]


def _as_text(terminal: bool) -> list[Processor]:
    return [
        _one_line,
        structlog.dev.ConsoleRenderer(
            colors=terminal,
            pad_event_to=0,
            timestamp_key="time",
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _one_line(logger: Any, method: str, event: EventDict) -> EventDict:
    event["event"] = " ".join(str(event.get("event", "")).splitlines())
    return event


def _json(event: EventDict, **_: Any) -> str:
    first = {key: event[key] for key in ("time", "level", "logger", "message") if key in event}
    return msgspec.json.encode({**first, **event}, enc_hook=str).decode()
