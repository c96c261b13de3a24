"""Which single replicas are moved by a rollout: what may be added and taken, who owns it, which volumes it has."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ballast.cluster.objects.decoding import Shared
from ballast.cluster.workloads import WireWorkload, to_workload
from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import GateRules
from ballast.model.attachments import Attachments, VolumeClaim
from ballast.model.pod import Owner, Pod
from ballast.model.template import PLAIN
from ballast.model.workload import Workload

NOW = 1_700_000_000.0
POD = Pod(
    "shop", "web-1", uid="u-1", node="n1", phase="Running", ready=True, owner=Owner("ReplicaSet", "web-a", "u-a", True)
)


def read(**spec: Any) -> Workload:
    body = {"metadata": {"name": "web", "namespace": "shop", "uid": "u-web"}, "spec": {"replicas": 1, **spec}}
    wire = msgspec.json.decode(msgspec.json.encode(body), type=WireWorkload)
    return to_workload("Deployment", wire, Shared(), lambda key: True)


def rolling(surge: object = None, unavailable: object = None) -> dict[str, Any]:
    return {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}}


@pytest.mark.parametrize(
    ("spec", "gapless"),
    [
        ({}, True),
        (rolling("25%", "25%"), True),
        (rolling(1, 0), True),
        (rolling("1%", "99%"), True),
        (rolling(1, 1), False),
        (rolling("25%", "100%"), False),
        (rolling(0, 0), False),
        (rolling("0%", "25%"), False),
        (rolling("many", 0), False),
        ({"strategy": {"type": "Recreate"}}, False),
        ({"paused": True}, False),
    ],
)
def test_a_rollout_is_without_a_gap_where_it_adds_before_it_takes(spec: dict[str, Any], gapless: bool) -> None:
    assert read(**spec).gapless is gapless


def single_replica(pod: Pod, deployment: Workload, modes: tuple[str, ...] = (), **rules: Any) -> str:
    own = Workload("ReplicaSet", "shop", "web-a", "u-a", owner=Owner("Deployment", "web", "u-web", True))
    claims = (VolumeClaim("shop", "data", access_modes=modes),)
    facts = Facts(ClusterObjects((), (pod,), (deployment, own), attachments=Attachments(claims=claims)), now=NOW)
    verdicts = {
        verdict.check: verdict for verdict in Gate(facts, replace(GateRules(restart=True), **rules)).explain(pod)
    }
    return verdicts["single-replica"].reason if verdicts["single-replica"].allowed else "refused"


def test_the_only_pod_of_a_deployment_may_go_once_another_is_ready() -> None:
    web = read()
    assert single_replica(POD, web) == "its replacement is Ready first"
    assert single_replica(POD, web, restart=False) == "refused"
    assert single_replica(POD, web, moves=False) == "refused", "what removes pods restarts none"
    assert single_replica(POD, read(**rolling(1, 1))) == "refused"
    assert single_replica(POD, msgspec.structs.replace(web, owner=Owner("Shop", "a", "u-s", True))) == "refused"
    assert single_replica(POD, msgspec.structs.replace(web, replicas=2), min_replicas=3) == "refused"


@pytest.mark.parametrize(
    ("modes", "moves"),
    [((), False), (("ReadWriteOnce",), False), (("ReadWriteMany",), True), (("ReadOnlyMany",), True)],
)
def test_a_pod_stays_whose_volume_a_second_one_could_not_have_on_another_node(
    modes: tuple[str, ...], moves: bool
) -> None:
    template = msgspec.structs.replace(PLAIN, claims=(("shop", "data"),))
    said = single_replica(msgspec.structs.replace(POD, template=template), read(), modes)
    assert (said == "its replacement is Ready first") is moves
