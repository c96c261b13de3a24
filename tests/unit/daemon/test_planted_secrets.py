"""A secret in every place that may hold one, with sources that repeat what they are sent: it is found nowhere."""

import base64
import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from ballast.base import log
from ballast.settings import explain
from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.daemons import Rig, get, rig
from tests.worlds.http_server import Answer, Request, serving

pytestmark = pytest.mark.slow

SHOWN = (
    "/",
    "/metrics",
    "/livez?verbose",
    "/readyz?verbose",
    "/watcher",
    "/watcher/health",
    "/api/v1/openapi.json",
    *(f"/api/v1/{name}" for name in ("nodes", "power", "evictions", "plans", "cycles", "config", "nodes/node-000")),
)
PLANTED = re.compile(r"PLANTED\w+")


def repeated(request: Request) -> str:
    """All that was sent, also decoded and as its JSON."""
    sent = {name: value for name, value in request.headers.items() if name not in ("Host", "User-Agent")}
    encoded = sent.get("Authorization", "").removeprefix("Basic ")
    decoded = base64.b64decode(encoded + "==", validate=False).decode("latin-1") if encoded else ""
    return f"{sent} {decoded} {request.path} {dict(request.query)} {json.dumps(sent)}"


def echo(request: Request) -> Answer:
    """Each path refuses in a way of its own."""
    words = repeated(request)
    if "warned" in request.path:
        found = {"status": "success", "data": {"resultType": "vector", "result": []}, "warnings": [words]}
        return Answer(found | {"infos": [words]})
    if "watts" in request.path:
        return Answer({"watts": words, "rows": [{"time": words, "watts": words}], "status": "fine"})
    if "page" in request.path:
        return Answer(words.encode(), 200)
    if "moved" in request.path:
        return Answer(b"", 302, {"Location": f"http://other/{request.headers.get('Authorization', 'x').split()[-1]}"})
    if "plain" in request.path:
        return Answer(words.encode(), 500, {"Content-Type": "text/plain"})
    return Answer({"status": "error", "error": words}, 401)


@pytest.fixture
def told() -> Iterator[io.StringIO]:
    """What is logged, at the finest level."""
    stream = io.StringIO()
    handlers, level = logging.getLogger().handlers[:], logging.getLogger().level
    log.configure("debug", "json", stream)
    yield stream
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)


def policies(folder: Path, url: str) -> list[dict[str, Any]]:
    """One policy for each place of a secret."""
    token, headers = folder / "feed-token", folder / "feed-headers"
    token.write_text("PLANTEDfeedtokenfile\n")
    headers.write_text("X-Api-Key: PLANTEDfeedheader\nX-Auth: Token PLANTEDfeedscheme\n")
    gone = str(folder / "feed-headers")
    host = url.removeprefix("http://")
    feeds = [
        {"url": f"{url}/refused?token=PLANTEDquery&key=PLANTED%2Fescaped"},
        {"url": f"http://user:PLANTEDuserinfo@{host}/refused"},
        {"url": f"http://PLANTEDuseralone@{host}/plain"},
        {"url": f"{url}/watts?key=PLANTEDechoedvalue", "jsonPath": "$.watts"},
        {"url": f"{url}/page?key=PLANTEDechoedpage"},
        {"url": f"{url}/moved", "tokenFile": str(token)},
        {"url": f"{url}/refused", "headersFile": gone},
        {"url": "http://user:PLANTEDunreachable@127.0.0.1:1/watts?token=PLANTEDunreachablequery#PLANTEDfragment"},
        {"url": f"{url}/watts?key=PLANTEDtime", "jsonPath": "$.status", "timePath": "$.watts"},
    ]
    own = {"semantics": "available"}
    found = [
        {
            "name": f"feed-{number}",
            "feed": {**feed, **own},
            "independents": [{"ref": f"p/{number}", "min": 1, "max": 9}],
        }
        for number, feed in enumerate(feeds)
    ]
    found[0]["schedule"] = {"url": f"{url}/watts?token=PLANTEDschedule", "jsonPath": "$.rows", "tokenFile": str(token)}
    found[1]["consumption"] = {"url": f"{url}/plain?token=PLANTEDconsumption"}
    return found


def prometheus(place: str, folder: Path, url: str) -> dict[str, str]:
    """The settings that plant a secret at one place of Prometheus."""
    file = folder / "secret"
    file.write_text("PLANTEDprometheusfile")
    host = url.removeprefix("http://")
    return {
        "token file": {"PROMETHEUS__TOKEN_FILE": str(file), "PROMETHEUS__URL": f"{url}/refused"},
        "password file": {
            "PROMETHEUS__USERNAME": "reader",
            "PROMETHEUS__PASSWORD_FILE": str(file),
            "PROMETHEUS__URL": f"{url}/plain",
        },
        "address": {"PROMETHEUS__URL": f"http://user:PLANTEDpromuserinfo@{host}/warned"},
        "headers": {
            "PROMETHEUS__HEADERS": json.dumps({"X-Key": "PLANTEDpromheader", "Authorization": "Bearer PLANTEDbearer"}),
            "PROMETHEUS__URL": f"{url}/warned",
        },
        "odd header": {
            "PROMETHEUS__HEADERS": json.dumps({"X-Key": " PLANTEDleadingspace"}),
            "PROMETHEUS__URL": f"{url}/refused",
        },
    }[place]


def searched(one: Rig, told: io.StringIO, daemon: Any, environment: dict[str, str]) -> dict[str, list[str]]:
    """What was found, by the place where it was shown."""
    texts = {path: get(daemon, path).text for path in SHOWN}
    texts["log"] = told.getvalue()
    texts["records"] = repr(daemon.board.cycles)
    texts["conditions"] = repr(daemon.context.conditions.list())
    texts["settings"] = json.dumps(explain(environment))
    for kind in ("ConfigMap", "Event", "Lease", "Node"):
        texts[kind] = json.dumps([each.read() for each in one.cluster.store.all(BY_NAME[kind])])
    found = {
        place: PLANTED.findall(text) + ([one.cluster.token] if one.cluster.token in text else [])
        for place, text in texts.items()
    }
    return {place: sorted(set(secrets)) for place, secrets in found.items() if secrets}


@pytest.mark.parametrize("place", ["token file", "password file", "address", "headers", "odd header"])
def test_no_planted_secret_is_shown_anywhere(place: str, tmp_path: Path, told: io.StringIO) -> None:
    with serving(echo) as server, rig(tmp_path) as one:
        overrides = {
            **prometheus(place, tmp_path, server.url),
            "EXTENDER__TOKEN_FILE": str(tmp_path / "extender-token"),
            "POWER__MODE": "on",
            "POWER__POLICIES": json.dumps(policies(tmp_path, server.url)),
        }
        (tmp_path / "extender-token").write_text("PLANTEDextender")
        daemon = one.daemon(**overrides)
        for body in (b"{}", b"{", b"[" * 9000, b'{"Pod": {"metadata": {"name": "x"}}, "NodeNames": ["a"]}'):
            for path in ("prioritize", "filter", "prioritize?profile=nonsense"):
                address = f"{daemon.url}scheduler/PLANTEDextender/{path}"
                answer = requests.post(address, body, headers={"content-type": "application/json"}, timeout=HUNG)
                assert not PLANTED.search(answer.text)
        daemon.board.config = explain(one.environment(**overrides))
        for _ in range(3):
            one.advance()
            one.watch(daemon)
            daemon.scheduler.run("power")
            daemon.scheduler.run("publishing")
        (tmp_path / "feed-token").write_bytes(b"PLANTEDbroken\nPLANTEDbroken2")
        one.advance()
        daemon.scheduler.run("power")
        assert "feed" in told.getvalue()
        assert searched(one, told, daemon, one.environment(**overrides)) == {}
        sent = " ".join(repeated(request) for request in server.requests)
    assert len(set(PLANTED.findall(sent))) >= 8, "the secrets were sent"
    assert "Traceback" not in told.getvalue()
