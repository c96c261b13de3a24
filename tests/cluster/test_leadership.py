"""Two replicas under the chart's account: one writes, and when it is killed the other goes on without repeating it."""

import base64
import json
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ballast_lab.harness.audit import Call
from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.kubeconfig import write_kubeconfig
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.waiting import eventually, throughout

NODES = [f"n{number}" for number in range(8)]
SCORE, LOAD = (f"ballast.node-restriction.kubernetes.io/{name}" for name in ("score", "load"))
LEASE = 15.0


class Replica:
    """A daemon with a token of its own, by which the audit log knows it."""

    def __init__(self, cluster: ControlPlane, installed: Installed, pod: str, settings: dict[str, str]) -> None:
        token = cluster.account_token(installed.namespace, installed.account)
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        self.credential = f"JTI={claims['jti']}"
        kubeconfig = write_kubeconfig(
            cluster.folder / f"{pod}.kubeconfig", url=cluster.url, ca=cluster.certificates.ca, token=token
        )
        own = {"POD_NAME": pod, "POD_IP": "10.9.0.1", "POD_NAMESPACE": installed.namespace}
        self.pod = pod
        self.daemon = Daemon(cluster, pod, kubeconfig, {**settings, **own})


@dataclass
class Pair:
    first: Replica
    second: Replica
    machines: Machines


@contextmanager
def _pair(cluster: ControlPlane, installed: Installed, folder: Path) -> Iterator[Pair]:
    """Two replicas, of which the first one leads and has labelled all nodes."""
    add_nodes(cluster.api, [node(name) for name in NODES])
    with ExitStack() as stack:
        machines = stack.enter_context(Machines(NODES, memory=0.2))
        server = stack.enter_context(prometheus(cluster.tools, folder, machines.targets()))
        settings = {**installed.settings, **FAST, "BALLAST_PROMETHEUS__URL": server.url}
        pods = installed.pods(cluster.api, 2)
        first = Replica(cluster, installed, pods[0], settings)
        stack.enter_context(first.daemon)
        eventually("the first one leads", first.daemon.leads)
        second = Replica(cluster, installed, pods[1], settings)
        stack.enter_context(second.daemon)
        eventually("all nodes are labelled", lambda: len(_scores(cluster)) == len(NODES))
        assert not second.daemon.leads()
        yield Pair(first, second, machines)


def test_the_killed_leader_is_followed_by_the_other_and_nothing_is_written_twice(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    before = cluster.audit.here()
    with _pair(cluster, installed, tmp_path) as pair:
        first, second = pair.first, pair.second
        eventually("the second one stands by", lambda: "standing by" in second.daemon.tail())
        assert _patches(cluster, before, second) == []

        killed_at = cluster.audit.here()
        first.daemon.kill()
        assert first.daemon.code == -signal.SIGKILL
        eventually("the second one leads", second.daemon.leads)
        eventually("it is reached by the extender's Service", lambda: _reached(cluster, installed, second.pod))
        throughout("it repeats nothing", lambda: not _patches(cluster, killed_at, second), seconds=5)

        pair.machines["n3"].memory = 0.95
        eventually("the new load is published", lambda: _class(cluster, "n3") == "high")

    calls = [call for call in cluster.audit.calls(since=before) if call.user == installed.user]
    assert [call for call in calls if call.forbidden] == []
    patches = [call for call in calls if call.resource == "nodes" and call.verb == "patch"]
    writers = [call.credential for call in patches]
    assert writers == sorted(writers, key=[first.credential, second.credential].index), "one after the other"
    assert {call.name for call in patches if call.credential == second.credential} == {"n3"}
    assert _repeated(patches) == []


def test_a_leader_that_was_held_up_finds_itself_replaced_and_writes_no_more(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    with _pair(cluster, installed, tmp_path) as pair:
        first, second = pair.first, pair.second
        first.daemon.signal(signal.SIGSTOP)
        try:
            eventually("the second one leads", second.daemon.leads)
            pair.machines["n3"].memory = 0.95
            eventually("the new load is published", lambda: _class(cluster, "n3") == "high")
            woken_at = cluster.audit.here()
        finally:
            first.daemon.signal(signal.SIGCONT)
        eventually("the first one stands by", lambda: f"{second.pod}_" in first.daemon.tail(3))
        assert second.daemon.leads()
        assert not first.daemon.leads()
        assert _patches(cluster, woken_at, first) == []


def test_a_leader_that_stops_hands_over_at_once(cluster: ControlPlane, installed: Installed, tmp_path: Path) -> None:
    with _pair(cluster, installed, tmp_path) as pair:
        assert pair.first.daemon.stop() == 0
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{installed.namespace}/leases/ballast"
        holder = cluster.api.get(lease)["spec"].get("holderIdentity") or ""
        assert not holder.startswith(f"{pair.first.pod}_"), "nobody waits until the Lease runs out"
        eventually("the second one leads", pair.second.daemon.leads)


def _patches(cluster: ControlPlane, since: int, replica: Replica) -> list[Call]:
    return [
        call
        for call in cluster.audit.calls(since=since)
        if call.credential == replica.credential and call.resource == "nodes" and call.verb == "patch"
    ]


def _repeated(patches: Iterable[Call]) -> list[str]:
    """Nodes that were given the same labels twice in a row."""
    by_node: dict[str, list[object]] = {}
    for call in patches:
        by_node.setdefault(call.name, []).append(call.request["metadata"]["labels"])
    return [name for name, given in by_node.items() if any(one == other for one, other in pairwise(given))]


def _labels(cluster: ControlPlane) -> dict[str, dict[str, str]]:
    return {each["metadata"]["name"]: each["metadata"]["labels"] for each in cluster.api.items("/api/v1/nodes")}


def _scores(cluster: ControlPlane) -> dict[str, str]:
    return {name: labels[SCORE] for name, labels in _labels(cluster).items() if SCORE in labels}


def _class(cluster: ControlPlane, name: str) -> str | None:
    return _labels(cluster)[name].get(LOAD)


def _reached(cluster: ControlPlane, installed: Installed, pod: str) -> bool:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{installed.namespace}/endpointslices/ballast-extender"
    endpoints = cluster.api.get(path)["endpoints"] or []
    return [each["targetRef"]["name"] for each in endpoints] == [pod]
