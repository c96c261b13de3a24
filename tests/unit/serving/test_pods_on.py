"""The pods of a node with what they use: the largest first, asked for once a minute, unknown where nobody knows."""

from collections.abc import Mapping, Sequence

from ballast.base.errors import TelemetryError
from ballast.model.pod import Pod
from ballast.model.shape import Shape
from ballast.serving.pods_on import KEPT, NodePods
from tests.worlds.clock import FakeClock

PODS = [
    Pod("shop", "asks-much", "1", "n", "Running", Shape({"cpu": 2.0})),
    Pod("shop", "uses-much", "2", "n", "Running", Shape({"cpu": 0.1})),
    Pod("shop", "unknown", "3", "n", "Running", Shape({"cpu": 0.5})),
    Pod("shop", "done", "4", "n", "Succeeded"),
]


class Source:
    """Answers with the usage it is given, and counts."""

    def __init__(self, usage: Mapping[str, Mapping[str, float]] | None) -> None:
        self.usage, self.asked = usage, list[Sequence[str]]()

    def __call__(self, at: float, pods: Sequence[Pod]) -> Mapping[str, Mapping[str, float]]:
        self.asked.append([f"{pod.namespace}/{pod.name}" for pod in pods])
        if self.usage is None:
            raise TelemetryError("silent")
        return self.usage


def test_those_that_use_most_come_first_and_the_unknown_by_what_they_request() -> None:
    source = Source({"shop/asks-much": {"cpu": 0.2}, "shop/uses-much": {"cpu": 1.5}})
    clock = FakeClock()
    pods_on = NodePods(lambda node: PODS, source, clock)
    rows = pods_on("n")
    assert [row.pod for row in rows] == ["shop/uses-much", "shop/unknown", "shop/asks-much"]
    assert [row.usage for row in rows] == [{"cpu": 1.5}, None, {"cpu": 0.2}]
    pods_on("n")
    assert source.asked == [["shop/asks-much", "shop/uses-much", "shop/unknown"]]
    clock.advance(KEPT)
    pods_on("n")
    assert len(source.asked) == 2


def test_a_silent_source_leaves_requests_and_is_not_asked_at_every_look() -> None:
    source = Source(None)
    pods_on = NodePods(lambda node: PODS, source, FakeClock())
    for _ in range(3):
        assert [row.usage for row in pods_on("n")] == [None] * 3
    assert len(source.asked) == 1


def test_an_empty_node_asks_nothing() -> None:
    source = Source({})
    assert NodePods(lambda node: [], source, FakeClock())("n") == []
    assert source.asked == []
