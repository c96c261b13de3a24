import base64
import gzip
import json
import ssl
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
import yaml

from ballast.base.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    SettingsError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.listing import list_all
from ballast.cluster.objects.decoding import Reader
from ballast_lab.harness.waiting import HUNG
from tests.worlds.http_server import Answer, Request, api_for, configuration, serving, status


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / "kubeconfig"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def connected(path: Path | None, metrics: Metrics | None = None) -> KubeApi:
    return connect(SimpleNamespace(kubeconfig=path, context=None), metrics or Metrics())


def test_requests_carry_body_query_and_type() -> None:
    with serving(lambda request: Answer({"ok": True})) as server:
        body = api_for(server).request(
            "PATCH", "/api/v1/nodes/n", query={"a": "b c"}, body={"x": 1}, content_type="application/merge-patch+json"
        )
        (request,) = server.requests
    assert json.loads(body) == {"ok": True}
    assert (request.method, request.path, request.query) == ("PATCH", "/api/v1/nodes/n", {"a": "b c"})
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert request.json == {"x": 1}


def test_a_compressed_answer_is_read() -> None:
    body = gzip.compress(b'{"items":[]}')
    with serving(lambda request: Answer(body, headers={"Content-Encoding": "gzip"})) as server:
        assert api_for(server).get("/api/v1/nodes") == b'{"items":[]}'
        assert "gzip" in server.requests[0].headers["Accept-Encoding"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(401, Unauthorized), (404, NotFound), (409, Conflict), (410, Gone), (422, ClusterError), (500, ClusterError)],
)
def test_refusals_have_their_exception(code: int, kind: type[ClusterError]) -> None:
    with (
        serving(lambda request: status(code, "Why", "the words of the server")) as server,
        pytest.raises(kind, match="the words of the server") as caught,
    ):
        api_for(server).get("/api/v1/nodes/n")
    assert caught.value.status == code
    assert caught.value.reason == "Why"


@pytest.mark.parametrize(
    ("method", "path", "query", "parts"),
    [
        ("GET", "/api/v1/nodes", {}, ["`list` on `nodes` (the core API group) cluster-wide", 'verbs: ["list"]']),
        ("GET", "/api/v1/pods", {"watch": "true"}, ["`watch` on `pods`"]),
        ("GET", "/api/v1/namespaces/a/pods/p", {}, ["`get` on `pods`", "in namespace `a`", "a Role of namespace `a`"]),
        ("GET", "/api/v1/namespaces/a", {}, ["`get` on `namespaces`", "cluster-wide"]),
        ("PATCH", "/api/v1/nodes/n", {}, ["`patch` on `nodes`"]),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
            {},
            ["`update` on `leases` (API group `coordination.k8s.io`)", 'apiGroups: ["coordination.k8s.io"]'],
        ),
        ("POST", "/api/v1/namespaces/a/pods/p/eviction", {}, ["`create` on `pods/eviction`"]),
        ("GET", "/version", {}, ["`get` on the URL `/version`"]),
    ],
)
def test_forbidden_names_the_missing_rule(method: str, path: str, query: dict[str, str], parts: list[str]) -> None:
    with (
        serving(lambda request: status(403, "Forbidden", 'User "x" cannot', kind="pods")) as server,
        pytest.raises(Forbidden) as caught,
    ):
        api_for(server).request(method, path, query=query, body={} if method != "GET" else None)
    for part in [*parts, 'User "x" cannot']:
        assert part in str(caught.value)


def _refused(code: int, details: dict[str, object], request: object) -> Answer:
    return status(code, "", "no", **details)


@pytest.mark.parametrize("code", [403, 429])
def test_what_a_webhook_refuses_is_told_from_what_the_api_server_refuses(code: int) -> None:
    path = "/api/v1/namespaces/a/pods/p/eviction"
    with serving(lambda request: status(code, "", "evacuation begins")) as server:
        with pytest.raises(ClusterError) as caught:
            api_for(server).request("POST", path, body={})
        assert caught.value.admission
        assert "add {apiGroups" not in str(caught.value)
        for more in ({"retryAfterSeconds": 3}, {"causes": [{"reason": "DisruptionBudget"}]}):
            details: dict[str, object] = {"kind": "pods", **more}
            server.answer = partial(_refused, code, details)
            with pytest.raises(ClusterError) as caught:
                api_for(server).request("POST", path, body={})
            assert not caught.value.admission


def test_too_many_requests_carries_how_long_and_why() -> None:
    busy = status(429, "TooManyRequests", "slow down", retryAfterSeconds=3)
    budget = status(429, "TooManyRequests", "no", causes=[{"reason": "DisruptionBudget"}])
    header = Answer(b"Too many requests", 429, {"Retry-After": "7"})
    answers = iter([busy, budget, header])
    with serving(lambda request: next(answers)) as server:
        found = []
        for _ in range(3):
            with pytest.raises(TooManyRequests) as caught:
                api_for(server).get("/api/v1/nodes")
            found.append((caught.value.retry_after, caught.value.causes))
    assert found == [(3.0, ()), (None, ("DisruptionBudget",)), (7.0, ())]


def test_a_proxys_page_is_quoted() -> None:
    with (
        serving(lambda request: Answer(b"<html>\n <title>Bad Gateway</title>", 502)) as server,
        pytest.raises(ClusterError, match="Bad Gateway"),
    ):
        api_for(server).get("/api/v1/nodes")


def test_an_unreachable_server_is_named_with_the_setting() -> None:
    with serving(lambda request: Answer()) as server:
        url = server.url
    metrics = Metrics()
    with pytest.raises(Unreachable, match=r"http://127.0.0.1:\d+.*BALLAST_CLUSTER__KUBECONFIG"):
        KubeApi(lambda: configuration(url), metrics).get("/api/v1/nodes")
    assert metrics.registry.get_sample_value("ballast_reads_total", {"verb": "list", "result": "unreachable"}) == 1


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 422, 429, 500])
@pytest.mark.parametrize("watch", [False, True])
def test_a_refusal_that_repeats_the_token_is_masked(status: int, watch: bool) -> None:
    def echo(request: Request) -> Answer:
        said = f"no {request.headers['Authorization']} of /"
        return Answer({"kind": "Status", "message": said} if status != 200 else said.encode(), status)

    with serving(echo) as server:
        api = api_for(server, api_key={"authorization": "Bearer PLANTED"}, api_key_prefix={})
        ask: Callable[[], object] = partial(api.get, "/api/v1/nodes")
        if watch:
            ask = partial(api.stream, "/api/v1/nodes", {"watch": "true"})
        if status == 200:
            ask = partial(list_all, api, "/api/v1/nodes", Reader("nodes", bytes), {}, threading.Event())
        with pytest.raises(ClusterError) as refused:
            ask()
    assert "PLANTED" not in str(refused.value)
    assert "***" in str(refused.value)


def test_the_user_in_the_address_of_a_server_is_not_told() -> None:
    with pytest.raises(Unreachable) as told:
        KubeApi(lambda: configuration("http://user:PLANTED@127.0.0.1:1"), Metrics()).get("/api/v1/nodes")
    assert "PLANTED" not in str(told.value)
    assert "127.0.0.1:1" in str(told.value)


def test_a_silent_server_times_out() -> None:
    silent = threading.Event()

    def answer(request: Request) -> Answer:
        silent.wait(HUNG)
        return Answer()

    with serving(answer) as server, pytest.raises(Unreachable):
        api_for(server).get("/api/v1/nodes", timeout=0.05)
    silent.set()


def test_reads_and_only_reads_are_counted() -> None:
    metrics = Metrics()
    with serving(lambda request: Answer()) as server:
        api = api_for(server, metrics)
        api.get("/api/v1/nodes/n")
        api.request("PATCH", "/api/v1/nodes/n", body={})
    samples = [sample for family in metrics.registry.collect() for sample in family.samples]
    reads = [(s.labels, s.value) for s in samples if s.name == "ballast_reads_total"]
    assert reads == [({"verb": "get", "result": "ok"}, 1.0)]


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def secure(server: Any, authority: trustme.CA) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)


def ca_data(authority: trustme.CA) -> str:
    return base64.b64encode(authority.cert_pem.bytes()).decode()


def test_the_ca_comes_from_the_kubeconfig_and_not_from_requests(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    with serving(lambda request: Answer({"ok": True})) as server:
        secure(server, authority)
        url = server.url.replace("http:", "https:")
        user = {"token": "secret"}
        trusting = kubeconfig(tmp_path, url, user, **{"certificate-authority-data": ca_data(authority)})
        assert connected(trusting).get("/version") == b'{"ok": true}'
        assert server.requests[0].headers["Authorization"] == "Bearer secret"
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "")
        with pytest.raises(Unreachable, match="certificate"):
            connected(kubeconfig(tmp_path, url, user)).get("/version")


@pytest.mark.parametrize("tls", [False, True])
def test_a_stream_ends_at_once_when_another_thread_closes_it(tls: bool, authority: trustme.CA, tmp_path: Path) -> None:
    held = threading.Event()

    def endless() -> Any:
        yield b'{"first":1}\n{"half'
        held.wait(HUNG)

    with serving(lambda request: Answer(endless())) as server:
        if tls:
            secure(server, authority)
        url = server.url.replace("http:", "https:") if tls else server.url
        api = connected(kubeconfig(tmp_path, url, {}, **{"certificate-authority-data": ca_data(authority)}))
        seen: list[bytes] = []
        first = threading.Event()

        def read() -> None:
            for line in lines:
                seen.append(line)
                first.set()

        with api.stream("/api/v1/nodes", {"watch": "true"}) as lines:
            thread = threading.Thread(target=read)
            thread.start()
            assert first.wait(HUNG)
            lines.close()
            thread.join(HUNG)
            assert not thread.is_alive()
        held.set()
    assert seen == [b'{"first":1}']


def test_a_stream_that_breaks_is_unreachable_and_one_that_is_refused_says_so() -> None:
    def broken() -> Any:
        yield b'{"a":1}\n'
        raise ConnectionError

    with serving(lambda request: Answer(broken())) as server:
        api = api_for(server)
        with api.stream("/api/v1/nodes", {"watch": "true"}) as lines, pytest.raises(Unreachable):
            list(lines)
        server.answer = lambda request: status(403)
        with pytest.raises(Forbidden, match="`watch` on `nodes`"):
            api.stream("/api/v1/nodes", {"watch": "true"})


def test_lines_are_joined_over_chunks() -> None:
    chunks = [b"a", b"b\nc\n\nd", b"e", b"\nlast without end"]
    with serving(lambda request: Answer(chunks)) as server, api_for(server).stream("/x", {}) as lines:
        assert list(lines) == [b"ab", b"c", b"", b"de"]


def test_an_exec_plugin_gives_the_token_and_is_asked_again_after_401(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, pathlib\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        f"'status': {{'token': pathlib.Path({str(token)!r}).read_text()}}}}))\n"
    )
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin)],
            "interactiveMode": "Never",
        }
    }

    def answer(request: Request) -> Answer:
        return Answer({}) if request.headers["Authorization"] == f"Bearer {token.read_text()}" else status(401)

    with serving(answer) as server:
        api = connected(kubeconfig(tmp_path, server.url, user))
        api.get("/version")
        token.write_text("new")
        api._configured_at -= 60
        api.get("/version")
        token.write_text("newer")
        with pytest.raises(Unauthorized, match="BALLAST_CLUSTER__KUBECONFIG"):
            api.get("/version")


def test_the_service_account_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes.config import incluster_config

    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first\n")
    ca.write_bytes(trustme.CA().cert_pem.bytes())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    api = connected(None)
    assert api.server == "https://10.0.0.1:443"
    assert api.authorization() == {"Authorization": "bearer first"}


@pytest.mark.parametrize("content", [None, ""])
def test_a_token_that_cannot_be_renewed_is_told_and_found_again(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    ca.write_bytes(trustme.CA().cert_pem.bytes())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    api = connected(None)
    loader = api._configuration.refresh_api_key_hook.__closure__[0].cell_contents
    loader.token_expires_at = datetime.now() - timedelta(seconds=1)  # noqa: DTZ005
    token.unlink()
    if content is not None:
        token.write_text(content)
    for call in (api.get, lambda path: api.stream(path, {})):
        with pytest.raises(Unauthorized, match=r"credentials .* cannot be read: .*oken.*service account"):
            call("/version")
    token.write_text("second")
    assert api.authorization() == {"Authorization": "bearer second"}


def test_kubeconfig_in_the_environment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, "https://there:6443", {})))
    assert connected(None).server == "https://there:6443"


@pytest.mark.parametrize("content", [None, "", "a: [", "just words", "{}"])
def test_a_kubeconfig_that_cannot_be_used_names_the_setting(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingsError, match=r"BALLAST_CLUSTER__KUBECONFIG=.*config"):
        connected(path)


def test_without_any_configuration_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SettingsError, match="Set BALLAST_CLUSTER__KUBECONFIG"):
        connected(None)


@pytest.mark.parametrize("status_code", [403, 407, 500])
def test_a_proxy_of_the_kubernetes_api_that_repeats_its_password_is_masked(status_code: int) -> None:
    pair = "puser:PROXYSECRET77"
    coded = base64.b64encode(pair.encode()).decode()
    words = f"the proxy was sent Basic {coded}, which is {pair}"
    with serving(lambda request: status(status_code, message=words)) as server:
        proxy = server.url.replace("//", f"//{pair}@")
        made = configuration("http://kubernetes.example", proxy=proxy, proxy_headers={"proxy-authorization": coded})
        api = KubeApi(lambda: made, Metrics())
        with pytest.raises(ClusterError) as refused:
            api.get("/api/v1/nodes")
    assert "SECRET77" not in str(refused.value)
    assert coded not in str(refused.value)
    assert "the proxy was sent Basic ********" in str(refused.value)
