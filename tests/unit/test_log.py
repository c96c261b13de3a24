import io
import itertools
import json
import logging
import threading
from typing import Any

import pytest

from ballast.base import log
from ballast_lab.harness.waiting import HUNG
from tests.worlds.logs import log_restored

__all__ = ["log_restored"]

pytestmark = pytest.mark.usefixtures("log_restored")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_elsewhere_than_on_a_terminal_a_line_is_json() -> None:
    stream = io.StringIO()
    log.configure(stream=stream)
    log.get("ballast.cycle").info("published 3 of 5 nodes", job="publishing")
    (line,) = map(json.loads, lines(stream))
    assert line["message"] == "published 3 of 5 nodes"
    assert (line["level"], line["logger"], line["job"]) == ("info", "ballast.cycle", "publishing")
    assert line["time"].endswith("Z")


@pytest.mark.parametrize("library", ["kubernetes.client", "urllib3.connectionpool"])
def test_lines_of_libraries_have_the_same_form(library: str) -> None:
    stream = io.StringIO()
    log.configure(format="json", stream=stream)
    logging.getLogger(library).warning("skipped %s", "once")
    logging.getLogger(library).info("chatter")
    (line,) = map(json.loads, lines(stream))
    assert (line["logger"], line["message"]) == (library, "skipped once")


class Stuck(io.StringIO):
    """Nobody reads it until `taken` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = threading.Event()

    def write(self, text: str) -> int:
        assert self.taken.wait(HUNG)
        return super().write(text)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "text"])
def test_a_reader_that_stands_still_holds_nobody_up(form: Any) -> None:
    stream, dropped = Stuck(), itertools.count()
    log.configure(format=form, stream=stream, dropped=lambda: next(dropped))
    logger = log.get("ballast")
    for number in range(3 * log.MOST_LINES):
        logger.warning(f"line {number} of many")
    lost = next(dropped)
    assert 2 * log.MOST_LINES - 2 <= lost <= 2 * log.MOST_LINES
    stream.taken.set()
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, log.QueuedHandler)
    handler.drain(60)
    logger.warning("the last one")
    handler.drain(60)
    written = lines(stream)
    assert len(written) == 3 * log.MOST_LINES - lost + 2
    assert f"{lost} lines of the log were dropped here" in written[-2]
    if form == "json":
        assert [json.loads(line)["message"] for line in written[-1:]] == ["the last one"]
    handler.close()


def test_apscheduler_and_uvicorn_are_heard_of_errors_alone() -> None:
    stream = io.StringIO()
    log.configure(format="json", stream=stream)
    for logger in ("apscheduler.scheduler", "uvicorn.error"):
        logging.getLogger(logger).warning("Execution of job skipped")
        logging.getLogger(logger).error("broken")
    assert [json.loads(line)["message"] for line in lines(stream)] == ["broken", "broken"]


def test_an_error_keeps_to_its_line() -> None:
    stream = io.StringIO()
    log.configure(format="json", stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        log.get("ballast").exception("the cycle failed")
    (line,) = map(json.loads, lines(stream))
    assert "ValueError: broken" in line["exception"]


def test_text_is_one_plain_line_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    log.configure(format="text", stream=stream)
    log.get("ballast").info("two\nlines", nodes=3)
    (line,) = lines(stream)
    assert "two lines" in line
    assert "nodes=3" in line
    assert "\x1b" not in line


def test_a_terminal_gets_text() -> None:
    stream = Terminal()
    log.configure(stream=stream)
    log.get("ballast").info("hello")
    (line,) = lines(stream)
    assert "hello" in line
    assert not line.startswith("{")


def test_the_level_holds_for_all() -> None:
    stream = io.StringIO()
    log.configure("error", stream=stream)
    log.get("ballast").warning("no")
    logging.getLogger("urllib3").warning("no")
    log.get("ballast").error("yes")
    assert len(lines(stream)) == 1
