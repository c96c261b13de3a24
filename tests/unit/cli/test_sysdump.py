import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from ballast.cli.app import app
from ballast.cli.observing.sysdump import known_secrets, redacted
from tests.unit.cli.test_observing import answers, node

SECRETS = {
    "a password in an address": ("GET http://user:hunter2@prometheus:9090/api failed", "hunter2"),
    "a password with an at sign": ("http://u:p@ss-w0rd@host/x", "p@ss-w0rd"),
    "a token in a query": ("http://feed/watts?access_token=abc123def&x=1", "abc123def"),
    "a signature in a query": ("https://b.example/o?X-Amz-Signature=deadbeef01", "deadbeef01"),
    "a bearer token": ("Authorization: Bearer s3cr3t.t0ken-value", "s3cr3t.t0ken-value"),
    "a header in JSON": ('{"Authorization": "Token q9q9q9q9"}', "q9q9q9q9"),
    "a basic login": ("sent Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
    "a cookie": ("Cookie: session=0123456789abcdef", "0123456789abcdef"),
    "the extender's path": ("POST /scheduler/9f8e7d6c5b/prioritize 200", "9f8e7d6c5b"),
    "a web token": ("got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl here", "eyJzdWIiOiJ4In0"),
    "a key in PEM": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    "a key in PEM, cut off": ("x -----BEGIN PRIVATE KEY-----\nMIIEow", "MIIEow"),
    "a password in JSON": ('{"password": "correct horse", "a": 1}', "correct horse"),
    "a password in JSON within JSON": ('{"data": "{\\"dbPassword\\": \\"correct horse\\"}"}', "correct horse"),
    "a token in YAML": ("apiToken: zzz-999-yyy\n", "zzz-999-yyy"),
    "a secret in an assignment": ("BALLAST_X__CLIENT_SECRET=topsecretvalue", "topsecretvalue"),
    "a key of AWS": ("id AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
    "a token of GitHub": ("ghp_abcdefghijklmnopqrstuvwxyz0123", "ghp_abcdefghijklmnopqrstuvwxyz0123"),
}


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_is_masked_in_every_notation(name: str) -> None:
    text, secret = SECRETS[name]
    masked = redacted(text)
    assert secret not in masked
    assert "********" in masked
    assert redacted(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "ballast_samples_rejected_total{reason=\"stale\"} 3\n",
        '{"name":"BALLAST_PROMETHEUS__TOKEN_FILE","value":"/var/run/token"}',
        '{"password": null, "token": "", "secret": false}',
        "know 39 of 40 nodes from http://prometheus:9090/api/v1/query, 1 unknown",
        "POST /scheduler/prioritize 200",
        '{"pod":"shop/token-service-7d9f","node":"node-1"}',
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_masked_document_is_still_json() -> None:
    document = {"url": "http://u:pw@h/?token=x9x9", "nested": {"password": 'a"b', "list": ["Bearer abcdef", 1]}}
    assert json.loads(redacted(json.dumps(document)))["nested"]["list"] == ["Bearer ********", 1]


def test_secrets_of_this_machine_are_known_by_their_settings(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-the-file\n")
    environ = {"BALLAST_PROMETHEUS__TOKEN_FILE": str(file), "PROMETHEUS_TOKEN": "inline-token", "HOME": "/root"}
    assert known_secrets({**environ, "X_PASSWORD_FILE": "/does/not/exist"}) == {"from-the-file", "inline-token"}
    assert redacted("a from-the-file b", known_secrets(environ)) == "a ******** b"


def served(httpserver: HTTPServer, secret: str) -> str:
    documents = answers([node("a", 0.3)])
    documents["cycles"] = [{"job": "telemetry", "sentence": f"GET http://u:{secret}@p failed"}]
    for name, document in documents.items():
        httpserver.expect_request(f"/api/v1/{name}").respond_with_json(document)
    httpserver.expect_request("/metrics").respond_with_data("ballast_leader 1\n")
    httpserver.expect_request("/readyz").respond_with_data(f"token={secret}\n")
    return httpserver.url_for("").rstrip("/")


def cluster(httpserver: HTTPServer, secret: str) -> None:
    """The namespace of an installation, with secrets in every object."""
    base = "/api/v1/namespaces/ballast"
    pod = {
        "metadata": {"name": "ballast-0"},
        "spec": {"nodeName": "a", "containers": [{"env": [{"name": "PLAIN", "value": secret}]}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "ballast", "restartCount": 1, "ready": True}]},
    }
    httpserver.expect_request(f"{base}/pods").respond_with_json({"items": [pod]})
    log = f"level=error Authorization: Bearer {secret}\n"
    httpserver.expect_request(f"{base}/pods/ballast-0/log").respond_with_data(log)
    httpserver.expect_request(f"{base}/configmaps/ballast-state").respond_with_json({"data": {"x": f"token={secret}"}})
    lease = {"metadata": {"name": "ballast", "namespace": "ballast"}}
    httpserver.expect_request("/apis/coordination.k8s.io/v1/leases").respond_with_json({"items": [lease]})
    missing = {"kind": "Status", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404}
    httpserver.expect_request(f"{base}/configmaps/ballast-switches").respond_with_json(missing, status=404)
    httpserver.expect_request(f"{base}/events").respond_with_json({"items": []})


@pytest.fixture
def kubeconfig(httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": httpserver.url_for("").rstrip("/")}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return file


def unpacked(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        return {
            entry.name.partition("/")[2]: archive.extractfile(entry).read().decode()  # type: ignore[union-attr]
            for entry in archive.getmembers()
        }


def test_an_archive_holds_answers_settings_and_logs_without_planted_secrets(
    httpserver: HTTPServer, kubeconfig: Path, tmp_path: Path
) -> None:
    secret = "pl4nted-s3cret"
    url = served(httpserver, secret)
    cluster(httpserver, secret)
    target = tmp_path / "dump.tar.gz"
    result = CliRunner().invoke(app, ["sysdump", "--url", url, "--to", str(target), "-o", "json"])
    assert result.exit_code == 0, result.output
    files = unpacked(target)
    assert {
        "index.json",
        "api/status.json",
        "api/plans.json",
        "settings.json",
        "metrics.txt",
        "readyz.txt",
        "cluster/configmaps-ballast-state.json",
        "cluster/pods.json",
        "logs/ballast-0-ballast.log",
        "logs/ballast-0-ballast-previous.log",
    } <= set(files)
    assert secret not in "".join(files.values())
    index: dict[str, Any] = json.loads(files["index.json"])
    assert index["daemon"] == url
    assert list(index["missing"]) == ["cluster/configmaps-ballast-switches.json"]
    assert json.loads(result.stdout)["file"] == str(target)


def test_a_state_in_parts_is_archived_whole(httpserver: HTTPServer, kubeconfig: Path, tmp_path: Path) -> None:
    base = "/api/v1/namespaces/ballast/configmaps"
    index = {"evictions": [[2, "evictions.0"], [1, "evictions.1"]]}
    main = {"data": {"schema": "1+parts", "parts": json.dumps(index)}}
    for name, document in {
        "": main,
        "-1": {"data": {"evictions.1": "y"}},
        "-2": {"data": {"evictions.0": "x"}},
    }.items():
        httpserver.expect_request(f"{base}/ballast-state{name}").respond_with_json(document)
    target = tmp_path / "dump.tar.gz"
    CliRunner().invoke(app, ["sysdump", "--url", "http://127.0.0.1:1", "-n", "ballast", "--to", str(target)])
    files = unpacked(target)
    assert "evictions.1" in files["cluster/configmaps-ballast-state-1.json"]
    assert "evictions.0" in files["cluster/configmaps-ballast-state-2.json"]


@pytest.mark.parametrize("state", ["[]", "nonsense", '{"data": null}', '{"data": {"parts": "[1]"}}'])
def test_an_unreadable_index_costs_only_the_parts(
    state: str, httpserver: HTTPServer, kubeconfig: Path, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/ballast/configmaps/ballast-state"
    httpserver.expect_request(path).respond_with_data(state, content_type="application/json")
    target = tmp_path / "dump.tar.gz"
    CliRunner().invoke(app, ["sysdump", "--url", "http://127.0.0.1:1", "-n", "ballast", "--to", str(target)])
    assert unpacked(target)["cluster/configmaps-ballast-state.json"] == state


def test_the_name_of_an_archive_tells_its_time(
    httpserver: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert CliRunner().invoke(app, ["sysdump", "--url", served(httpserver, "x")]).exit_code == 0
    (file,) = tmp_path.glob("ballast-sysdump-*Z.tar.gz")
    assert "cluster" in json.loads(unpacked(file)["index.json"])["missing"]


def test_a_daemon_that_is_silent_leaves_what_the_cluster_tells(
    httpserver: HTTPServer, kubeconfig: Path, tmp_path: Path
) -> None:
    cluster(httpserver, "x")
    target = tmp_path / "dump.tar.gz"
    result = CliRunner().invoke(app, ["sysdump", "--url", "http://127.0.0.1:1", "-n", "ballast", "--to", str(target)])
    assert result.exit_code == 1
    files = unpacked(target)
    assert "logs/ballast-0-ballast.log" in files
    assert "no connection" in json.loads(files["index.json"])["missing"]["api"]


def test_a_file_that_cannot_be_written_is_named(httpserver: HTTPServer, tmp_path: Path) -> None:
    url = served(httpserver, "x")
    result = CliRunner().invoke(app, ["sysdump", "--url", url, "--to", str(tmp_path / "none" / "x.tar.gz")])
    assert "--to" in str(result.exception)
    assert "cannot be written" in str(result.exception)
