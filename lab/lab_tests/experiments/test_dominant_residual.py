from dataclasses import replace

import pytest

from ballast_lab.experiments.dominant_residual import BEST, OURS, PUBLISHED, STOCK, TUNED, Sweep, sweep
from ballast_lab.experiments.worlds import worlds

TINY = {"lambdas": (0.1, 1.0), "cs": (2.0, 22.0), "ties": 2, "pods": 300}
WORLDS = {name: replace(world, nodes=world.nodes[:5]) for name, world in worlds().items()}


@pytest.fixture(scope="module")
def found() -> Sweep:
    return sweep([WORLDS["R1"], WORLDS["R3"]], [0, 1], **TINY)


def test_the_grid_is_the_mean_over_worlds_and_lists(found: Sweep) -> None:
    assert [(place.world, place.seed) for place in found.places] == [("R1", 0), ("R1", 1), ("R3", 0), ("R3", 1)]
    assert found.counts.shape == (2, 2)
    assert found.counts[0, 1] == sum(place.grid[0][1].count for place in found.places) / 4


def test_the_best_setting_is_where_most_are_placed(found: Sweep) -> None:
    lambda_, c, count = found.best()
    assert count == found.counts.max() == found.counts[found.lambdas.index(lambda_), found.cs.index(c)]


def test_c_plays_no_part_where_lambda_is_1(found: Sweep) -> None:
    assert len(set(found.counts[1])) == 1


def test_rules_are_set_beside_the_default_on_the_same_pods(found: Sweep) -> None:
    rules = found.rules()
    assert rules[STOCK].gain == pytest.approx(0.0)
    assert rules[STOCK].least <= rules[STOCK].count <= rules[STOCK].most
    assert {PUBLISHED, OURS, BEST, TUNED} <= set(rules)
    assert rules[BEST].count >= rules[TUNED].count
    assert rules[BEST].gain > 0
    assert all(0 <= share <= 1 for share in rules[OURS].accepted)


def test_each_world_has_its_own_table(found: Sweep) -> None:
    parts = found.worlds()
    assert list(parts) == ["R1", "R3"]
    assert sum(part.base for part in parts.values()) / 2 == pytest.approx(found.base)
    assert found.document()["worlds"]["R3"][OURS] == parts["R3"].rules()[OURS].count


def test_nothing_was_tuned_elsewhere_without_another_list() -> None:
    assert TUNED not in sweep([WORLDS["R1"]], [0], **{**TINY, "pods": 50}).rules()


def test_the_number_of_processes_changes_nothing() -> None:
    options = {**TINY, "pods": 60}
    alone, together = (sweep([WORLDS["R2"]], [4], **options, jobs=jobs).document() for jobs in (1, 2))
    assert alone == together


def test_every_run_is_counted_as_it_ends() -> None:
    calls: list[int] = []

    def begin(total: int):  # type: ignore[no-untyped-def]
        calls.append(total)
        return lambda: calls.append(1)

    sweep([WORLDS["R2"]], [0], **{**TINY, "pods": 10}, begin=begin)
    assert calls[0] == sum(calls[1:]) == 3 * 2 + 4 + 2
