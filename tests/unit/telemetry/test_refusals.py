"""What servers say in plain text is quoted, bounded and without secrets."""

import pytest
from responses import RequestsMock

from ballast.base.errors import BallastError
from ballast.telemetry.failed_answers import NotAllowed, TenantMissing
from tests.unit.telemetry.fake_prometheus import URL, settings, source

AT = 1_700_000_000.0


def refusal(wire: RequestsMock, status: int, body: str, kind: str = "text/plain", **prometheus: object) -> str:
    wire.add("POST", f"{URL}/api/v1/query", body=body, status=status, content_type=kind)
    watcher = source(settings(prometheus=prometheus))
    with pytest.raises(BallastError) as raised:
        watcher.probe(AT)
    return str(raised.value)


def test_a_missing_tenant_is_told_from_wrong_credentials(wire: RequestsMock) -> None:
    for body, refusal in (("no org id\n", TenantMissing), ("who are you", NotAllowed)):
        wire.reset()
        wire.add("POST", f"{URL}/api/v1/query", body=body, status=401, content_type="text/plain")
        with pytest.raises(NotAllowed) as raised:
            source(settings()).probe(AT)
        assert type(raised.value) is refusal


@pytest.mark.parametrize(
    ("status", "body", "setting"),
    [
        (401, "no org id\n", "BALLAST_PROMETHEUS__HEADERS"),
        (400, "Client sent an HTTP request to an HTTPS server.\n", "BALLAST_PROMETHEUS__URL"),
        (403, "RBAC: access denied", "BALLAST_PROMETHEUS__TOKEN_FILE"),
        (500, "the ring has no healthy instances", "BALLAST_PROMETHEUS__URL"),
        (422, "the query exceeded the maximum number of series", "BALLAST_PROMETHEUS__MATCHERS"),
    ],
)
def test_plain_words_are_quoted_beside_the_setting(status: int, body: str, setting: str, wire: RequestsMock) -> None:
    said = refusal(wire, status, body)
    assert f"{status}, {body.strip()}" in said
    assert setting in said


def test_they_are_one_short_line(wire: RequestsMock) -> None:
    said = refusal(wire, 500, "first\n\tsecond \x1b[31m" + "x" * 5_000)
    assert "first second [31mxx" in said
    assert len(said) < 400
    assert "…" in said


@pytest.mark.parametrize(
    "body", ["<html><body>Sign in</body></html>", "  <!DOCTYPE html>", '{"message": "odd"}', "", " \n"]
)
def test_pages_and_other_documents_are_not_quoted(body: str, wire: RequestsMock) -> None:
    said = refusal(wire, 500, body, "text/html")
    assert said.startswith(f"{URL} answers 500; look at")


def test_a_missing_path_is_still_recognised(wire: RequestsMock) -> None:
    assert "has no /api/v1/query (404)" in refusal(wire, 404, "404 page not found\n")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("bad header Authorization: Bearer abc.def.ghi", "Authorization: Bearer ********"),
        ("denied for token=s3cr3t-value, try again", "token=********, try again"),
        ("upstream http://user:hunter2@inner:9090/ failed", "http://********@inner:9090/ failed"),
        ("the key is hunter2-of-ours here", "the key is ******** here"),
    ],
)
def test_secrets_do_not_come_back(body: str, shown: str, wire: RequestsMock) -> None:
    said = refusal(wire, 500, body, headers={"X-Key": "hunter2-of-ours"})
    assert shown in said
    assert "hunter2" not in said
    assert "s3cr3t" not in said
    assert "abc.def" not in said
