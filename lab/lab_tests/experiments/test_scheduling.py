from dataclasses import replace

import numpy as np
import pytest

from ballast.model.pod import Pod
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.fleet import Fleet, NodeLoads
from ballast.scoring.profiles import Profile
from ballast_lab.experiments.redistributor import RedistributionRule, Redistributor
from ballast_lab.experiments.rules import Choice, Residual, Stock
from ballast_lab.experiments.scheduling import gain, schedule
from ballast_lab.experiments.worlds import RESOURCES, SHARES, LoadWorld, arrivals, worlds

WORLDS = worlds()


@pytest.mark.parametrize(("lambda_", "c", "pods"), [(0.1, 50, 744), (0.1, 22, 742), (1, 1, 711)])
def test_the_published_rule_places_as_many_as_published(lambda_: float, c: float, pods: int) -> None:
    assert schedule(WORLDS["R3"], arrivals(0), Residual(lambda_, c, root=False)).count == pods


@pytest.mark.parametrize(
    ("world", "real"),
    [("R1", 524), ("R2", 572), ("R4", 527), ("near12_0", 532), ("near12_2", 529), ("base/homog", 542)],
)
def test_the_embedded_default_places_about_as_many_as_a_real_kube_scheduler(world: str, real: int) -> None:
    counts = [schedule(WORLDS[world], arrivals(0), Stock(ties=ties)).count for ties in range(5)]
    assert abs(np.mean(counts) / real - 1) < 0.06


def test_disk_in_the_configuration_counts() -> None:
    world = WORLDS["near12_0"]
    plain, configured = (schedule(world, arrivals(0), Stock(scored)) for scored in (RESOURCES[:2], RESOURCES))
    assert configured.count > 1.2 * plain.count


def test_balanced_allocation_as_it_was_chooses_other_nodes() -> None:
    world = WORLDS["near12_2"]
    found = {schedule(world, arrivals(0), Stock(until_1_35=old)).count for old in (False, True)}
    assert len(found) == 2


def test_the_criterion_is_the_strategy_that_the_product_scores_with() -> None:
    world = WORLDS["R2"]
    shapes, kinds = world.shapes(), arrivals(3, 150)
    units = [dict(zip(RESOURCES, each, strict=True)) for each in world.requests.tolist()]
    profiles = tuple(Profile(each, share) for each, share in zip(units, SHARES.tolist(), strict=True))
    strategy = DominantResidual(lambda_=0.1, c=2.0, root=True, profiles=profiles)
    rule = Residual().start(world, len(kinds))
    nothing = NodeLoads(np.zeros(17), np.zeros(17), np.zeros(17, bool))
    fleet = Fleet(world.fleet(), (), 0.0, 0.0, nothing, nothing, nothing, nothing, world.nodes[:, 0])
    for number, kind in enumerate(kinds.tolist()):
        raw = strategy.score(fleet, Pod("a", "p", shape=shapes[kind])).raw
        row = rule.choose(number, kind)
        assert row is not None
        assert raw[row] == pytest.approx(np.nanmin(raw), abs=2e-9)
        rule.place(kind, row)
        fleet.placed.add(row, shapes[kind])


@pytest.mark.parametrize("choice", [Stock(), Residual()])
def test_nodes_are_never_overfull_and_no_pod_waits_that_fits(choice: Choice) -> None:
    world = replace(WORLDS["R1"], nodes=WORLDS["R1"].nodes[:4])
    kinds = arrivals(1, 300)
    rule, free = choice.start(world, len(kinds)), world.nodes.copy()
    for number, kind in enumerate(kinds.tolist()):
        row = rule.choose(number, kind)
        if row is None:
            assert not (free >= world.requests[kind]).all(axis=1).any()
        else:
            rule.place(kind, row)
            free[row] -= world.requests[kind]
            assert (free[row] >= 0).all()


@pytest.mark.parametrize("choice", [Stock(), Residual()])
def test_a_pod_that_leaves_gives_its_room_back(choice: Choice) -> None:
    world = LoadWorld("one", np.array([[2, 2, 2]]), np.full((12, 3), 2))
    rule = choice.start(world, 3)
    rule.place(0, 0)
    assert rule.choose(1, 0) is None
    rule.release(0, 0)
    assert rule.choose(2, 0) == 0


def test_an_outcome_counts_what_was_placed() -> None:
    world = LoadWorld("two", np.array([[4, 4, 0], [4, 4, 0]]), np.array([[1, 1, 0], *[[3, 3, 0]] * 10, [9, 9, 0]]))
    found = schedule(world, np.array([0, 1, 11, 1, 1]), Residual())
    assert (found.count, found.first, found.moves) == (3, 2, 0)
    assert found.volume == pytest.approx(7 / 8)
    assert found.accepted == (1.0, 2 / 3, 1.0, 0.0)


def test_a_gain_over_no_pods_is_relative_to_one_pod() -> None:
    assert [gain(count, base) for count, base in ((3, 2), (2, 0), (0, 0))] == [0.5, 2.0, 0.0]


def test_an_eviction_makes_room_when_the_pod_can_go_elsewhere() -> None:
    # A pod of size 2 is on each node of size 4; only if both share one node is there room for the pod of size 4.
    requests = np.array([[2, 2, 0], [4, 4, 0], *[[1, 1, 0]] * 10])
    world = LoadWorld("two", np.array([[4, 4, 0], [4, 4, 0]]), requests)
    kinds = np.array([0, 0, 1])
    without = schedule(world, kinds, Residual(lambda_=1.0))
    published = schedule(world, kinds, Residual(lambda_=1.0), RedistributionRule(priced=False))
    assert (without.count, without.first, without.moves) == (2, 2, 0)
    assert (published.count, published.first, published.moves) == (3, 3, 1)


@pytest.mark.parametrize("priced", [True, False])
def test_skipping_hopeless_kinds_changes_nothing(priced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = replace(WORLDS["near12_0"], nodes=WORLDS["near12_0"].nodes[::3])
    kinds = arrivals(5, 300)
    found = schedule(world, kinds, Residual(), RedistributionRule(priced))
    always = property(lambda self: (), lambda self, value: None)
    monkeypatch.setattr(Redistributor, "_hopeless", always, raising=False)
    assert schedule(world, kinds, Residual(), RedistributionRule(priced)) == found
    assert found.moves or priced


def test_learned_profiles_place_nearly_as_many_as_the_true_ones() -> None:
    kinds = arrivals(1)
    for name in ("R2", "near12_0"):
        true, learned = (schedule(WORLDS[name], kinds, Residual(learned=each)).count for each in (False, True))
        assert learned > 0.97 * true
