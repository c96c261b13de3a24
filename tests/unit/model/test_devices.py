"""What a node has of devices that are handed out in parts, and what a pod asks for and got."""

import pytest

from ballast.model.devices import Claim, claim_in, claim_of, devices_of, parts_of
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.shape import ContainerShape, shape_of

SHARE = "alibabacloud.com/gpu-"
HAMI = "hami.io/vgpu-devices-allocated"


def pod(annotations: dict[str, str] | None = None, **requests: float) -> Pod:
    named = {name.replace("__", ".").replace("_", "/"): amount for name, amount in requests.items()}
    return Pod("default", "x", shape=shape_of([ContainerShape(named)]), annotations=annotations or {})


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({SHARE + "milli": "500"}, Claim(1, 500, True)),
        ({SHARE + "milli": "1000", SHARE + "count": "2"}, Claim(2, 1000, True)),
        ({SHARE + "milli": "300", SHARE + "index": "3"}, Claim(1, 300, True, (("3", 300),))),
        (
            {SHARE + "milli": "1000", SHARE + "count": "2", SHARE + "index": "0-2"},
            Claim(2, 1000, True, (("0", 1000), ("2", 1000))),
        ),
        ({SHARE + "milli": "0"}, None),
        ({SHARE + "milli": "half", SHARE + "count": "1"}, Claim(1, 1000, True)),
        ({SHARE + "milli": "5000"}, Claim(1, 1000, True)),
        ({SHARE + "count": "0", SHARE + "milli": "500"}, None),
    ],
)
def test_gpu_share_is_read_from_annotations(annotations: dict[str, str], expected: Claim | None) -> None:
    assert claim_of(pod(annotations)) == expected


def test_hami_is_read_from_requests_and_from_what_it_allocated() -> None:
    asks = pod(nvidia__com_gpu=1, nvidia__com_gpucores=30)
    assert claim_of(asks) == Claim(1, 300, True)
    got = pod({HAMI: "GPU-a,NVIDIA,3000,30:;"}, nvidia__com_gpu=1, nvidia__com_gpucores=30)
    assert claim_of(got) == Claim(1, 300, True, (("GPU-a", 300),))
    two = pod({HAMI: "GPU-a,NVIDIA,3000,0:GPU-b,NVIDIA,3000,0:;;"}, nvidia__com_gpu=2)
    assert claim_of(two) == Claim(2, 1000, False, (("GPU-a", 1000), ("GPU-b", 1000)))
    assert claim_of(pod({HAMI: "what"}, nvidia__com_gpu=2)) == Claim(2, 1000, False, None)


def test_whole_devices_ask_nothing_of_nodes_that_do_not_hand_out_parts() -> None:
    assert claim_of(pod(nvidia__com_gpu=2)) == Claim(2, 1000, False)
    assert claim_of(pod(amd__com_gpu=2)) is None


def test_parts_that_are_asked_for_by_annotations_count_as_requests() -> None:
    asks = pod({SHARE + "milli": "500"})
    assert parts_of(asks) == {SHARE + "count": 1, SHARE + "milli": 500}
    assert claim_in(parts_of(asks)) == Claim(1, 500, True)
    assert not parts_of(pod())


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        ("GPU-a,10,24576,100,NVIDIA-A10,0,true:GPU-b,10,24576,100,NVIDIA-A10,0,false:", ("GPU-a",)),
        ('[{"id":"GPU-a","count":10,"devmem":24576,"devcore":100,"health":true},{"id":"GPU-b"}]', ("GPU-a", "GPU-b")),
        ('[{"id":"GPU-a","health":false}]', ()),
        ("[broken", ()),
    ],
)
def test_devices_are_those_that_hami_registered(registered: str, expected: tuple[str, ...]) -> None:
    node = Node("n", annotations={"hami.io/node-nvidia-register": registered}, allocatable={"nvidia.com/gpu": 80.0})
    assert devices_of(node) == expected


def test_devices_of_gpu_share_have_numbers_and_other_nodes_have_none_in_parts() -> None:
    assert devices_of(Node("n", allocatable={SHARE + "count": 3.0})) == ("0", "1", "2")
    assert devices_of(Node("n", allocatable={"nvidia.com/gpu": 8.0})) == ()
