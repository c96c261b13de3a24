import json
from pathlib import Path

import numpy as np
import pytest

from ballast.base.errors import UsageError
from ballast_lab.experiments.worlds import CALIBRATED, PODS, SHARES, arrivals, worlds

DATA = Path(__file__).parents[3] / "tests" / "data"
ROW = [100, 100, 1]


def test_the_list_of_seed_0_is_the_one_the_worlds_were_chosen_with() -> None:
    assert arrivals(0).tolist() == json.loads((DATA / "pods_seed0.json").read_text())


def test_lists_of_other_seeds_have_the_same_pods_in_another_order() -> None:
    one, other = arrivals(1), arrivals(2)
    assert one.tolist() != other.tolist()
    assert sorted(one.tolist()) == sorted(other.tolist())


@pytest.mark.parametrize("count", [0, 1, 37, PODS])
def test_a_list_of_any_length_has_the_shares_of_the_paper(count: int) -> None:
    found = np.bincount(arrivals(0, count), minlength=len(SHARES))
    assert found.sum() == count
    assert (np.abs(found - SHARES * count) < 1).all()


def test_the_worlds_that_come_along_have_cores_and_bytes() -> None:
    found = worlds()
    assert set(CALIBRATED) < set(found)
    assert len(found) == 10
    world = found["R1"]
    [first, *_], [request, *_] = world.fleet(), world.shapes()
    assert first.allocatable == {"cpu": 109.626, "memory": 898063 * 2.0**20, "ephemeral-storage": 1392 * 2.0**30}
    assert request.requests["cpu"] == 0.634


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "no world"),
        (json.dumps({"a": {"R": [ROW], "A0": [ROW]}}), "a has 1 requests"),
        (json.dumps({"a": {"R": [ROW] * 12, "A0": []}}), "a has no nodes"),
        (json.dumps({"a": {"R": [ROW] * 12, "A0": [[1, 2, -3]]}}), "below 0"),
        (json.dumps({"a": {"R": [ROW] * 12, "A0": [[1, 2]]}}), "length"),
    ],
)
def test_a_file_that_is_no_list_of_worlds_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "worlds.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=message):
        worlds(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.json: No such file"):
        worlds(tmp_path / "nowhere.json")
