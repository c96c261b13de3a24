from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import ClusterError
from ballast.base.metrics import Metrics
from ballast.cluster.writer import Pace, Writer
from ballast.model.node import Node, Taint
from ballast.publishing.publisher import PART
from ballast.publishing.release_nodes import release
from tests.unit.publishing.worlds import KEYS
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi

FOREIGN = {"team": "blue", "other.dev/score": "1", f"{KEYS.score}-of-another": "1"}
OUR_TAINT = {"key": KEYS.taint, "effect": "PreferNoSchedule"}
THEIR_TAINTS = [{"key": "team", "effect": "NoSchedule"}, {"key": KEYS.taint, "effect": "NoExecute"}]


def released(nodes: list[dict[str, Any]], failing: str = "") -> tuple[FakeApi, list[Any]]:
    api = FakeApi({f"/api/v1/nodes/{node['metadata']['name']}": node for node in nodes})
    if failing:
        api.before = lambda method, path, body: _fail(method, path, failing)
    writer = Writer(
        api,  # type: ignore[arg-type]
        FakeClock(),
        Metrics(),
        pace=Pace(FakeClock(), 1000.0, 1000),
        modes={PART: "on"},
        paused=lambda part: None,
        leading=lambda: True,
    )
    return api, release(api, writer, [read(node) for node in nodes], KEYS)  # type: ignore[arg-type]


def _fail(method: str, path: str, name: str) -> None:
    if method == "PATCH" and path.endswith(f"/{name}"):
        raise ClusterError("no", status=500)


def node(name: str, labels: Mapping[str, str], annotations: Mapping[str, str], taints: list[Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations)},
        "spec": {"taints": taints},
    }


def read(item: dict[str, Any]) -> Node:
    meta = item["metadata"]
    taints = tuple(Taint(taint["key"], taint["effect"]) for taint in item["spec"]["taints"])
    return Node(name=meta["name"], labels=meta["labels"], annotations=meta["annotations"], taints=taints)


@given(
    labels=st.sets(st.sampled_from([KEYS.score, KEYS.load])),
    annotated=st.booleans(),
    tainted=st.booleans(),
    values=st.lists(st.sampled_from(["35", "100", "busy"]), unique=True),
)
def test_our_keys_go_and_all_others_stay(labels: set[str], annotated: bool, tainted: bool, values: list[str]) -> None:
    ours = dict.fromkeys(labels, "1")
    window = {KEYS.window: "not even JSON"} if annotated else {}
    taints = [THEIR_TAINTS[0], *([OUR_TAINT] if tainted else []), THEIR_TAINTS[1]]
    taints += [{"key": KEYS.load, "value": value, "effect": "NoSchedule"} for value in values]
    api, outcomes = released([node("a", FOREIGN | ours, FOREIGN | window, taints)])
    after = api.objects["/api/v1/nodes/a"]
    assert after["metadata"]["labels"] == FOREIGN
    assert after["metadata"]["annotations"] == FOREIGN
    assert after["spec"]["taints"] == THEIR_TAINTS
    assert len(api.writes) == len(outcomes) == bool(labels or annotated) + (tainted or bool(values))


def test_one_node_that_fails_keeps_no_other_from_being_released() -> None:
    nodes = [node(name, {KEYS.load: "low"}, {}, []) for name in ("a", "b", "c")]
    api, outcomes = released(nodes, failing="b")
    assert [outcome.done for outcome in outcomes] == [True, False, True]
    assert api.objects["/api/v1/nodes/c"]["metadata"]["labels"] == {}
