import numpy as np

from ballast_lab.experiments.load_scoreboard import SOURCES, section
from ballast_lab.experiments.load_traces import LoadTrace
from ballast_lab.experiments.predictors import RULES
from ballast_lab.experiments.windows import results


def test_every_rule_has_a_source_and_a_line() -> None:
    load = np.repeat(np.linspace(0.1, 0.9, 10)[:, None], 48, axis=1)
    text = section(results([LoadTrace("Here", 300.0, (load,))]).table)
    assert set(SOURCES) == set(RULES)
    for rule in RULES:
        assert f"| {rule} | 1.000; 100 % |" in text
        assert f"* {rule}: {SOURCES[rule]}." in " ".join(text.split())
    assert all(len(line) <= 120 for line in text.splitlines())
