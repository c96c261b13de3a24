"""What of ordinary charts may move by default, as their workloads are rendered with two or three replicas.

Volumes and priorities are those of the public charts; images and the rest of their pods change nothing here. Stateless
ones move, data on a node never do, and where something is kept the line is named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.unit.cli.planning.conftest import Plan
from tests.worlds.owned import HOT, cluster, deployment, stateful
from tests.worlds.printed import Json

NODES = ("n1", "n2", "n3")
ALLOW = "BALLAST_EVICTION__LOCAL_STORAGE=allow"
CONFIG = {"configMap": {"name": "c"}}
SECRET = {"secret": {"secretName": "s"}}
TOKEN = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
SCRATCH: Json = {"emptyDir": {}}
MEMORY = {"emptyDir": {"medium": "Memory"}}


@dataclass(frozen=True)
class Chart:
    """`line` frees what one check keeps; None where nothing is kept, "" where it is kept and no line frees it."""

    volumes: Sequence[Json] = ()
    stateful: bool = False
    line: str | None = None
    spec: tuple[tuple[str, Any], ...] = ()

    @property
    def items(self) -> list[Json]:
        objects = stateful(dict.fromkeys(NODES, "")) if self.stateful else deployment({"x-new": NODES})
        volumes = [{"name": f"v{number}", **volume} for number, volume in enumerate(self.volumes)]
        more = {"volumes": volumes, **dict(self.spec)}
        return [each if each["kind"] != "Pod" else {**each, "spec": {**each["spec"], **more}} for each in objects]


CRITICAL = (("priorityClassName", "system-cluster-critical"), ("priority", 2_000_000_000))

STATELESS = {
    "ingress-nginx controller": Chart((SECRET, TOKEN)),
    "traefik": Chart((SCRATCH, SCRATCH, TOKEN)),
    "argo-cd server": Chart((SCRATCH, SCRATCH, CONFIG, SECRET)),
    "argo-cd repo-server": Chart((CONFIG, SCRATCH, SCRATCH, SCRATCH, SCRATCH, SECRET)),
    "cert-manager": Chart((TOKEN,)),
    "external-secrets": Chart((TOKEN,)),
    "external-secrets webhook": Chart((SECRET, TOKEN)),
    "vault agent-injector": Chart((TOKEN,)),
    "keda metrics-apiserver": Chart((SCRATCH, SECRET)),
    "gatekeeper controller": Chart((SECRET, SCRATCH), line="", spec=CRITICAL),
}
STATEFUL = {
    "opensearch": Chart((CONFIG, SCRATCH), stateful=True, line=ALLOW),
    "qdrant": Chart((CONFIG, SCRATCH, SCRATCH), stateful=True, line=ALLOW),
    "nats": Chart((CONFIG, SCRATCH), stateful=True, line=ALLOW),
    "vault in raft mode": Chart((CONFIG, SCRATCH, TOKEN), stateful=True, line=ALLOW),
    "redis without persistence": Chart((CONFIG, SCRATCH), stateful=True, line=ALLOW),
    "an etcd in memory": Chart((MEMORY,), stateful=True, line=ALLOW),
    "minio on directories of its nodes": Chart(
        ({"hostPath": {"path": "/srv"}},), stateful=True, line="ballast.dev/evict-lifts=local-storage"
    ),
    "a node exporter with a directory": Chart(
        ({"hostPath": {"path": "/proc"}},), line="ballast.dev/evict-lifts=local-storage"
    ),
}
ALL = STATELESS | STATEFUL


@pytest.mark.parametrize("name", ALL)
def test_what_stays_says_which_line_would_free_it(name: str, plan: Plan) -> None:
    chart = ALL[name]
    answer = plan("relieve", cluster(chart.items), HOT)
    assert bool(answer["steps"]) is (chart.line is None)
    lines = [price["setting"] for price in answer.get("prices", {}).values()]
    assert lines == ([chart.line] if chart.line else [])


def test_nine_of_ten_stateless_ones_move_by_default() -> None:
    assert len(STATELESS) == 10
    assert sum(chart.line is None for chart in STATELESS.values()) >= 9
    assert all(chart.line for chart in STATEFUL.values()), "their data are on the node"
