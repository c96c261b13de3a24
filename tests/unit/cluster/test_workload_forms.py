"""What is read of workloads and quotas."""

from typing import Any

import msgspec
import pytest

from ballast.cluster.objects.decoding import Shared
from ballast.cluster.workloads import WireQuota, WireWorkload, to_quota, to_workload
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


def test_what_is_full_of_a_quota() -> None:
    status = {
        "hard": {"pods": "10", "requests.cpu": "2", "limits.memory": "1Gi", "services": "1"},
        "used": {"pods": "9", "requests.cpu": "2000m", "limits.memory": "2Gi", "services": "1"},
    }
    document = {"metadata": {"name": "small", "namespace": "shop"}, "status": status}
    quota = to_quota(msgspec.convert(document, WireQuota), Shared())
    assert (quota.namespace, quota.full) == ("shop", ("requests.cpu", "limits.memory"))
    assert to_quota(msgspec.convert({"metadata": {"name": "new"}}, WireQuota), Shared()).full == ()
