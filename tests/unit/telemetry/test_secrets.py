"""No secret of a source comes back in what is said of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

import pytest

from ballast.errors import BallastError
from ballast.telemetry.credentials import basic
from ballast.telemetry.http import HttpAccess, HttpSession
from ballast.telemetry.secrets import removed
from tests.unit.cluster.server import Answer, Request, serving

SECRET = 'S3cr3t/"+token=='


def echo(status: int) -> Callable[[Request], Answer]:
    """Says what it was sent, in all the forms servers do."""

    def answer(request: Request) -> Answer:
        sent = {name: value for name, value in request.headers.items() if name in ("Authorization", "X-Key")}
        decoded = base64.b64decode(sent.get("Authorization", "").removeprefix("Basic ") + "==", validate=False)
        words = f"{sent} {dict(request.query)} {request.path} {decoded.decode('latin-1')}"
        return Answer(json.dumps({"status": "error", "error": words}).encode(), status)

    return answer


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 500, 503])
@pytest.mark.parametrize(
    ("query", "access"),
    [
        ("?token=QUERYSECRETTOK", HttpAccess()),
        ("", HttpAccess(credentials=lambda: f"Bearer {SECRET}")),
        ("", HttpAccess(credentials=lambda: basic("user", SECRET))),
        ("", HttpAccess(headers={"X-Key": SECRET})),
    ],
)
def test_a_refusal_that_repeats_a_secret_is_masked(status: int, query: str, access: HttpAccess) -> None:
    with serving(echo(status)) as server:
        url = server.url + "/watts" + query
        session = HttpSession(url, part="BALLAST_POWER__", timeout=10, access=access)
        try:
            said = session.get(url).decode()
        except BallastError as error:
            said = str(error)
        session.close()
    assert "QUERYSECRETTOK" not in said
    assert SECRET not in said
    assert "S3cr3t" not in said


def test_an_unreachable_address_is_named_without_its_query() -> None:
    url = "http://user:PASSWORDTOK@127.0.0.1:1/watts?token=QUERYSECRETTOK#FRAGMENTTOK"
    with pytest.raises(BallastError, match=r"http://127\.0\.0\.1:1/watts cannot be reached") as refused:
        HttpSession(url, part="BALLAST_POWER__", timeout=2).get(url)
    assert "TOK" not in str(refused.value)


def test_short_secrets_do_not_spoil_every_word() -> None:
    assert removed(b"a b c", ["a", ""]) == b"a b c"


def test_an_answer_is_left_as_it_is() -> None:
    body = b'{"status":"success","data":{"node":"production-1"}}'
    with serving(lambda request: Answer(body)) as server:
        session = HttpSession(server.url, part="P__", timeout=10, access=HttpAccess(headers={"X-Org": "production"}))
        assert session.get(server.url) == body
        session.close()
