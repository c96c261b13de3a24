import json
from xml.etree import ElementTree

import numpy as np

from ballast_lab.experiments.genetic import PRINTED, published_example, run
from ballast_lab.experiments.genetic_drawing import figures


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


def test_every_published_number_has_one_beside_it_whatever_the_processes() -> None:
    found = run(seeds=1, jobs=1)
    document = found.document()
    assert list(document) == ["rows"]
    assert all(list(row) == ["table", "name", "published", "measured"] for row in document["rows"])
    published = {row["published"] for row in document["rows"]}
    assert {190, 110, 3.42193, 1.10272, 0.30489, 0.1387, 0.26325, 0.17434, 73.23, 40.91} <= published
    assert json.dumps(document, allow_nan=False)
    assert all(row.name in found.table() for row in found.rows)
    drawn = figures(found)
    assert len(drawn) == 8
    for text in drawn.values():
        ElementTree.fromstring(text)
    numbers = {row.name: row.measured for row in found.rows}
    assert numbers["network, default / ours"] >= 8
    assert numbers["disk, default / ours"] >= 8
