"""Room on devices against packing by brute force, and the criterion that counts them."""

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import UsageError
from ballast.model.devices import Claim
from ballast.scoring.devices.room import PlacedDevices, columns, taken, times
from ballast.scoring.dominant_residual import volumes
from ballast.scoring.strategy import strategy
from tests.properties import examples
from tests.unit.scoring.worlds import a_fleet, by_node, node, pod, scored

FREE = st.lists(st.integers(0, 4).map(lambda quarter: 250 * quarter), min_size=1, max_size=4)
CLAIMS = st.tuples(st.integers(1, 3), st.sampled_from([250, 400, 500, 1000]))
SHARE = "alibabacloud.com/gpu-"


@cache
def packed(free: tuple[int, ...], count: int, milli: int) -> int:
    """How many claims fit, one after the other, tried in every way."""
    best = 0
    for chosen in combinations(range(len(free)), count):
        if all(free[device] >= milli for device in chosen):
            left = tuple(sorted(each - milli * (device in chosen) for device, each in enumerate(free)))
            best = max(best, 1 + packed(left, count, milli))
    return best


def room(free: list[int], count: int, milli: int) -> float:
    return float(times(np.array([[free]], float), np.array([count]), np.array([milli], float))[0, 0])


@examples(150)
@given(FREE, CLAIMS)
def test_room_is_what_can_be_packed(free: list[int], claim: tuple[int, int]) -> None:
    assert room(free, *claim) == packed(tuple(sorted(free)), *claim)


@examples(100)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(1, 8), st.integers(1, 1000), st.data())
def test_less_free_is_never_more_room(free: list[int], count: int, milli: int, data: st.DataObject) -> None:
    device = data.draw(st.integers(0, len(free) - 1))
    less = [each - (data.draw(st.integers(0, each)) if index == device else 0) for index, each in enumerate(free)]
    assert room(less, count, milli) <= room(free, count, milli)
    assert room(free, count, min(milli + 1, 1000)) <= room(free, count, milli)
    assert room(free, count + 1, milli) <= room(free, count, milli)


def test_halves_of_two_devices_are_no_whole_device() -> None:
    assert room([500, 500], 1, 1000) == 0
    assert room([500, 500, 1000], 1, 600) == 1
    assert room([1000, 1000, 1000, 1000, 1000], 2, 1000) == 2


@examples(100)
@given(FREE, CLAIMS)
def test_what_is_taken_comes_from_different_devices_with_room(free: list[int], claim: tuple[int, int]) -> None:
    count, milli = claim
    after, fits = taken(np.array([free], float), np.array([count]), np.array([milli], float))
    assert bool(fits[0]) == (sum(each >= milli for each in free) >= count)
    if fits[0]:
        assert after.sum() == sum(free) - count * milli
        assert after.min() >= 0


def test_the_fullest_device_is_taken_so_that_whole_ones_stay() -> None:
    after, _ = taken(np.array([[1000.0, 400.0, 700.0]]), 1, 300.0)
    assert sorted(after[0]) == [100, 700, 1000]


def test_more_devices_than_there_are_fit_nowhere() -> None:
    assert columns(Claim(2, 500, True), 3).tolist() == [500, 500, 0]
    assert not taken(np.array([[1000.0, 1000.0]]), 1, columns(Claim(3, 1000, True), 2).max())[1]


KNOWN = st.tuples(st.sampled_from([200, 500, 1000]), st.sampled_from("ab"))


@examples(100)
@given(st.lists(KNOWN, max_size=4), st.sampled_from([100, 300, 500, 1000]))
def test_an_unknown_device_never_leaves_more_room_than_any_known_one(known: list[tuple[int, str]], milli: int) -> None:
    def free(on: str | None) -> np.ndarray[Any, np.dtype[np.float64]]:
        devices = PlacedDevices([("a", "b")])
        for size, name in known:
            devices.add(0, Claim(1, size, True, ((name, size),)))
        devices.add(0, Claim(1, milli, True, None if on is None else ((on, milli),)))
        return devices.free[0]

    for name in "ab":
        assert (free(None) <= free(name)).all()


def test_an_expected_pod_takes_the_fullest_device_and_gives_it_back() -> None:
    devices = PlacedDevices([("a", "b"), ()])
    devices.add(0, Claim(1, 400, True, (("b", 400),)))
    devices.add(0, Claim(1, 300, True), expected=True)
    assert sorted(devices.free[0]) == [300, 1000]
    devices.add(0, Claim(1, 300, True), -1, expected=True)
    assert devices.free[0].tolist() == [1000, 600]
    assert np.isinf(devices.free[1]).all()
    assert devices.total.tolist() == [2000, 0]


def test_volumes_are_shares_of_the_devices_and_of_anything_else_for_pods_without_any() -> None:
    whole = np.array([[10.0, 8.0], [90.0, 0.0]])
    amounts = np.array([[10.0, 1.0], [10.0, 8.0], [50.0, 0.0]])
    found = volumes(amounts, whole, np.array([1]))
    assert found[1] == 8 * found[0]
    assert found[2] == 0.5
    assert volumes(amounts[2:], whole, np.array([1])).tolist() == [0.5]


WHOLE = [
    node("two", {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "2"}),
    node("eight", {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8"}),
    node("none", {"cpu": "16", "memory": "64Gi"}),
]


def of(cpu: str, gpus: int) -> dict[str, str]:
    return {"cpu": cpu, "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}


def test_one_device_is_taken_where_no_room_for_large_pods_is_lost() -> None:
    profiles = [{"requests": of("1", 8), "weight": 1}, {"requests": of("1", 1), "weight": 20}]
    found = by_node(a_fleet(WHOLE), scored(a_fleet(WHOLE), pod(of("1", 1)), "dominant-residual", profiles=profiles))
    assert found["two"] == 100
    assert found["eight"] < found["two"]
    assert found["none"] == 0


def test_lambda_is_zero_where_devices_decide_unless_it_is_given() -> None:
    fleet, profiles = a_fleet(WHOLE), [{"requests": of("1", 1), "weight": 1}]
    found = scored(fleet, pod(of("1", 1)), "dominant-residual", profiles=profiles)
    assert found.raw[:2] == pytest.approx(found.terms["loss"][:2])
    given = scored(fleet, pod(of("1", 1)), "dominant-residual", profiles=profiles, **{"lambda": 0.1})
    assert given.raw[:2] == pytest.approx(0.1 * given.terms["dominant"][:2] + 0.9 * given.terms["loss"][:2])
    shares = scored(fleet, pod(of("1", 1)), "dominant-residual", profiles=profiles, devices=False)
    assert shares.raw[:2] == pytest.approx(0.1 * shares.terms["dominant"][:2] + 0.9 * shares.terms["loss"][:2])


def test_further_devices_are_named_and_counted_whole() -> None:
    nodes = [node(str(free), {"cpu": "16", "example.com/chip": str(free)}) for free in (7, 8)]
    asks = pod({"cpu": "1", "example.com/chip": "1"})
    profiles = [{"requests": {"example.com/chip": "4"}}]
    found = scored(a_fleet(nodes), asks, "dominant-residual", profiles=profiles, devices=["example.com/chip"])
    assert found.terms["loss"].tolist() == [0, pytest.approx(1 - np.sqrt(1 / 2))]


SHARED = [
    node("full", {"cpu": "16", "memory": "64Gi", SHARE + "count": "2", SHARE + "milli": "2000"}),
    node("split", {"cpu": "16", "memory": "64Gi", SHARE + "count": "2", SHARE + "milli": "2000"}),
    node("plain", {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "2"}),
]


def part(milli: int, *, name: str = "arriving", on: str = "", index: str = "", count: int = 1) -> dict[str, Any]:
    document = dict(pod({"cpu": "1", "memory": "1Gi"}, name=name, on=on))
    annotations = {
        SHARE + "milli": str(milli),
        SHARE + "count": str(count),
        **({SHARE + "index": index} if index else {}),
    }
    document["metadata"] = {"name": name, "annotations": annotations}
    return document


def test_parts_of_devices_are_counted_on_each_device() -> None:
    placed = [
        part(500, name="a", on="full", index="0"),
        part(500, name="b", on="full", index="0"),
        part(500, name="c", on="split", index="0"),
        part(500, name="d", on="split", index="1"),
    ]
    fleet = a_fleet(SHARED, placed)
    assert by_node(fleet, scored(fleet, part(1000), "dominant-residual")) == {"full": 100, "split": 0, "plain": 0}
    halves = by_node(fleet, scored(fleet, part(500), "dominant-residual", profiles=[
        {"requests": {SHARE + "milli": "1000", SHARE + "count": "1"}}
    ]))  # fmt: skip
    assert halves["split"] > halves["full"] > 0
    assert halves["plain"] == 0
    assert by_node(fleet, scored(fleet, part(500, count=3), "dominant-residual")) == dict.fromkeys(halves, 0)


def test_a_pod_without_an_index_counts_on_every_device() -> None:
    fleet = a_fleet(SHARED[:1], [part(600, name="a", on="full")])
    assert scored(fleet, part(500), "dominant-residual").scores.tolist() == [0]
    assert scored(fleet, part(400), "dominant-residual").scores.tolist() == [100]


def test_parts_are_asked_for_in_vain_where_no_node_hands_them_out() -> None:
    fleet = a_fleet(SHARED[2:])
    assert scored(fleet, part(500), "dominant-residual").scores.tolist() == [0]


def test_hami_pods_are_not_kept_off_by_resources_that_the_scheduler_does_not_count() -> None:
    register = "GPU-a,10,24576,100,A10,0,true:GPU-b,10,24576,100,A10,0,true:"
    nodes = [node("h", {"cpu": "16", "nvidia.com/gpu": "20"}, annotations={"hami.io/node-nvidia-register": register})]
    allocated = {"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,100,80:;"}
    busy = dict(pod({"cpu": "1", "nvidia.com/gpu": "1", "nvidia.com/gpucores": "80"}, name="busy", on="h"))
    busy["metadata"] = {"name": "busy", "annotations": allocated}
    fleet = a_fleet(nodes, [busy])
    assert fleet.devices.free[0].tolist() == [200, 1000]

    def score(gpus: str, cores: str) -> list[int]:
        asks = pod({"nvidia.com/gpu": gpus, "nvidia.com/gpucores": cores})
        return list(scored(fleet, asks, "dominant-residual").scores)

    assert score("1", "50") == [100]
    assert score("2", "20") == [100]
    assert score("2", "30") == [0]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"weigh_by": "size"}, "choose one of count, volume"),
        ({"devices": 3}, "give true, false, or names"),
        ({"devices": ["gpu"]}, "give true, false, or names"),
    ],
)
def test_other_values_of_the_keys_of_devices_are_refused(keys: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        strategy("dominant-residual", keys)


@pytest.mark.parametrize("devices", [True, "true", "example.com/chip", ["example.com/chip"]])
def test_the_usual_devices_always_count(devices: object) -> None:
    found = strategy("dominant-residual", {"devices": devices})
    assert found.whole[:2] == ("nvidia.com/gpu", "amd.com/gpu")  # type: ignore[attr-defined]
