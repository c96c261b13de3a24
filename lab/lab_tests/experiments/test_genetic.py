import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ballast_lab.experiments.genetic import PRINTED, generations_to_arrive, published_example, results

ROOT = Path(__file__).parents[3]


def test_the_printed_repair_puts_pod5_on_two_nodes_and_ours_on_one() -> None:
    on, dictionary = published_example()
    bits = np.zeros((1, 7, 3), bool)
    bits[0, np.arange(7), on] = True
    assert np.flatnonzero(dictionary.broken(bits)[0]).tolist() == [3, 4]
    assert dictionary.repair(bits, np.random.default_rng(0)) == 2
    codes = ["".join("01"[int(bit)] for bit in row) for row in bits[0]]
    assert codes == ["100", "010", "001", "010", "001", "100", "100"]
    printed = np.array([[[bit == "1" for bit in row] for row in PRINTED]])
    assert np.flatnonzero(dictionary.broken(printed)[0]).tolist() == [4]


def test_every_published_number_has_one_beside_it_with_an_interval_whatever_the_processes() -> None:
    outcome = results([3, 5], jobs=1)
    document = outcome.document()
    assert (document["experiment"], document["seeds"]) == ("genetic", [3, 5])
    assert all(list(row)[:4] == ["table", "name", "published", "measured"] for row in document["rows"])
    assert all(row["low"] <= row["measured"] <= row["high"] for row in document["rows"] if "low" in row)
    assert {row["table"] for row in document["rows"] if "low" not in row} == {"tables 1, 2"}
    published = {row["published"] for row in document["rows"]}
    assert {190, 110, 3.42193, 1.10272, 0.30489, 0.1387, 0.26325, 0.17434, 73.23, 40.91} <= published
    assert json.dumps(document, allow_nan=False)
    assert all(row.name in outcome.table for row in outcome.rows)
    assert len(outcome.figures) == 8
    for text in outcome.figures.values():
        ElementTree.fromstring(text)
    numbers = {row.name: row.measured for row in outcome.rows}
    assert numbers["network, default / ours"] >= 8
    assert numbers["disk, default / ours"] >= 8


def test_a_run_that_never_arrives_is_none_and_counts_with_all_generations() -> None:
    never, late, soon = [math.inf] * 4, [9.0, 9.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.9]
    assert generations_to_arrive({"penalty": never, "repair": late}) == (None, 3)
    assert generations_to_arrive({"penalty": late, "repair": soon}) == (3, 1)
    assert generations_to_arrive({"penalty": never, "repair": never}) == (None, None)


def test_the_page_shows_what_the_experiment_measures() -> None:
    assert (
        results(range(32), jobs=2).table == (ROOT / "measurements" / "experiments" / "genetic" / "table.md").read_text()
    )
