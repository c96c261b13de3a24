from ballast_lab.experiments.redistribution import GATED, NONE, PAPER, PUBLISHED, compare, results, rule, summary
from ballast_lab.experiments.rules import Residual, Stock
from ballast_lab.experiments.worlds import worlds

WORLDS = worlds()


def test_behind_the_gate_it_costs_no_pods_and_as_published_it_does() -> None:
    found = compare([WORLDS["R3"], WORLDS["R4"]], [0, 1], {"ballast": Residual()})
    assert len(found.cases) == 4
    for case in found.cases:
        assert case.change(GATED) >= -0.005
        assert case.change(PUBLISHED) < -0.005
        assert case.ways[NONE].moves == 0
    assert summary(found.cases, PUBLISHED)["moves"] > summary(found.cases, GATED)["moves"]


def test_the_document_has_every_case_and_its_summary() -> None:
    document = results(compare([WORLDS["R4"]], [2], pods=200)).document()
    assert [each["scheduler"] for each in document["cases"]] == ["ballast", "kube-scheduler"]
    assert set(document["schedulers"]["ballast"]) == {NONE, GATED, PUBLISHED}
    assert document["schedulers"]["ballast"][NONE]["change"] == 0
    assert {row["table"] for row in document["rows"]} == {"ballast", "kube-scheduler"}


def test_as_published_pods_land_by_the_papers_criterion() -> None:
    """At the settings that place the pods, else at those of the paper; behind the gate Ballast's criterion is used."""
    [first, second] = [rule(PUBLISHED, choice) for choice in PAPER.values()]
    assert first is not None
    assert second is not None
    assert (first.priced, first.criterion.c, first.criterion.root, first.shares) == (False, 22.0, False, True)
    assert second.criterion.c == 50.0
    for choice in (Residual(), Stock()):
        published, gated = rule(PUBLISHED, choice), rule(GATED, choice)
        assert published is not None
        assert gated is not None
        assert (published.criterion.lambda_, published.criterion.c, published.criterion.root) == (0.1, 22.0, False)
        assert (gated.priced, gated.criterion.root) == (True, True)
    assert rule(NONE, Residual()) is None
