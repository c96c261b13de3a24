"""What a check costs that alone keeps pods on hot nodes, and the line that frees them; each line frees what it says."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.planning.conftest import Plan
from tests.worlds.commands import Run
from tests.worlds.owned import HOT, cluster, deployment, direct, ref, replica, stateful
from tests.worlds.printed import Json, budget

STATEFUL = stateful({"n1": "", "n2": "", "n3": ""})
ANNOTATED = "ballast.dev/evict-lifts=local-storage"


def keeping(items: list[Json], **volume: Any) -> list[Json]:
    """Pods with a volume of this kind."""
    kept = {"volumes": [{"name": "v", **volume}]}
    return [each if each["kind"] != "Pod" else {**each, "spec": {**each["spec"], **kept}} for each in items]


def alone() -> list[Json]:
    return [*deployment({"x-new": ("n1",)}, updated=1, present=1, replicas=1)]


FORMS: dict[str, tuple[list[Json], tuple[str, ...], str, str]] = {
    "scratch of a StatefulSet": (
        keeping(STATEFUL, emptyDir={}),
        (),
        "local-storage",
        "BALLAST_EVICTION__LOCAL_STORAGE=allow",
    ),
    "a directory of its node": (keeping(STATEFUL, hostPath={"path": "/d"}), (), "local-storage", ANNOTATED),
    "a single replica": (alone(), (), "single-replica", "BALLAST_EVICTION__SINGLE=restart"),
    "no budget": (
        deployment({"x-new": ("n1", "n2", "n3")}),
        ("--set", "without_pdb=refuse"),
        "without-pdb",
        "BALLAST_EVICTION__WITHOUT_PDB=allow",
    ),
    "a group": (
        direct("RayCluster", {"n1": "", "n2": "", "n3": ""}, group="ray.io/v1"),
        (),
        "gang",
        "BALLAST_EVICTION__GANGS=allow",
    ),
    "a long end": (
        [
            *deployment({"x-new": ("n1", "n2", "n3")}),
            replica("x-slow", "n1", ref("ReplicaSet", "x-new"), {"pod-template-hash": "new"}),
        ],
        (),
        "grace-period",
        "ballast.dev/evict-lifts=grace-period",
    ),
}
for item in FORMS["a long end"][0]:
    if item["kind"] == "Pod":
        item["spec"]["terminationGracePeriodSeconds"] = 7200


@pytest.mark.parametrize("form", FORMS)
def test_the_only_check_that_keeps_pods_on_hot_nodes_has_a_price(form: str, plan: Plan, explained: Any) -> None:
    items, options, check, setting = FORMS[form]
    answer = plan("relieve", cluster(items), HOT, *options)
    on_n1 = sum(each["kind"] == "Pod" and each["spec"]["nodeName"] == "n1" for each in items)
    assert list(answer["prices"]) == [check]
    price = answer["prices"][check]
    assert (price["pods"], price["setting"]) == (on_n1, setting)
    assert price["load"] == pytest.approx(0.25 * on_n1)
    if not options:
        pod = next(each for each in items if each["kind"] == "Pod")
        told = {each["check"]: each.get("price") for each in explained(cluster(items), HOT, pod)["checks"]}
        assert {name: found["setting"] for name, found in told.items() if found} == {check: setting}


@pytest.mark.parametrize("form", ["scratch of a StatefulSet", "a single replica", "a group", "a long end"])
def test_the_line_frees_what_it_says(form: str, plan: Plan) -> None:
    items, _, _, setting = FORMS[form]
    name, _, value = setting.partition("=")
    if name.startswith("BALLAST_EVICTION__"):
        line = ("--set", f"{name.removeprefix('BALLAST_EVICTION__').lower()}={value}")
        assert plan("relieve", cluster(items), HOT, *line)["steps"]
    else:
        noted = [
            each if each["kind"] != "Pod" else {**each, "metadata": {**each["metadata"], "annotations": {name: value}}}
            for each in items
        ]
        assert plan("relieve", cluster(noted), HOT)["steps"]


def test_what_no_line_frees_has_no_price(plan: Plan) -> None:
    two = keeping(alone(), hostPath={"path": "/d"})
    for items in (
        two,
        [*deployment({"x-new": ("n1", "n2", "n3")}), budget("b", "x", 0)],
        stateful({"n1": "x-old", "n2": "x-old", "n3": "x-old"}, updateRevision="x-new", currentRevision="x-old",
                 strategy={"type": "OnDelete"}),
    ):  # fmt: skip
        assert "prices" not in plan("relieve", cluster(items), HOT)
    cool = {**HOT, "data": {"NodeMetricsMap": dict.fromkeys(("n1", "n2", "n3"), HOT["data"]["NodeMetricsMap"]["n2"])}}
    assert "prices" not in plan("rebalance", cluster(keeping(STATEFUL, emptyDir={})), cool)


def test_the_table_says_it_too(files: Callable[[str, Any], str], ballast: Run) -> None:
    world = cluster(keeping(STATEFUL, emptyDir={}))
    given = ["--cluster", files("c.json", world), "--metrics", files("m.json", HOT)]
    _, out, _ = ballast("plan", "relieve", *given)
    line = "local-storage alone keeps 1 pod on hot nodes, 0.25 nodes' load: BALLAST_EVICTION__LOCAL_STORAGE=allow"
    assert line in out
    _, out, _ = ballast("explain", "shop/x-0", *given)
    assert "what would free it: BALLAST_EVICTION__LOCAL_STORAGE=allow" in out
