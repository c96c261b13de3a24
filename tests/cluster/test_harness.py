"""The harness itself: a control plane comes up, makes nodes ready and pods run."""

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.waiting import eventually


def test_the_real_api_server_makes_nodes_ready_and_runs_a_bound_pod(cluster: ControlPlane) -> None:
    assert cluster.api.get("/version")["gitVersion"] == "v1.36.3"
    add_nodes(cluster.api, [node("a"), node("b")])
    cluster.api.post(PODS, pod("one", nodeName="b"))
    eventually("the pod runs", lambda: cluster.api.get(f"{PODS}/one")["status"]["phase"] == "Running")


def test_a_service_account_gets_a_token_and_only_its_rights(cluster: ControlPlane) -> None:
    before = cluster.audit.here()
    with cluster.as_token(cluster.account_token("somewhere", "nobody")) as nobody:
        assert nobody.raw("GET", "/api/v1/nodes").status_code == 403
    user = "system:serviceaccount:somewhere:nobody"
    calls = eventually("the audit line", lambda: cluster.audit.calls(user=user, since=before))
    assert [(call.verb, call.resource, call.forbidden) for call in calls] == [("list", "nodes", True)]
