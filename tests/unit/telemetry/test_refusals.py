"""What servers say in plain text is quoted, bounded and without secrets."""

import json

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
    "body", ["<html><body>Sign in</body></html>", "  <!DOCTYPE html>", '{"odd": "words"}', "", " \n"]
)
def test_pages_and_other_documents_are_not_quoted(body: str, wire: RequestsMock) -> None:
    said = refusal(wire, 500, body, "text/html")
    assert said.startswith(f"{URL} answers 500; look at")


def test_a_missing_path_is_still_recognised(wire: RequestsMock) -> None:
    assert "has no /api/v1/query (404)" in refusal(wire, 404, "404 page not found\n")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"message": "The security token is expired"}, "The security token is expired"),
        ({"Message": "User is not authorized"}, "User is not authorized"),
        ({"error": {"code": 403, "message": "Permission denied by policy"}}, "Permission denied by policy"),
        ([{"error": {"code": 403, "message": "Permission denied by policy"}}], "Permission denied by policy"),
        ({"error": "Forbidden", "message": "Your plan has no queries"}, "Your plan has no queries"),
        ({"error": 'unknown key "a\\b" \u00e9'}, 'unknown key "a\\b" \u00e9'),
        ({"title": "Unauthorized", "detail": "the workspace is locked"}, "the workspace is locked"),
        ({"detail": [{"loc": ["query"], "msg": "field required"}]}, "field required"),
        ({"errors": ["x"], "message": "", "error": "the ring is empty"}, "the ring is empty"),
    ],
)
@pytest.mark.parametrize("status", [400, 403, 404, 429, 500])
def test_what_gateways_say_in_json_is_quoted(status: int, body: object, words: str, wire: RequestsMock) -> None:
    said = refusal(wire, status, json.dumps(body), "application/json")
    assert f"{status}, {words}" in said
    assert "/api/v1/query" not in said
    assert "RESOURCES" not in said


@pytest.mark.parametrize(
    "body", ['{"detail": "Not Found"}', '{"status": 404, "error": "Not Found"}', "{}", "not found"]
)
def test_a_404_that_says_no_more_is_a_wrong_path(body: str, wire: RequestsMock) -> None:
    assert "has no /api/v1/query (404)" in refusal(wire, 404, body, "application/json")


def test_an_agent_is_told_as_such(wire: RequestsMock) -> None:
    body = {"status": "error", "errorType": "execution", "error": "unavailable with Prometheus Agent"}
    said = refusal(wire, 422, json.dumps(body), "application/json")
    assert "agent mode" in said
    assert "BALLAST_PROMETHEUS__URL" in said
    assert "RESOURCES" not in said


_KEY = "hunter2-of-ours"


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"message": f"no access for {_KEY} " * 400_000}),
        json.dumps({"message": f"no access for {_KEY}", "trace": "x" * 10_000_000}),
        "[" * 1_000 + json.dumps({"message": f"no access for {_KEY}"}) + "]" * 1_000,
        '{"error":' * 1_000 + json.dumps({"message": f"no access for {_KEY}"}) + "}" * 1_000,
        '{"message": "no access for ' + "".join(f"\\u{ord(letter):04x}" for letter in _KEY) + '"}',
    ],
)
def test_long_deep_and_echoing_answers_are_bounded_and_masked(body: str, wire: RequestsMock) -> None:
    said = refusal(wire, 403, body, "application/json", headers={"X-Key": _KEY})
    assert "403, no access for ********" in said
    assert "hunter" not in said
    assert len(said) < 700


def test_a_secret_at_the_cut_of_a_long_answer_is_not_shown(wire: RequestsMock) -> None:
    key = "hunter2" * 1_000
    said = refusal(wire, 403, json.dumps({"message": key * 20}), "application/json", headers={"X-Key": key})
    assert "hunter" not in said


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
