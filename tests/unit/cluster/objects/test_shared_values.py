"""One copy of equal values, and none of values that no object has any more."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.cluster.objects.decoding import LEAST, Pool, Shared
from ballast.model.pod import Pod
from tests.unit.cluster.objects.test_templates import read


def text(number: int) -> str:
    """A new string each time."""
    return "".join(["value-", str(number)])


def test_equal_values_are_held_once() -> None:
    shared = Shared()
    pods = [read(shared, labels={"app": text(number % 7), "tier": text(100)}) for number in range(50)]
    assert len({id(pod.labels) for pod in pods}) == 7
    assert len({id(pod.labels["tier"]) for pod in pods}) == 1


@pytest.mark.slow
def test_what_gone_objects_had_is_dropped_and_the_rest_is_still_shared() -> None:
    shared, newest = Shared(), deque[Pod](maxlen=10)

    def pod(number: int) -> Pod:
        return read(shared, labels={"app": text(number)}, nodeSelector={"disk": text(number)})

    there = [pod(number) for number in range(300)]
    for number in range(300, 20_000):
        newest.append(pod(number))
    for pool in (shared._strings, shared._mappings, shared._templates):
        assert len(pool.held) <= 2 * LEAST
    again = [pod(number) for number in range(300)]
    assert all(old.labels is new.labels for old, new in zip(there, again, strict=True))
    assert all(old.template is new.template for old, new in zip(there, again, strict=True))


@given(st.lists(st.tuples(st.integers(0, 3 * LEAST), st.integers(0, 2 * LEAST)), max_size=8))
def test_a_pool_has_what_is_held_and_little_more(turns: list[tuple[int, int]]) -> None:
    pool: Pool[str, str] = Pool(50_000, by_itself=True)
    held: dict[int, str] = {}
    for turn, (asked, kept) in enumerate(turns):
        for number in range(asked):
            key = text(number + 100 * turn)
            found = pool.held.get(key) or pool.add(key, key)
            assert held.get(number + 100 * turn, found) is found
            if number < kept:
                held[number + 100 * turn] = found
        assert len(pool.held) <= max(LEAST, len(held) * 5 // 4 + 2)


def test_the_bytes_of_dropped_values_do_not_count() -> None:
    pool: Pool[str, str] = Pool(50_000, by_itself=True)
    first = pool.add(*[f"{0:0900}"] * 2)
    for number in range(1, 20 * LEAST):
        pool.add(*[f"{number:0900}"] * 2)
    assert pool.held.get(f"{0:0900}") is first
