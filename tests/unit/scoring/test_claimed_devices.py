"""Devices of ResourceSlices less what claims were given, and what pods ask for by claims."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.attachments import DeviceClaim, DeviceRequest, DeviceSlice, GivenDevice
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.template import Template
from ballast.scoring.devices.claimed import ClaimedDevices, claimed_devices
from ballast.scoring.strategy import strategy
from tests.properties import examples
from tests.unit.scoring.worlds import a_fleet, a_pod, by_node, node, pod

DRIVER = "gpu.example.com"
RESOURCE = f"resource.k8s.io/{DRIVER}"


def slice_of(name: str, count: int, *, pool: str = "", generation: int = 1, driver: str = DRIVER) -> DeviceSlice:
    names = tuple(f"gpu-{number}" for number in range(count))
    return DeviceSlice(
        f"{name}-{generation}",
        driver,
        pool or name,
        node=name,
        devices=("a100",) * count,
        names=names,
        generation=generation,
    )


def claim(
    uid: str = "", count: int = 1, given: Sequence[tuple[str, str]] = (), *, device_class: str = DRIVER
) -> DeviceClaim:
    """`given` are (pool, device)."""
    results = tuple(GivenDevice("gpus", DRIVER, pool, device) for pool, device in given)
    return DeviceClaim("default", f"claim-{uid}", (uid,), (DeviceRequest("gpus", device_class, count),), results)


def test_devices_that_claims_were_given_are_not_free() -> None:
    claims = [claim("one", 2, [("a", "gpu-0"), ("a", "gpu-3")]), claim("two")]
    found = claimed_devices([slice_of("a", 4), slice_of("b", 2)], claims)
    assert found.free == {"a": {RESOURCE: 2.0}, "b": {RESOURCE: 2.0}}
    assert found.asked == {"one": {RESOURCE: 2}, "two": {RESOURCE: 1}}


@examples(60)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.data())
def test_free_and_given_devices_are_all_of_them(counts: list[int], data: st.DataObject) -> None:
    devices = [(f"n{node}", f"gpu-{number}") for node, count in enumerate(counts) for number in range(count)]
    given_ = data.draw(st.lists(st.sampled_from(devices), unique=True)) if devices else []
    claims = [claim(str(number), given=[device]) for number, device in enumerate(given_)]
    found = claimed_devices([slice_of(f"n{node}", count) for node, count in enumerate(counts)], claims)
    assert sum(each[RESOURCE] for each in found.free.values()) == len(devices) - len(given_)
    assert all(amount >= 0 for each in found.free.values() for amount in each.values())


def test_an_outdated_slice_of_a_pool_does_not_count() -> None:
    slices = [slice_of("a", 4, generation=1), slice_of("a", 2, generation=2), slice_of("b", 3, generation=1)]
    assert claimed_devices(slices, []).free == {"a": {RESOURCE: 2.0}, "b": {RESOURCE: 3.0}}


def test_devices_that_several_nodes_reach_are_nobodys() -> None:
    shared = DeviceSlice("net", DRIVER, "net", everywhere=True, devices=("x",), names=("x",))
    assert claimed_devices([shared], [claim("one")]) == ClaimedDevices()


def test_the_driver_of_a_class_is_learned_from_claims_that_were_given_devices() -> None:
    slices = [slice_of("a", 4)]
    waits = claim("waits", 2, device_class="large-gpu")
    assert claimed_devices(slices, [waits]).asked == {}
    there = claim("there", 1, [("a", "gpu-0")], device_class="large-gpu")
    assert claimed_devices(slices, [waits, there]).asked["waits"] == {RESOURCE: 2}


def test_a_pod_that_claims_a_device_goes_where_one_is_free_and_leaves_whole_nodes_to_those_that_claim_many() -> None:
    """Alike but for their devices: none, one and two of four are free."""
    claims = [
        claim("x", 2, [("b", "gpu-0"), ("b", "gpu-1")]),
        claim("y", 1, [("b", "gpu-2")]),
        claim("z", 2, [("c", "gpu-0"), ("c", "gpu-1")]),
    ]
    found = claimed_devices([slice_of("b", 4), slice_of("c", 4)], claims)
    fleet = a_fleet([node(name, {"cpu": "16"}) for name in "abc"])
    fleet = replace(fleet, nodes=found.on(fleet.nodes))
    profiles = [{"requests": {"cpu": 1, RESOURCE: 1}}, {"requests": {"cpu": 1, RESOURCE: 2}}]
    asking = msgspec.structs.replace(a_pod(pod({"cpu": "1"})), claimed={RESOURCE: 1})
    scores = by_node(fleet, strategy("dominant-residual", {"profiles": profiles}).score(fleet, asking))
    assert scores["a"] == 0
    assert scores["b"] == 100 > scores["c"] > 0


def test_nodes_and_pods_without_devices_stay_as_they_are() -> None:
    plain, waiting = Node("a"), Pod("default", "p", "u")
    nothing = claimed_devices([], [])
    assert nothing.on([plain])[0] is plain
    assert nothing.of(waiting) is waiting


def test_devices_in_parts_are_no_whole_ones_and_a_node_of_them_alone_has_no_number() -> None:
    mixed = msgspec.structs.replace(slice_of("a", 4), in_parts=("gpu-2", "gpu-3"))
    parts = msgspec.structs.replace(slice_of("b", 3), in_parts=("gpu-0", "gpu-1", "gpu-2"))
    found = claimed_devices([mixed, parts, slice_of("c", 0)], [claim("one", 1, [("b", "gpu-0")])])
    assert found.free == {"a": {RESOURCE: 2.0}, "c": {RESOURCE: 0.0}}
    assert claimed_devices([parts], [claim("one")]) == ClaimedDevices()


def test_a_claim_that_a_pod_names_is_asked_for_until_it_is_given_devices() -> None:
    named = msgspec.structs.replace(claim(count=2), name="ours", pods=())
    sharing = Pod("default", "p", "u", template=Template(shared_devices=True, named_claims=("ours", "missing")))
    both = claimed_devices([slice_of("a", 4)], [named, claim("u")])
    assert both.of(sharing).claimed == {RESOURCE: 3}
    assert both.of(Pod("other", "p", "v", template=sharing.template)).claimed == {}
    given_ = msgspec.structs.replace(named, given=(GivenDevice("gpus", DRIVER, "a", "gpu-0"),))
    after = claimed_devices([slice_of("a", 4)], [given_])
    assert after.of(sharing).claimed == {}
    assert after.free == {"a": {RESOURCE: 3.0}}
