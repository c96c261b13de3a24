"""Devices of ResourceSlices and ResourceClaims, as a real API server holds them, under the rights of the chart."""

from pathlib import Path

import requests

from ballast_lab.harness.api import Json
from ballast_lab.harness.chart import Installed
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.waiting import HUNG, eventually
from tests.cluster.test_extender import ballast

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
NODES = ["n0", "n1", "n2"]
KEYS = '{"dominant-residual": {"profiles": [{"requests": {"cpu": "100m", "resource.k8s.io/gpu.example.com": 1}}]}}'


def slice_of(name: str) -> Json:
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    }
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def claim(name: str, owner: Json | None = None) -> Json:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"]}] if owner else []
    asked = {"requests": [{"name": "gpus", "exactly": {"deviceClassName": DRIVER}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
        "spec": {"devices": asked},
    }


def test_a_pod_that_claims_a_device_is_told_where_one_is_free(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    """The device of the first node was given away, the second has a free one, the third has none."""
    api = cluster.api
    names = add_nodes(api, [node(name) for name in NODES])
    for name in names[:2]:
        api.post(SLICES, slice_of(name))
    api.post(CLAIMS, claim("taken"))
    results = [{"request": "gpus", "driver": DRIVER, "pool": names[0], "device": "gpu-0"}]
    api.patch(f"{CLAIMS}/taken/status", {"status": {"allocation": {"devices": {"results": results}}}})
    body = pod("asks")
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    made = api.post(PODS, body)
    api.post(CLAIMS, claim("asks-gpu", made["metadata"]))
    before = cluster.audit.here()
    try:
        settings = {"BALLAST_SCORING__KEYS": KEYS}
        with ballast(cluster, installed, tmp_path, dict.fromkeys(names, 0.3), **settings) as daemon:

            def points() -> dict[str, int]:
                asked = {"Pod": made, "Nodes": None, "NodeNames": names}
                url = f"{daemon.url.rstrip('/')}/scheduler/prioritize?profile=dominant-residual"
                answer = requests.post(url, json=asked, timeout=HUNG).json()
                found = {each["Host"]: each["Score"] for each in answer}
                assert found == {names[0]: 0, names[1]: 10, names[2]: 0}, found
                return found

            eventually("the node with a free device is chosen", points, every=1)
        user = f"system:serviceaccount:{installed.namespace}:{installed.account}"
        assert not [call for call in cluster.audit.calls(user=user, since=before) if call.forbidden]
    finally:
        for path in (SLICES, CLAIMS):
            api.delete(path)
