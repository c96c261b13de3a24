"""Resource claims as the API server writes them (resource.k8s.io/v1)."""

import json
from typing import Any

import pytest

from ballast.cluster.workload_cache import DEVICE_CLAIMS, reader
from ballast.model.attachments import DeviceClaim, DeviceRequest, GivenDevice


def read(spec: dict[str, Any], status: dict[str, Any] | None = None, owners: tuple[str, ...] = ()) -> DeviceClaim:
    references = [{"apiVersion": "v1", "kind": kind, "name": "p", "uid": f"of-{kind}"} for kind in owners]
    meta = {"namespace": "ml", "name": "train-0-gpu", "ownerReferences": references}
    body = {"metadata": meta, "spec": spec, **({"status": status} if status else {})}
    found = reader(DEVICE_CLAIMS, lambda key: False).read(json.dumps(body).encode())
    assert isinstance(found, DeviceClaim)
    return found


def asks(**exactly: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.example.com", **exactly}}]}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(asks(), (DeviceRequest("gpus", "gpu.example.com", 1),), id="one without a count"),
        pytest.param(
            asks(allocationMode="ExactCount", count=4), (DeviceRequest("gpus", "gpu.example.com", 4),), id="four"
        ),
        pytest.param(asks(allocationMode="All"), (), id="all of a node"),
        pytest.param(asks(adminAccess=True), (), id="to look after them"),
        pytest.param({}, (), id="nothing"),
        pytest.param(
            {
                "devices": {
                    "requests": [
                        {
                            "name": "any",
                            "firstAvailable": [
                                {"name": "large", "deviceClassName": "large.example.com", "count": 1},
                                {"name": "small", "deviceClassName": "small.example.com", "count": 2},
                            ],
                        }
                    ]
                }
            },
            (DeviceRequest("any/large", "large.example.com", 1),),
            id="the first of several",
        ),
    ],
)
def test_what_a_claim_asks_for(spec: dict[str, Any], expected: tuple[DeviceRequest, ...]) -> None:
    assert read(spec).requests == expected


def test_what_it_was_given_and_whose_it_is() -> None:
    results = [
        {"request": "gpus", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-3"},
        {"request": "gpus", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "adminAccess": True},
    ]
    status = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "of-Pod"}, {"resource": "pods", "uid": "other"}],
    }
    found = read(asks(), status, ("Pod", "Job"))
    assert found.given == (GivenDevice("gpus", "gpu.example.com", "n1", "gpu-3"),)
    assert found.pods == ("of-Pod", "other")
    assert (found.namespace, found.name) == ("ml", "train-0-gpu")
