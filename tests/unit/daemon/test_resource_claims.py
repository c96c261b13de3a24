"""A whole daemon reads ResourceSlices and ResourceClaims, where the server has them."""

from pathlib import Path
from typing import Any

import pytest
import requests

from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.simulator.kube.kinds import BY_NAME
from tests.worlds.daemons import POD, Rig, rig

pytestmark = pytest.mark.slow

SLICE, CLAIM = BY_NAME["ResourceSlice"], BY_NAME["ResourceClaim"]
DRIVER = "gpu.example.com"
RESOURCE = f"resource.k8s.io/{DRIVER}"
KEYS = '{"dominant-residual": {"profiles": [{"requests": {"cpu": "100m", "resource.k8s.io/gpu.example.com": 1}}]}}'


def slice_of(rig: Rig, node: str, devices: int) -> None:
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
    }
    body = {**SLICE.type_fields, "metadata": {"name": f"slice-{node}"}, "spec": spec}
    rig.cluster.resources.create(SLICE, "", body)


def claim(rig: Rig, name: str, uid: str = "", given: tuple[str, str] | None = None) -> None:
    requests_ = [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": 1}}]
    owner = [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}] if uid else []
    results = [{"request": "gpus", "driver": DRIVER, "pool": given[0], "device": given[1]}] if given else []
    body = {
        **CLAIM.type_fields,
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owner},
        "spec": {"devices": {"requests": requests_}},
        "status": {"allocation": {"devices": {"results": results}}} if given else {},
    }
    rig.cluster.resources.create(CLAIM, "default", body)
    if given:
        rig.cluster.resources.update(CLAIM, "default", name, lambda found: {**found, "status": body["status"]})


def waiting(rig: Rig) -> dict[str, Any]:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "g"}]}}]
    claims = [{"name": "g", "resourceClaimTemplateName": "one-gpu"}]
    body = {
        **POD.type_fields,
        "metadata": {"name": "asks", "namespace": "default"},
        "spec": {"containers": containers, "resourceClaims": claims},
        "status": {"phase": "Pending"},
    }
    return dict(rig.cluster.resources.create(POD, "default", body).read())


def points(daemon: Daemon, pod: dict[str, Any], names: list[str]) -> dict[str, int]:
    body = {"Pod": pod, "Nodes": None, "NodeNames": names}
    url = daemon.url.rstrip("/") + "/scheduler/prioritize?profile=dominant-residual"
    answer = requests.post(url, json=body, timeout=HUNG)
    assert answer.status_code == 200, answer.text
    return {each["Host"]: each["Score"] for each in answer.json()}


def test_whole_devices_of_slices_less_what_claims_were_given_decide(tmp_path: Path) -> None:
    """One node has a device that is taken, one a free one, the third has none."""
    with rig(tmp_path, nodes=3) as one:
        first, second, third = one.names
        slice_of(one, first, 1)
        slice_of(one, second, 1)
        claim(one, "taken", given=(first, "gpu-0"))
        daemon = one.daemon(SCORING__KEYS=KEYS)
        asks = waiting(one)
        claim(one, "asks-g", asks["metadata"]["uid"])
        until(lambda: len(daemon.context.workloads.device_claims()) == 2, "the claims")
        until(lambda: len(daemon.context.workloads.device_slices()) == 2, "the slices")
        one.advance()
        one.watch(daemon)
        free = {each.name: each.allocatable.get(RESOURCE, 0.0) for each in daemon.extender._state.model.fleet.nodes}
        assert free == {first: 0.0, second: 1.0, third: 0.0}
        found = points(daemon, asks, one.names)
        assert found[second] == 10
        assert found[first] == found[third] == 0


def test_who_may_not_read_them_decides_without(tmp_path: Path) -> None:
    with rig(tmp_path, nodes=3) as one:
        one.faults.kube_forbidden("list", "resourceslices")
        one.faults.kube_forbidden("list", "resourceclaims")
        slice_of(one, one.names[0], 1)
        daemon = one.daemon()
        asks = waiting(one)
        one.advance()
        one.watch(daemon)
        assert not daemon.context.workloads.device_slices()
        assert sorted(points(daemon, asks, one.names).values())[-1] == 10
