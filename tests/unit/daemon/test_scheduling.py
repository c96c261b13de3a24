"""The whole daemon answers a scheduler, with the pods of the cluster in mind."""

import socket
from pathlib import Path
from typing import Any

import pytest
import requests

from ballast.base.errors import SettingsError
from ballast.runtime.daemon import Daemon
from ballast.settings.plain_parts import HttpSettings
from ballast_lab.harness.process import free_port
from ballast_lab.harness.waiting import HUNG, until
from tests.worlds.daemons import POD, Rig, condition, get, metric

pytestmark = pytest.mark.slow

ASKING = {"metadata": {"name": "asking", "namespace": "default", "uid": "asking"}, "spec": {"containers": [{}]}}


def ask(daemon: Daemon, names: list[str], query: str = "") -> requests.Response:
    address = f"{daemon.url}scheduler/prioritize{query}"
    return requests.post(address, json={"Pod": ASKING, "Nodes": None, "NodeNames": names}, timeout=HUNG)


def chosen(answer: requests.Response) -> str:
    assert answer.status_code == 200
    assert "x-ballast-neutral" not in answer.headers
    [best] = [each["Host"] for each in answer.json() if each["Score"] == 10]
    return str(best)


def waiting(calm: Rig, name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    spec = {"schedulerName": "somebody-elses", "containers": [container]}
    created: dict[str, Any] = calm.cluster.resources.create(POD, "default", {**body, "spec": spec}).read()
    return created


def test_a_decision_counts_until_the_pod_is_gone(calm: Rig, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    daemon = calm.settled(EXTENDER__TOKEN_FILE=str(tmp_path / "token"))
    pod = waiting(calm, "big", "1")
    until(lambda: any(each.uid == pod["metadata"]["uid"] for each in daemon.context.cache.pods()), "the pod is seen")
    until(lambda: daemon.extender._assumed.waiting(pod["metadata"]["uid"]))
    args = {"Pod": pod, "NodeNames": calm.names}
    answer = requests.post(f"{daemon.url}scheduler/sesame/prioritize", json=args, timeout=HUNG)
    assert chosen(answer) in calm.names
    assert metric(daemon, "ballast_extender_assumed") == 1.0
    calm.cluster.resources.delete(POD, "default", "big")
    until(lambda: metric(daemon, "ballast_extender_assumed") == 0.0, "the decision is undone")
    assert metric(daemon, 'ballast_extender_decisions_total{outcome="undone"}') == 1.0


def test_who_has_proved_nothing_and_was_never_seen_to_bind_takes_no_room(calm: Rig) -> None:
    daemon = calm.settled()
    pod = waiting(calm, "big", "1")
    until(lambda: daemon.extender._assumed.waiting(pod["metadata"]["uid"]))
    for asked in (pod, ASKING):
        args = {"Pod": asked, "NodeNames": calm.names}
        answer = requests.post(f"{daemon.url}scheduler/prioritize", json=args, timeout=HUNG)
        assert chosen(answer) in calm.names
    assert metric(daemon, "ballast_extender_assumed") == 0.0
    assert metric(daemon, 'ballast_extender_decisions_total{outcome="unseen"}') == 1.0


def test_much_of_the_cluster_silent_makes_all_equal(calm: Rig) -> None:
    daemon = calm.settled()
    chosen(ask(daemon, calm.names))
    calm.faults.prometheus_down()
    calm.faults.metrics_server_missing()
    calm.cycle(daemon, 5)
    answer = ask(daemon, calm.names)
    assert {each["Score"] for each in answer.json()} == {5}
    assert answer.headers["x-ballast-neutral"] == "frozen"
    assert chosen(ask(daemon, calm.names, "?profile=dominant-residual")) in calm.names


def test_without_the_right_to_read_pods_all_else_goes_on(calm: Rig) -> None:
    calm.faults.kube_forbidden("list", "pods")
    daemon = calm.daemon()
    until(lambda: daemon.context.cache.problem("pods"))
    calm.cycle(daemon)
    assert get(daemon, "/readyz").status_code == 200
    assert get(daemon, "/watcher").status_code == 200
    assert "`list` on `pods`" in (condition(daemon, "PodsUnreadable") or "")
    answer = ask(daemon, calm.names)
    assert ({each["Score"] for each in answer.json()}, answer.headers["x-ballast-neutral"]) == ({5}, "no-pods")


def test_the_extender_may_listen_alone(calm: Rig) -> None:
    port = free_port()
    daemon = calm.daemon(HTTP__EXTENDER_BIND=f"127.0.0.1:{port}")
    assert ask(daemon, calm.names).status_code == 404
    alone = f"http://127.0.0.1:{port}"
    args = {"Pod": ASKING, "NodeNames": calm.names}
    assert requests.post(f"{alone}/scheduler/filter", json=args, timeout=HUNG).json()["NodeNames"] == calm.names
    assert requests.get(f"{alone}/watcher", timeout=HUNG).status_code == 404


def test_probes_have_a_port_of_their_own(calm: Rig) -> None:
    daemon = calm.daemon()
    alone = f"http://127.0.0.1:{daemon.health_port}"
    assert daemon.health_port not in (0, daemon.port)
    assert requests.get(f"{alone}/livez", timeout=HUNG).text == "ok\n"
    assert requests.get(f"{alone}/readyz?verbose", timeout=HUNG).status_code in (200, 503)
    for path in ("/", "/metrics", "/watcher", "/api/v1/nodes", "/scheduler/filter"):
        assert requests.get(f"{alone}{path}", timeout=HUNG).status_code == 404
    assert get(daemon, "/livez").status_code == 200


def test_a_health_port_that_is_taken_is_an_error_only_where_it_was_chosen(
    calm: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"BALLAST_HTTP__HEALTH_PORT={port}.*in use"):
            calm.daemon(HTTP__HEALTH_PORT=str(port))
        monkeypatch.setattr(HttpSettings, "of_health", lambda self: HttpSettings(host=self.host, port=port))
        daemon = calm.daemon()
    assert daemon.health_port == 0
    assert get(daemon, "/livez").status_code == 200


def test_livez_names_a_listener_that_ended(calm: Rig) -> None:
    daemon = calm.daemon()
    health = daemon.servers[1]
    health.stop()
    answer = get(daemon, "/livez?verbose")
    assert answer.status_code == 503
    assert "listener health_port ended unexpectedly" in answer.text
