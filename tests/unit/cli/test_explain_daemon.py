"""`ballast explain --url`: a node's score, and a pod that was moved."""

import json
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from ballast.cli.app import app

NODE = {
    "name": "node-5",
    "state": "known",
    "lost": [],
    "score": 3,
    "published": {"score": "0", "load": "high"},
    "windows": {"15m": {"cpu": {"mean": 0.96, "std": 0.01, "p95": 0.98}, "gpu": {"mean": None}}},
}
MOVED = {
    "pod": "shop/web-1",
    "from": "node-5",
    "to": "node-7",
    "landed_on": "node-7",
    "kind": "relieve",
    "time": 2.0,
    "why": "node-5 is at 96% of its cpu, above 80%",
    "status": "ready",
    "measured": {"share": 0.875},
    "plan": "relieve-1",
}


@pytest.fixture
def url(httpserver: HTTPServer) -> str:
    silent = {**NODE, "state": "silent", "lost": ["cpu"], "score": None, "published": {"score": None, "load": None}}
    documents: dict[str, Any] = {
        "/api/v1/status": {"version": "0.1.0", "modes": {}},
        "/api/v1/nodes/node-5": NODE,
        "/api/v1/nodes/node-5/score": {"strategy": "load-variation", "score": 3, "terms": {"cpu": 3.25}},
        "/api/v1/nodes/dark": {**silent, "name": "dark"},
        "/api/v1/nodes/dark/score": {"strategy": "load-variation", "score": None, "terms": {}},
        "/api/v1/evictions": {"recent": [{**MOVED, "time": 1.0, "plan": "relieve-0", "measured": {}}, MOVED]},
    }
    for path, document in documents.items():
        httpserver.expect_request(path).respond_with_json(document)
    for gone in ("/api/v1/nodes/nobody", "/api/v1/pods/shop/web-1/explain", "/api/v1/pods/shop/web-2/explain"):
        httpserver.expect_request(gone).respond_with_json({"error": "no such thing"}, status=404)
    return httpserver.url_for("").rstrip("/")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["explain", *arguments])


def test_a_node_is_explained_by_the_terms_of_its_score(url: str) -> None:
    said = run("node-5", "--url", url)
    assert said.exit_code == 0, said.output
    assert "node-5 has score 3 of 100" in said.stdout
    assert "label score 0, load high" in said.stdout
    assert "load-variation: cpu 3.25" in said.stdout
    assert "cpu: mean 96.0%, deviation 1.0%, p95 98.0% over 15m" in said.stdout
    assert "gpu" not in said.stdout
    assert json.loads(run("node-5", "--url", url, "-o", "json").stdout)["terms"] == {"cpu": 3.25}
    assert "dark is silent, it lost cpu: its load is unknown, so it has no score" in run("dark", "--url", url).stdout


def test_a_pod_that_was_moved_says_why_the_newest_first(url: str) -> None:
    said = run("shop/web-1", "--url", url)
    assert said.exit_code == 0, said.output
    first, second = said.stdout.splitlines()
    assert "moved off node-5 by relieve, to node-7: node-5 is at 96% of its cpu, above 80%." in first
    assert "88% of what was predicted" in first
    assert "not measured yet" in second
    found = json.loads(run("shop/web-1", "--url", url, "-o", "json").stdout)
    assert [each["plan"] for each in found["evictions"]] == ["relieve-1", "relieve-0"]


@pytest.mark.parametrize("name", ["nobody", "shop/web-2"])
def test_what_nobody_knows_is_an_error(url: str, name: str) -> None:
    said = run(name, "--url", url)
    assert said.exit_code != 0
    assert said.exception is not None


def test_a_node_needs_a_daemon() -> None:
    said = run("node-5")
    assert "add --url" in str(said.exception)
