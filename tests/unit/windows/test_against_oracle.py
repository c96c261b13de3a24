"""The ring and its statistics against dictionaries and loops."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules, summarise_all
from tests.properties import examples
from tests.unit.windows.oracle import Oracle

STEP = 10.0
SPAN = 60.0
LENGTHS = {"60": 60.0, "30": 30.0, "25": 25.0, "10": 10.0}
RESOURCES = ("cpu", "memory")
NAMES = ("a", "b", "c", "d", "e")
START = 170_000_000

BORN = {name: at * STEP for name, at in zip(NAMES, (-np.inf, START - 3.5, START, START + 0.5, START + 4), strict=True)}
"""When the node of each name was created."""

values = st.one_of(st.floats(0, 4), st.sampled_from([float("nan"), float("inf"), 0.0, 0.5]))
writes = st.tuples(
    st.just("write"),
    st.sampled_from(RESOURCES),
    st.integers(-2, 12),
    st.dictionaries(st.sampled_from(NAMES), st.tuples(values, st.integers(0, 40)), max_size=5),
)
full_writes = st.tuples(
    st.just("write"),
    st.sampled_from(RESOURCES),
    st.just(0),
    st.fixed_dictionaries({name: st.tuples(st.floats(0, 1), st.just(1.0)) for name in NAMES}),
)
ticks = st.tuples(st.just("tick"), st.one_of(st.just(1), st.integers(0, 3), st.integers(4, 30)))
fleets = st.tuples(st.just("fleet"), st.permutations(NAMES), st.integers(0, 5))
steps = st.tuples(st.just("tick"), st.integers(-40, 40))
rules = st.builds(
    WindowRules,
    min_coverage=st.sampled_from([0.0, 0.5, 0.9]),
    min_samples=st.integers(1, 3),
    max_age=st.sampled_from([15.0, 45.0]),
    resolution=st.sampled_from([None, 10.0, 4.0, 20.0]),
)


@examples(150)
@given(st.lists(st.one_of(writes, full_writes, ticks, ticks, fleets), max_size=40), rules)
def test_windows_are_those_of_everything_ever_written(story: list[Any], rules: WindowRules) -> None:
    play(story, rules, Oracle(STEP))


@examples(100)
@given(st.lists(st.one_of(writes, full_writes, ticks, steps), max_size=40), rules)
def test_windows_survive_clocks_that_step(story: list[Any], rules: WindowRules) -> None:
    play(story, rules, Oracle(STEP, rows=Ring(RESOURCES, STEP, SPAN).rows))


def play(story: list[Any], rules: WindowRules, oracle: Oracle) -> None:
    ring = Ring(RESOURCES, STEP, SPAN)
    now, fleet = START, list(NAMES)
    for what, *details in story:
        if what == "tick":
            now += details[0]
        elif what == "fleet":
            fleet = list(details[0][: details[1]])
        else:
            write(ring, oracle, fleet, now, *details)
        compare(ring, oracle, fleet, now, rules)


def write(
    ring: Ring,
    oracle: Oracle,
    fleet: list[str],
    now: int,
    resource: str,
    late: int,
    read: dict[str, tuple[float, float]],
) -> None:
    slot = now - late
    known = [(name, value, slot * STEP - age) for name, (value, age) in read.items() if name in fleet]
    columns = ring.columns(fleet)[np.array([fleet.index(name) for name, _, _ in known], int)]
    ring.write(resource, slot * STEP, columns, np.array([v for _, v, _ in known]), np.array([t for _, _, t in known]))
    oracle.write(resource, slot, known)


def compare(ring: Ring, oracle: Oracle, fleet: list[str], now: int, rules: WindowRules) -> None:
    scale = np.arange(1.0, 1 + len(RESOURCES) * len(fleet)).reshape(len(RESOURCES), len(fleet))
    born = np.array([BORN[name] for name in fleet])
    oracle.advance(now)
    columns = ring.columns(fleet)
    windows = summarise_all(ring, columns, lengths=LENGTHS, end=now * STEP, rules=rules, scale=scale, born=born)
    for label, window in windows.items():
        for r, resource in enumerate(RESOURCES):
            for n, name in enumerate(fleet):
                age = now * STEP - born[n]
                expected = oracle.window(resource, name, now, LENGTHS[label], SPAN, rules, scale[r, n], age)
                figures = [getattr(window, f)[r, n] for f in ("mean", "std", "p95", "count", "coverage", "known")]
                wanted = [expected.mean, expected.std, expected.p95, expected.count, expected.coverage, expected.known]
                np.testing.assert_allclose(figures, wanted, rtol=1e-9, atol=1e-9, err_msg=f"{label} {resource} {name}")
