"""The forwarder holds the n-th write of a kind, before it arrives or before its answer comes."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme

from ballast_lab.faults.cells import all_cells, chosen
from ballast_lab.faults.events import AGENT, kind_of
from ballast_lab.faults.faults import FAULTS
from ballast_lab.faults.forwarder import Failpoint, Forwarder, Then, When
from ballast_lab.harness.waiting import HUNG

NODE = "/api/v1/nodes/n0"
LABELS = {"metadata": {"labels": {"ballast.dev/score": "7"}}}


class Server:
    """An API server that takes everything."""

    def __init__(self, folder: Path) -> None:
        self.seen: list[tuple[str, str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PATCH(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                server.seen.append((self.command, self.path, self.headers["User-Agent"]))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        authority = trustme.CA()
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def forwarder(server: Server) -> Iterator[Forwarder]:
    made = Forwarder(server.url, server.ca, "l0.1")
    yield made
    made.stop()


def patch(forwarder: Forwarder) -> int:
    """The status, 0 without an answer."""
    connection = http.client.HTTPConnection(forwarder.url.removeprefix("http://"), timeout=HUNG)
    try:
        connection.request("PATCH", NODE, json.dumps(LABELS))
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def test_requests_pass_under_the_daemons_name(server: Server, forwarder: Forwarder) -> None:
    assert patch(forwarder) == 200
    assert server.seen == [("PATCH", NODE, f"{AGENT}/l0.1")]


@pytest.mark.parametrize(("when", "arrived"), [(When.BEFORE, 1), (When.AFTER, 2)])
def test_the_second_write_is_cut_off(server: Server, forwarder: Forwarder, when: When, arrived: int) -> None:
    acted: list[int] = []

    def act() -> Then:
        acted.append(len(server.seen))
        return Then.CUT

    point = Failpoint("labels", when, act, nth=2)
    forwarder.arm(point)
    assert [patch(forwarder), patch(forwarder)] == [200, 0]
    assert len(server.seen) == arrived
    assert acted == [arrived]
    assert point.hit.is_set()
    assert point.done.is_set()
    assert patch(forwarder) == 200


@pytest.mark.parametrize(("when", "arrived"), [(When.BEFORE, 0), (When.AFTER, 1)])
def test_a_write_is_refused_or_said_to_be(server: Server, forwarder: Forwarder, when: When, arrived: int) -> None:
    forwarder.arm(Failpoint("labels", when, lambda: Then.REFUSE))
    assert patch(forwarder) == 429
    assert len(server.seen) == arrived
    assert patch(forwarder) == 200


def test_another_kind_is_left_alone(forwarder: Forwarder) -> None:
    point = Failpoint("taint", When.BEFORE, lambda: Then.CUT)
    forwarder.arm(point)
    assert patch(forwarder) == 200
    assert not point.hit.is_set()


def test_nothing_passes_while_it_is_cut(forwarder: Forwarder) -> None:
    forwarder.cut()
    assert patch(forwarder) == 0
    forwarder.heal()
    assert patch(forwarder) == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("GET", NODE, None, ""),
        ("PATCH", NODE, LABELS, "labels"),
        ("PATCH", NODE, {"metadata": {}, "spec": {"taints": []}}, "taint"),
        ("PUT", "/api/v1/namespaces/x/configmaps/ballast-state?fieldManager=b", {"data": {"conditions": ""}}, "state"),
        ("PUT", "/api/v1/namespaces/x/configmaps/ballast-state", {"data": {"power.plan.sun": "{}"}}, "plan"),
        ("POST", "/api/v1/namespaces/x/configmaps", {"data": {"eviction.plan": "[]"}}, "plan"),
        ("POST", "/api/v1/namespaces/x/pods/p/eviction", {}, "eviction"),
        ("PATCH", "/api/v1/namespaces/x/pods/p", {"spec": {"schedulingGates": []}}, "gate"),
        ("PATCH", "/apis/apps/v1/namespaces/x/deployments/web/scale", {}, "scale"),
        ("PATCH", "/apis/autoscaling/v2/namespaces/x/horizontalpodautoscalers/web", {}, "cap"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/ballast", {}, "lease"),
        ("DELETE", "/api/v1/namespaces/x/secrets/s", None, "other"),
    ],
)
def test_kinds_of_writes(method: str, path: str, body: object, kind: str) -> None:
    assert kind_of(method, path, body) == kind


def test_a_seed_chooses_the_same_cells_and_a_sample_has_every_fault() -> None:
    cells = all_cells()
    assert len(cells) >= 150
    assert chosen(cells, 7, 40, 2) == chosen(cells, 7, 40, 2)
    assert chosen(cells, 7, None, 1) != chosen(cells, 8, None, 1)
    assert {cell.fault for cell in chosen(cells, 7, 2 * len(FAULTS), 1)} == set(FAULTS)
