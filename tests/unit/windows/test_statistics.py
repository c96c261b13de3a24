"""Windows against naive formulas."""

from __future__ import annotations

import numpy as np

from ballast.windows.ring import Ring
from ballast.windows.statistics import Rules, summarise

RULES = Rules(min_coverage=0.5, min_samples=5, max_age=90, resolution=15)


def test_a_full_grid_is_covered_exactly() -> None:
    ring = Ring(["cpu"], 15, 900)
    columns = ring.columns(["a", "b"])
    values = np.random.default_rng(0).random((60, 2))
    for index, row in enumerate(values):
        at = 15.0 * (1000 + index)
        ring.write("cpu", at, columns, row, np.full(2, at - 1))
    window = summarise(ring, columns, name="15m", seconds=900, end=15.0 * 1059, rules=RULES, scale=np.full((1, 2), 2.0))
    assert window.known.all()
    assert (window.coverage == 1.0).all()
    np.testing.assert_allclose(window.mean[0], 2 * values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(window.std[0], 2 * values.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(window.p95[0], 2 * np.quantile(values, 0.95, axis=0), rtol=1e-12)
