from __future__ import annotations

from ballast.experiments.redistribution import GATED, NONE, PUBLISHED, compare, summary
from ballast.experiments.rules import Residual
from ballast.experiments.worlds import worlds

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
    document = compare([WORLDS["R4"]], [2], pods=200).document()
    assert [each["scheduler"] for each in document["cases"]] == ["ballast", "kube-scheduler"]
    assert set(document["schedulers"]["ballast"]) == {NONE, GATED, PUBLISHED}
    assert document["schedulers"]["ballast"][NONE]["change"] == 0
