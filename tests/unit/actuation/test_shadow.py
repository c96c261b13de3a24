from typing import Any

from msgspec.structs import replace

from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.shadow import Shadow
from ballast.model.pod import Pod
from ballast.planners.eviction_plan import Move
from tests.worlds.evicting import NOW, nodes

POD = Pod("shop", "web-1", uid="u", node="n0", created=NOW - 86_400)
OTHER = Pod("shop", "web-2", uid="v", node="n1", created=NOW - 86_400)


def step(source: str, target: str | None, **more: Any) -> StepRecord:
    load = {source: {"cpu": -0.1}, **({target: {"cpu": 0.1}} if target else {})}
    return StepRecord("shop/web-1", "u", source, NOW, target=target, load=load, used={"cpu": 1.0}, **more)


def shadow(*steps: StepRecord) -> Shadow:
    imagined = Shadow()
    imagined.look([POD, OTHER], nodes())
    for each in steps:
        imagined.move(each)
    return imagined


def test_a_pod_counts_on_its_target_and_is_new_there() -> None:
    imagined = shadow(step("n0", "n2"))
    assert imagined.pods([POD, OTHER]) == [replace(POD, node="n2", created=NOW, scheduled_at=NOW), OTHER]
    assert imagined.changes() == {"n0": {"cpu": -0.1}, "n2": {"cpu": 0.1}}


def test_a_pod_that_would_move_twice_left_the_first_node_for_good() -> None:
    imagined = shadow(step("n0", "n2"), step("n2", "n3"))
    assert imagined.changes() == {"n0": {"cpu": -0.1}, "n2": {"cpu": 0.0}, "n3": {"cpu": 0.1}}
    assert imagined.pods([POD])[0].node == "n3"
    assert imagined.home(Move("shop/web-1", "n3", "n4", 0.1, "", "u")) == "n0"
    assert imagined.home(Move("shop/web-2", "n1", "n4", 0.1, "", "v")) == "n1"


def test_where_nothing_steers_the_landing_it_goes_where_the_plan_counts_on() -> None:
    assert shadow(step("n0", None, prefers="n2")).changes() == {"n0": {"cpu": -0.1}, "n2": {"cpu": 0.1}}
    assert shadow(step("n0", None)).changes() == {}


def test_a_pod_that_has_ended_and_one_whose_target_is_gone_are_moved_no_more() -> None:
    ended, gone = shadow(step("n0", "n2")), shadow(step("n0", "n2"))
    ended.look([OTHER], nodes())
    gone.look([POD, OTHER], [node for node in nodes() if node.name != "n2"])
    assert ended.changes() == gone.changes() == {}
