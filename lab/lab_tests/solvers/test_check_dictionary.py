import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_lab.solvers.check_dictionary import CheckDictionary
from ballast_lab.solvers.paper import Broken, PaperPopulation, Quirks
from lab_tests.solvers.test_solvers import world


@given(seed=st.integers(0, 10_000), pods=st.integers(1, 8), nodes=st.integers(1, 5))
def test_a_repaired_row_has_one_allowed_bit_and_good_rows_stay(seed: int, pods: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    allowed = rng.random((pods, nodes)) < 0.6
    allowed[np.arange(pods), rng.integers(nodes, size=pods)] = True
    dictionary = CheckDictionary(allowed, rng.random((pods, nodes)) < 0.3)
    bits = rng.random((4, pods, nodes)) < 0.4
    before, broken = bits.copy(), dictionary.broken(bits)
    assert dictionary.repair(bits, rng) == broken.sum()
    assert not dictionary.broken(bits).any()
    assert (bits.sum(axis=2) == 1).all()
    assert (bits[~broken] == before[~broken]).all()
    tended = broken & ~(before & allowed).any(axis=2) & dictionary.tends.any(axis=1)
    assert (bits & dictionary.tends).any(axis=2)[tended].all()


@pytest.mark.parametrize("quirks", [Quirks(), Quirks(whole_rows=True), Quirks(elite=True, flat=False)])
def test_every_generation_is_repaired(quirks: Quirks) -> None:
    population = PaperPopulation(world(4, 20), np.random.default_rng(0), quirks)
    first = population.sigma
    for _ in range(40):
        population.step()
        assert (population.bits.sum(axis=2) == 1).all()
    assert population.sigma < first


def test_equation_7_as_printed_evens_the_average_pod_not_the_load() -> None:
    problem = world(4, 30)
    literal = PaperPopulation(problem, np.random.default_rng(0), Quirks(per_pod=True, elite=True, flat=False))
    sound = PaperPopulation(problem, np.random.default_rng(0), Quirks(elite=True, flat=False))
    for _ in range(150):
        literal.step()
        sound.step()
    used = [np.bincount(each.on, weights=problem.use[:, 0], minlength=4) for each in (literal, sound)]
    assert used[0].std() > 2 * used[1].std()


def test_without_repair_a_placement_is_still_valid() -> None:
    population = PaperPopulation(world(4, 20), np.random.default_rng(0), Quirks(broken=Broken.DEATH))
    population.step()
    assert population.on.shape == (20,)
