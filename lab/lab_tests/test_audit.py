"""The audit log is read from a position that may lie inside a line, since the API server writes meanwhile."""

import json
from pathlib import Path

from ballast_lab.harness.audit import Audit


def line(name: str) -> bytes:
    event = {"requestReceivedTimestamp": "", "user": {"username": "u"}, "verb": "get", "requestURI": f"/{name}"}
    return json.dumps(event).encode() + b"\n"


def test_a_line_that_had_begun_is_not_read_and_the_next_ones_are(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.log")
    begun, rest = line("one")[:20], line("one")[20:]
    audit.path.write_bytes(begun)
    inside = audit.here()
    audit.path.write_bytes(begun + rest)
    between = audit.here()
    audit.path.write_bytes(begun + rest + line("two") + line("three")[:-1])
    assert [call.uri for call in audit.calls()] == ["/one", "/two"]
    assert [call.uri for call in audit.calls(since=inside)] == ["/two"]
    assert [call.uri for call in audit.calls(since=between)] == ["/two"]
