"""What is read of workloads and quotas."""

from typing import Any

import msgspec
import pytest

from ballast.cluster.objects.decoding import Shared
from ballast.cluster.workloads import WireOther, WireQuota, WireWorkload, to_other, to_quota, to_workload
from ballast.model.workload import Workload


def workload(kind: str = "Deployment", **spec: Any) -> Workload:
    document = {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}
    return to_workload(kind, msgspec.convert(document, WireWorkload), Shared(), lambda key: False)


def template(*probes: Any) -> Any:
    """A container for each probe, None for one without."""
    return {"spec": {"containers": [{} if probe is None else {"startupProbe": probe} for probe in probes]}}


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({}, 0.0),
        ({"template": template(None)}, 0.0),
        ({"progressDeadlineSeconds": 600}, 600.0),
        ({"template": template({})}, 30.0),
        ({"template": template({"failureThreshold": 60, "initialDelaySeconds": 5}, {"periodSeconds": 20})}, 605.0),
        ({"progressDeadlineSeconds": 60, "template": template({"failureThreshold": 30})}, 300.0),
        ({"progressDeadlineSeconds": 600, "template": template({"failureThreshold": 30})}, 600.0),
    ],
)
def test_how_long_a_new_pod_may_take(spec: Any, seconds: float) -> None:
    assert workload(**spec).starts_within == seconds


def test_which_workloads_create_pods_in_order() -> None:
    assert workload("StatefulSet").ordered
    assert workload("StatefulSet", podManagementPolicy="OrderedReady").ordered
    assert not workload("StatefulSet", podManagementPolicy="Parallel").ordered
    assert not workload("Deployment").ordered


RETAIN, DELETE = ({"whenDeleted": "Retain", "whenScaled": said} for said in ("Retain", "Delete"))
TEMPLATES = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]


@pytest.mark.parametrize(
    ("policy", "templates", "deletes"),
    [
        (DELETE, TEMPLATES, True),
        ({"whenScaled": "Recycle"}, TEMPLATES, True),
        (DELETE, [], False),
        (DELETE, None, False),
        (RETAIN, TEMPLATES, False),
        ({"whenDeleted": "Delete"}, TEMPLATES, False),
        (None, TEMPLATES, False),
        (None, None, False),
    ],
)
def test_which_stateful_sets_delete_claims_in_a_fall(policy: Any, templates: Any, deletes: bool) -> None:
    spec = {"persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": templates}
    assert workload("StatefulSet", **spec).deletes_claims is deletes


@pytest.mark.parametrize(
    ("spec", "deletes"),
    [
        (b"{}", False),
        (b"null", False),
        (b'{"template": {"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "a"}}]}}}', False),
        (b'{"template": {"spec": {"volumes": [{"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}}}', False),
        (b'{"volumeClaimTemplates": []}', False),
        (b'{"volumeClaimTemplates": [{"spec": {}}]}', True),
        (b'{"nodeSets": [{"count": 3, "volumeClaimTemplates": [{"spec": {}}]}]}', True),
        (b'{"storage": {"volumes": [{"type": "disk", "deleteClaim": true}]}}', True),
        (b'{"storage": {"volumes": [{"type": "disk", "deleteClaim": false}]}}', False),
        (b'{"volumeClaimTemplates": [{}], "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}', False),
        (b'{"storage": {"claims": {"whenScaled": "Delete"}}}', True),
    ],
)
def test_which_owners_of_other_kinds_may_delete_claims_in_a_fall(spec: bytes, deletes: bool) -> None:
    body = b'{"kind": "Ring", "apiVersion": "example.org/v1", "metadata": {"name": "r"}, "spec": ' + spec + b"}"
    other = to_other(msgspec.json.decode(body, type=WireOther), Shared(), lambda key: False)
    assert other.deletes_claims is deletes


def test_what_is_full_of_a_quota() -> None:
    status = {
        "hard": {"pods": "10", "requests.cpu": "2", "limits.memory": "1Gi", "services": "1"},
        "used": {"pods": "9", "requests.cpu": "2000m", "limits.memory": "2Gi", "services": "1"},
    }
    document = {"metadata": {"name": "small", "namespace": "shop"}, "status": status}
    quota = to_quota(msgspec.convert(document, WireQuota), Shared())
    assert (quota.namespace, quota.full) == ("shop", ("requests.cpu", "limits.memory"))
    assert to_quota(msgspec.convert({"metadata": {"name": "new"}}, WireQuota), Shared()).full == ()
