from hypothesis import given
from hypothesis import strategies as st

from ballast.publishing.freeze import Freeze

CALM = Freeze(max_unknown=0.2, forget_after=3600.0)


def test_begins_only_above_the_share() -> None:
    assert not CALM.after(0.2, 0.0).frozen
    assert CALM.after(0.21, 0.0).frozen


def test_ends_after_two_successive_cycles_at_half_the_share() -> None:
    frozen = CALM.after(0.5, 0.0)
    assert frozen.after(0.11, 1.0).after(0.1, 2.0).frozen
    assert frozen.after(0.1, 1.0).after(0.11, 2.0).after(0.1, 3.0).frozen
    assert not frozen.after(0.1, 1.0).after(0.1, 2.0).frozen


def test_forgets_counting_from_the_start_of_the_freeze() -> None:
    frozen = CALM.after(0.5, 100.0).after(0.5, 3000.0)
    assert not frozen.forgotten(3699.0)
    assert frozen.forgotten(3700.0)
    assert not CALM.forgotten(1e9)


def test_no_nodes_is_no_freeze() -> None:
    assert not CALM.after(0.0, 0.0).frozen


@given(st.lists(st.integers(0, 100), max_size=30))
def test_a_freeze_never_ends_on_a_single_calm_cycle(unknown: list[int]) -> None:
    state, calm = CALM, 0
    for now, count in enumerate(unknown):
        before, state = state, state.after(count / 100, float(now))
        calm = calm + 1 if count <= 10 else 0
        if before.frozen and not state.frozen:
            assert calm >= 2
        if not before.frozen:
            assert state.frozen == (count > 20)
