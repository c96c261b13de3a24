"""Text from outside is at most 2,048 printable characters wherever it is shown."""

import io
import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ballast.base import log
from ballast.base.errors import ClusterError, NotFound, TelemetryError
from ballast.base.metrics import Metrics
from ballast.base.text import LONGEST, printable, printable_document
from ballast.cluster.conditions import Conditions
from ballast.doctor.finding import Finding
from ballast.runtime.scheduler import JobScheduler
from ballast.serving.board import CycleRecord
from ballast.serving.cached_document import printable_json
from ballast.telemetry import responses
from tests.properties import examples
from tests.worlds.clock import FakeClock
from tests.worlds.logs import log_restored

__all__ = ["log_restored"]

pytestmark = pytest.mark.usefixtures("log_restored")

HOSTILE = "\x1b]8;;http://evil\x07click\x1b]8;;\x07\nFAKE LINE\r\x1b[2J\u202e\u2066\x9b31m\x00\u2028"
TEXTS = st.one_of(
    st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(HOSTILE)), max_size=60),
    st.integers(1, 60).map(lambda times: HOSTILE * times),
    st.just("A" * 3_000),
)


def fits(text: object) -> bool:
    return isinstance(text, str) and text.isprintable() and len(text) <= LONGEST


def texts(document: Any) -> list[str]:
    if isinstance(document, dict):
        return [text for item in document.items() for part in item for text in texts(part)]
    if isinstance(document, list):
        return [text for item in document for text in texts(item)]
    return [document] if isinstance(document, str) else []


@given(TEXTS)
@example(HOSTILE)
@example("\ud800")
@examples()
def test_a_printable_line_keeps_every_character_that_can_be_printed(text: str) -> None:
    line = printable(text)
    assert fits(line)
    if len(text) <= LONGEST:
        kept = "".join(character for character in text if character.isprintable() and character != " ")
        assert line.replace(" ", "") == kept
    assert printable(line) == line


@given(TEXTS)
@example(HOSTILE)
@examples()
def test_errors_that_quote_others(text: str) -> None:
    for error in (ClusterError(text), NotFound(text), TelemetryError(text)):
        assert fits(str(error))


@given(TEXTS)
@example(HOSTILE)
@examples()
def test_an_error_of_prometheus(text: str) -> None:
    with pytest.raises(TelemetryError) as raised:
        responses.instant(msgspec.json.encode({"status": "error", "error": text}), ["instance"], "http://p")
    assert fits(str(raised.value))
    assert len(str(raised.value)) < 400


@given(TEXTS, st.sampled_from(["json", "text"]))
@example(HOSTILE, "json")
@example(HOSTILE, "text")
@examples()
def test_both_formats_of_the_log(text: str, form: Any) -> None:
    stream = io.StringIO()
    log.configure(format=form, stream=stream)
    logger = log.get("ballast")
    logger.warning(text, problem=text, nodes=[text], count=3)
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("unexpected")
    lines = stream.getvalue().split("\n")
    assert all(line.isprintable() for line in lines)
    if form == "json":
        first, second = map(json.loads, lines[:-1])
        assert fits(first["message"])
        assert fits(first["problem"])
        assert first["count"] == 3
        assert all(fits(item) for item in texts(first))
        assert all(fits(line) for line in second["exception"].split("\n"))
    else:
        assert not re.search(r"(?m)^FAKE", stream.getvalue())


@given(TEXTS)
@example(HOSTILE)
@examples()
def test_conditions_findings_and_cycles(text: str) -> None:
    clock, metrics = FakeClock(), Metrics()
    conditions = Conditions(clock, metrics)
    conditions.set("Contended", "Foreign", text)
    conditions.set("Contended", "Foreign", text, source="other")
    cycles: list[CycleRecord] = []
    jobs = JobScheduler(clock, metrics, cycles.append)

    def fail() -> str:
        raise ValueError(text)

    for name, job in (("ends", lambda: text), ("fails", fail)):
        jobs.every(name, 30.0, job)
        jobs.run(name)
    finding = Finding("series", "warn", text, text, (text,))
    shown = [finding.subject, finding.message, *finding.fix[0].split("\n")]
    for line in (conditions.list()[0].message, *(cycle.sentence for cycle in cycles), *shown):
        assert fits(line)


@given(st.recursive(TEXTS | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
@examples()
def test_documents_of_the_api_and_those_that_the_command_line_reads(document: Any) -> None:
    for shown in (printable_document(document), msgspec.json.decode(printable_json(msgspec.json.encode(document)))):
        assert all(fits(text) for text in texts(shown))


def test_a_document_that_is_fit_keeps_its_bytes() -> None:
    body = msgspec.json.encode({"nodes": ["node-1", "größer ≥ 3 …"], "score": [1.5] * 3})
    assert printable_json(body) is body
