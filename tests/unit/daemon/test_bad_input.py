"""What is wrong around the daemon is said with the setting or the verb to correct, served through, and survived."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from ballast.runtime.daemon import Daemon
from tests.worlds.daemons import (
    LOAD,
    SCORE,
    WINDOW,
    Rig,
    condition,
    get,
    metric,
    rig,
    snapshot,
    until,
    verbose,
    watcher,
)

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that cannot list the nodes goes on after half a second."""
    monkeypatch.setattr("ballast.runtime.daemon.SYNC_ATTEMPTS", 1)


def healthy(calm: Rig, daemon: Daemon) -> bool:
    """Whether everything is known and published after so many cycles as a window may need."""
    told, _ = calm.cycle(daemon, 4)
    published = all({SCORE, LOAD, WINDOW} == set(own) for own in calm.published().values())
    return told == "know 10 of 10 nodes from prometheus, 0 unknown" and published


def closed(text: str) -> str:
    """A peer that closes a socket may show as reset or as closed."""
    return text.replace("Remote end closed connection without response", "Connection reset by peer")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("prometheus_down", "cannot be reached (Connection reset by peer); check BALLAST_PROMETHEUS__URL"),
        (
            "prometheus_401",
            "answers 401, Unauthorized: credentials are missing or no longer valid; check BALLAST_PROMETHEUS__TOKEN",
        ),
        ("prometheus_html", "answers HTML instead of JSON, a login or another page; check host and path prefix in BAL"),
        (
            "prometheus_500",
            "answers 500, Internal Server Error; look at the server's log, and check BALLAST_PROMETHEUS__URL",
        ),
        ("prometheus_empty", "the query of cpu gives no series; check that Prometheus has what BALLAST_PROMETHEUS__PR"),
    ],
)
def test_trouble_with_prometheus_is_named_and_what_is_fresh_is_served(calm: Rig, fault: str, said: str) -> None:
    daemon = calm.settled()
    before, patches = calm.published(), calm.patches()["nodes"]
    calm.faults.metrics_server_missing()
    getattr(calm.faults, fault)()
    told, published = calm.cycle(daemon)
    assert told.startswith("know 10 of 10 nodes from prometheus, 0 unknown; ")
    assert said in closed(told)
    assert said in closed(condition(daemon, "TelemetryDegraded") or "")
    assert said in closed(verbose(daemon))
    assert metric(daemon, 'ballast_condition{type="TelemetryDegraded"}') == 1
    assert len(watcher(daemon)) == 10
    assert published == "labels current on 10 of 10 nodes (0 changed, 0 unknown); next in 30 s"
    told, published = calm.cycle(daemon, 4)
    assert "know 0 of 10 nodes" in told
    assert published.startswith("publishing is frozen")
    assert get(daemon, "/watcher").status_code == 500
    assert (
        get(daemon, "/readyz").status_code == get(daemon, "/livez").status_code == get(daemon, "/").status_code == 200
    )
    assert "frozen: too much of the cluster is silent" in verbose(daemon)
    assert calm.published() == before
    assert calm.patches()["nodes"] == patches
    calm.faults.clear()
    assert healthy(calm, daemon)
    assert condition(daemon, "TelemetryDegraded") is None
    assert metric(daemon, 'ballast_condition{type="TelemetryDegraded"}') == 0


class Rude(BaseHTTPRequestHandler):
    """Answers every query with `status` and 100 MB that begin like Prometheus."""

    status = 200
    body = b'{"status":"success","data":{"resultType":"vector","result":['
    megabytes = 100

    def do_POST(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        try:
            self.wfile.write(self.body)
            for _ in range(self.megabytes):
                self.wfile.write(b" " * 2**20)
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


class Refusing(Rude):
    status, body, megabytes = 403, b"no", 0


@pytest.fixture
def rude(request: pytest.FixtureRequest) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("rude", "said"),
    [
        # One answer, or those that arrive together: whichever bound is reached first.
        (Rude, ("is larger than 64 MiB; ask for less", "would hold more than 96 MiB in all; ask for less")),
        (
            Refusing,
            ("answers 403, no: these credentials do not allow this request; check BALLAST_PROMETHEUS__TOKEN_FILE",),
        ),
    ],
    indirect=["rude"],
)
def test_an_answer_of_100_mb_and_a_refusal_from_the_start(calm: Rig, rude: str, said: tuple[str, ...]) -> None:
    calm.faults.metrics_server_missing()
    daemon = calm.daemon(PROMETHEUS__URL=rude, TELEMETRY__RESOURCES="cpu")
    (first,) = [cycle for cycle in daemon.board.cycles if cycle.job == "telemetry"]
    assert first.ok
    assert any(text in first.sentence for text in said)
    until(lambda: get(daemon, "/readyz").status_code == 200)
    assert get(daemon, "/watcher").status_code == 500
    assert any(text in verbose(daemon) for text in said)


def test_more_points_than_prometheus_gives_at_once_are_asked_in_pieces(tmp_path: Path) -> None:
    with rig(tmp_path, nodes=2, interval=1.0) as small:
        daemon = small.daemon(WINDOWS__LENGTHS="4h")
        assert snapshot(daemon).primary.count.min() == 4 * 3600 / 15 + 1, "one point for each scrape"
        assert small.cluster.requests["query_range", "prometheus"] > 2


def test_the_api_server_sheds_load_for_a_minute(calm: Rig) -> None:
    daemon = calm.daemon()
    calm.cycle(daemon, 2)
    before = calm.patches()["nodes"]
    for name in calm.names:
        calm.strip(name)
    calm.faults.kube_429(seconds=60.0, retry_after=0)
    told, sentence = calm.cycle(daemon)
    assert told == "know 10 of 10 nodes from prometheus, 0 unknown"
    assert "labels current on 0 of 10 nodes (0 changed, 0 unknown), 7 left for the next round, 3 failed: " in sentence
    assert "The API server refused PATCH /api/v1/nodes/node-000 for now" in sentence
    assert "for now" in (condition(daemon, "PublishingFailing") or "")
    assert calm.patches()["nodes"] == before + 3 * 3
    assert len(watcher(daemon)) == 10
    calm.advance()
    assert calm.cycle(daemon)[1] == "labels current on 10 of 10 nodes (10 changed, 0 unknown); next in 30 s"
    assert condition(daemon, "PublishingFailing") is None


@pytest.mark.parametrize(
    ("verb", "resource", "rule"),
    [
        ("list", "nodes", "Ballast needs verb `list` on `nodes`"),
        ("watch", "nodes", "Ballast needs verb `watch` on `nodes`"),
    ],
)
def test_nodes_that_may_not_be_read(calm: Rig, verb: str, resource: str, rule: str) -> None:
    calm.faults.kube_forbidden(verb, resource)
    daemon = calm.daemon()
    until(lambda: rule in (daemon.context.cache.problem("nodes") or ""))
    calm.advance()
    told = calm.watch(daemon)
    assert rule in (told if verb == "list" else verbose(daemon))
    assert rule in (condition(daemon, "ClusterUnreachable") or "")
    assert f"[{'-' if verb == 'list' else '+'}] nodes: {rule}" in verbose(daemon)
    assert get(daemon, "/readyz").status_code == (503 if verb == "list" else 200)
    assert get(daemon, "/livez").status_code == 200
    calm.faults.clear()
    until(lambda: daemon.context.cache.problem("nodes") is None)
    assert healthy(calm, daemon)
    assert condition(daemon, "ClusterUnreachable") is None


def test_nodes_that_may_not_be_patched(calm: Rig) -> None:
    rule = "Ballast needs verb `patch` on `nodes` (the core API group) cluster-wide"
    calm.faults.kube_forbidden("patch", "nodes")
    daemon = calm.daemon()
    sentence = calm.first_round(daemon)
    assert sentence.startswith(
        f"labels current on 0 of 10 nodes (0 changed, 0 unknown), 7 left for the next round, 3 failed: {rule}"
    )
    assert calm.patches()["nodes"] == 3
    assert metric(daemon, 'ballast_writes_total{kind="labels",result="failed"}') == 3
    assert rule in (condition(daemon, "PublishingFailing") or "")
    assert rule in verbose(daemon)
    assert len(watcher(daemon)) == 10
    calm.faults.clear()
    assert healthy(calm, daemon)
    assert condition(daemon, "PublishingFailing") is None


@pytest.mark.parametrize("verb", ["get", "create", "update"])
def test_a_lease_that_may_not_be_had(calm: Rig, verb: str) -> None:
    rule = f"Ballast needs verb `{verb}` on `leases`"
    if verb == "update":
        calm.daemon().stop()
    calm.faults.kube_forbidden(verb, "leases")
    daemon = calm.daemon(leads=False)
    until(lambda: daemon.context.leadership.problem)  # type: ignore[union-attr]
    sentence = calm.cycle(daemon)[1]
    assert sentence.startswith("standing by: nobody yet holds the Lease; ")
    assert rule in sentence
    assert rule in verbose(daemon)
    assert rule in (condition(daemon, "LeaseFailing") or "")
    assert "nodes" not in calm.patches()
    calm.faults.clear()
    daemon.context.leadership.tick()  # type: ignore[union-attr]
    assert healthy(calm, daemon)


def test_a_namespace_that_is_not_there_is_named(calm: Rig) -> None:
    daemon = calm.daemon(leads=False, LEASE__NAMESPACE="nowhere")
    until(lambda: daemon.context.leadership.problem)  # type: ignore[union-attr]
    assert 'namespaces "nowhere" not found' in calm.cycle(daemon)[1]


def test_a_lease_that_can_no_longer_be_renewed(calm: Rig) -> None:
    daemon = calm.daemon()
    calm.faults.kube_forbidden("update", "leases")
    daemon.context.leadership._leads_until = float("-inf")  # type: ignore[union-attr]
    daemon.context.leadership.tick()  # type: ignore[union-attr]
    rule = "Ballast needs verb `update` on `leases`"
    told = f"standing by: this replica held the Lease until its renewals failed; {rule}"
    assert calm.publish(daemon).startswith(told)


@pytest.mark.parametrize("verb", ["get", "create"])
def test_a_state_that_may_not_be_saved(calm: Rig, verb: str) -> None:
    rule = f"Ballast needs verb `{verb}` on `configmaps`"
    calm.faults.kube_forbidden(verb, "configmaps")
    calm.faults.node_dark(calm.names[0])
    daemon = calm.daemon()
    calm.cycle(daemon, 4)
    until(lambda: daemon.state_saver.problem)
    calm.cycle(daemon)
    assert rule in (condition(daemon, "StateNotSaved") or "")
    assert rule in verbose(daemon)
    assert calm.own(calm.names[1]).keys() == {SCORE, LOAD, WINDOW}
    calm.faults.kube_forbidden(verb, "configmaps", seconds=0.0)
    calm.cycle(daemon)
    until(lambda: "NodesUnknown" in calm.state().get("conditions", ""))
    until(lambda: daemon.state_saver.problem is None)
    calm.cycle(daemon)
    assert condition(daemon, "StateNotSaved") is None


@pytest.mark.parametrize("fault", ["kube_500", "kube_reset", "kube_401"])
def test_an_api_server_in_trouble_costs_writes_and_nothing_else(calm: Rig, fault: str) -> None:
    daemon = calm.settled()
    getattr(calm.faults, fault)()
    dark = calm.names[0]
    calm.faults.node_dark(dark)
    told, published = calm.cycle(daemon, 5)
    assert told.startswith("know 9 of 10 nodes from prometheus, 1 unknown")
    assert "labels current on 9 of 10 nodes (0 changed, 1 unknown), 0 left" not in published
    assert "1 failed: " in published
    assert calm.own(dark).keys() == {SCORE, LOAD, WINDOW}
    assert len(watcher(daemon)) == 9
    until(lambda: get(daemon, "/readyz").status_code == 200)
    calm.faults.kube_500(seconds=0.0)
    calm.faults.kube_reset(seconds=0.0)
    calm.faults.kube_401(seconds=0.0)
    assert calm.cycle(daemon, 2)[1].startswith("labels current on ")
    assert calm.own(dark) == {LOAD: "unknown"}


def test_without_an_api_server_from_the_start_it_waits_and_says_so(calm: Rig) -> None:
    calm.faults.kube_reset()
    daemon = calm.daemon(leads=False)
    (first,) = daemon.board.cycles
    assert not first.ok
    assert "No answer from the Kubernetes API at http://127.0.0.1" in first.sentence
    assert "BALLAST_CLUSTER__KUBECONFIG" in first.sentence
    assert get(daemon, "/readyz").status_code == 503
    assert get(daemon, "/livez").status_code == 200
    assert get(daemon, "/watcher").status_code == 500
    assert "No answer from the Kubernetes API" in verbose(daemon)
    calm.faults.clear()
    until(lambda: daemon.context.cache.synced)
    until(daemon.context.leadership.is_leader)
    assert healthy(calm, daemon)
    until(lambda: get(daemon, "/readyz").status_code == 200)


def test_watches_that_end_with_410_lose_nothing(calm: Rig) -> None:
    daemon = calm.settled()
    calm.faults.kube_watch_gone()
    calm.set_taints(calm.names[0], [{"key": "team", "effect": "NoSchedule"}])
    until(lambda: (metric(daemon, 'ballast_watch_restarts_total{kind="nodes",reason="gone"}') or 0) > 0)
    calm.faults.clear()
    calm.seen(daemon)
    assert healthy(calm, daemon)


def test_a_partial_answer_is_told(calm: Rig) -> None:
    daemon = calm.settled()
    calm.faults.prometheus_partial(share=0.9)
    calm.cycle(daemon)
    assert "partial response" in (condition(daemon, "PartialAnswers") or "")
    assert "partial response" in verbose(daemon)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_makes_the_replica_not_live(calm: Rig) -> None:
    daemon = calm.daemon()
    assert get(daemon, "/livez").status_code == 200

    def end() -> None:
        raise SystemExit

    daemon._saved.save = end  # type: ignore[method-assign,assignment]
    daemon.state_saver.ask()
    until(lambda: get(daemon, "/livez").status_code == 503)
    assert "saving ended unexpectedly" in get(daemon, "/livez?verbose").text
