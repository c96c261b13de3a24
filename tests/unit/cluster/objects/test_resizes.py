"""A pod that is resized in place counts with the most of what it asks for, was given and has."""

from typing import Any

import msgspec
import pytest

from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, to_pod


def requests(document: dict[str, Any]) -> dict[str, float]:
    pod = to_pod(msgspec.convert(document, wire.Pod), Shared(), lambda key: False)
    return dict(pod.shape.requests)


def pod(asked: Any, allocated: Any = None, actuated: Any = None, *conditions: dict[str, str], **spec: Any) -> Any:
    status: dict[str, Any] = {"name": "c", "allocatedResources": allocated}
    if actuated is not None:
        status["resources"] = {"requests": actuated}
    return {
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": asked}}], "nodeName": "n", **spec},
        "status": {"containerStatuses": [status], "conditions": list(conditions)},
    }


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("document", "cpu"),
    [
        (pod({"cpu": "1"}, {"cpu": "7500m"}, {"cpu": "2"}), 7.5),
        (pod({"cpu": "1"}, {"cpu": "2"}, {"cpu": "7500m"}), 7.5),
        (pod({"cpu": "8"}, {"cpu": "2"}, {"cpu": "1"}), 8.0),
        (pod({"cpu": "1"}, {"cpu": "7500m"}), 7.5),
        (pod({"cpu": "1"}, {"cpu": "1"}, {"cpu": "1"}), 1.0),
        (pod({"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "1"}), 1.0),
        (pod({"cpu": "1"}), 1.0),
        (pod({"cpu": "1"}, {}, {}), 1.0),
        (pod({"cpu": "8"}, {"cpu": "2"}, {"cpu": "1"}, INFEASIBLE), 2.0),
        (pod({"cpu": "8"}, None, None, INFEASIBLE), 8.0),
        (pod({"cpu": "8"}, {"cpu": "2"}, {"cpu": "1"}, DEFERRED), 8.0),
        (pod({"cpu": "1"}, {"cpu": "lots"}, {"cpu": "3"}), 3.0),
        (pod(None, {"cpu": "2"}, {"cpu": "3"}), 3.0),
    ],
    ids=(
        "allocated",
        "actuated",
        "asked",
        "allocated alone",
        "settled",
        "spelled otherwise",
        "nothing said",
        "empty",
        "infeasible",
        "infeasible and silent",
        "deferred",
        "unreadable",
        "nothing asked",
    ),
)
def test_the_most_counts(document: Any, cpu: float) -> None:
    assert requests(document)["cpu"] == cpu


def test_sidecars_count_so_and_init_containers_do_not() -> None:
    document = pod({"cpu": "1"})
    document["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "1"}}},
    ]
    document["status"]["initContainerStatuses"] = [
        {"name": "s", "allocatedResources": {"cpu": "3"}},
        {"name": "i", "allocatedResources": {"cpu": "30"}},
    ]
    assert requests(document)["cpu"] == 4.0


def test_the_pod_as_a_whole() -> None:
    document = pod({"cpu": "1"}, resources={"requests": {"cpu": "2"}})
    document["status"] |= {"allocatedResources": {"cpu": "5"}, "resources": {"requests": {"cpu": "3"}}}
    assert requests(document)["cpu"] == 5.0


def test_pods_of_one_spec_and_different_resizes_do_not_share_a_shape() -> None:
    shared = Shared()
    read = [
        to_pod(msgspec.convert(pod({"cpu": "1"}, {"cpu": text}), wire.Pod), shared, lambda key: False)
        for text in ("1", "4")
    ]
    assert [each.shape.requests["cpu"] for each in read] == [1.0, 4.0]
