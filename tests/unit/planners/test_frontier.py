from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ballast.planners.frontier import fit_elsewhere, largest, smallest

vectors = st.integers(0, 12).flatmap(lambda rows: arrays(np.int64, (rows, 3), elements=st.integers(0, 6)))


@given(vectors)
def test_the_frontier_dominates_everything(found: Any) -> None:
    for chosen, at_least in ((largest(found), True), (smallest(found), False)):
        front = found[chosen] if at_least else -found[chosen]
        for vector in found if at_least else -found:
            assert (front >= vector).all(axis=1).any()
        assert len(chosen) == len(set(chosen.tolist()))


@given(vectors, vectors, st.data())
def test_fitting_elsewhere_is_fitting_on_another_row(requests: Any, free: Any, data: st.DataObject) -> None:
    nodes = st.integers(-1, len(free) - 1)
    homes = np.array(data.draw(st.lists(nodes, min_size=len(requests), max_size=len(requests))), np.int64)
    rows = np.array(
        sorted(data.draw(st.sets(st.integers(0, len(free) - 1)) if len(free) else st.just(set()))), np.int64
    )
    expected = [
        any(row != home and (request <= free[row]).all() for row in rows)
        for request, home in zip(requests, homes.tolist(), strict=True)
    ]
    assert fit_elsewhere(requests, homes, free, rows).tolist() == expected
