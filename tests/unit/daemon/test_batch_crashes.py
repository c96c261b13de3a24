"""A leader that dies at any write of a batch, and writes that fail: nobody stays behind the gate."""

from typing import Any

import pytest

from ballast.base.errors import ClusterError
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import until
from tests.worlds.batching import GATE, batching, create, cycle, found, gates, pod, seen
from tests.worlds.daemons import POD, Rig, condition

pytestmark = pytest.mark.slow

WEB = [f"web-{number}" for number in range(3)]


class Died(BaseException):
    """As when the process is killed."""


def disturb(daemon: Daemon, at: int, error: BaseException, *, after: bool = False, only: str = "") -> None:
    """The removal of a gate with this number fails, before or after the API server took it."""
    request, count = daemon.context.api.request, iter(range(10_000))

    def disturbed(method: str, path: str, **more: Any) -> bytes:
        ours = method == "PATCH" and "/pods/" in path and path.endswith(only)
        due = ours and next(count) == at
        if due and not after:
            raise error
        answer = request(method, path, **more)
        if due:
            raise error
        return answer

    daemon.context.api.request = disturbed  # type: ignore[method-assign]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(len(WEB)))
def test_the_next_leader_takes_over_whatever_was_written(calm: Rig, at: int, after: bool) -> None:
    first = batching(calm, BATCH__AHEAD="1")
    disturb(first, at, Died(), after=after)
    create(calm, *map(pod, WEB))
    seen(first, *WEB)

    def works() -> None:
        for _ in range(10):
            cycle(first)

    with pytest.raises(Died):
        works()
    first.stop()
    calm.daemons.remove(first)
    second = batching(calm, BATCH__AHEAD="1", settled=False)

    def done() -> bool:
        cycle(second)
        return not any(gates(calm, name) for name in WEB)

    until(done, "the second leader lets all go")
    until(lambda: all((found(calm, name) or {"spec": {}})["spec"].get("nodeName") for name in WEB))


def test_a_write_that_fails_lets_everybody_go_and_is_tried_again(calm: Rig) -> None:
    daemon = batching(calm, BATCH__AHEAD="1")
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    disturb(daemon, 0, ClusterError("PATCH: 500", status=500), only="web-0")
    told = cycle(daemon)
    assert told.startswith("removed 3 of 3 gates without a plan: a gate could not be removed: PATCH: 500")
    assert [gates(calm, name) for name in WEB] == [[]] * 3
    assert "PATCH: 500" in (condition(daemon, "BatchGivenUp") or "")


def test_what_cannot_be_removed_at_all_stays_in_the_condition(calm: Rig) -> None:
    daemon = batching(calm)
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    request = daemon.context.api.request

    def denied(method: str, path: str, **more: Any) -> bytes:
        if method == "PATCH" and path.endswith("web-1"):
            raise ClusterError("admission webhook denied the request", status=403)
        return request(method, path, **more)

    daemon.context.api.request = denied  # type: ignore[method-assign]
    assert "1 could not be removed: admission webhook denied" in cycle(daemon)
    assert [gates(calm, name) for name in WEB] == [[], [GATE], []]
    until(lambda: cycle(daemon).startswith("removed 0 of 1 gates without a plan"))
    assert "admission webhook denied the request" in (condition(daemon, "BatchGivenUp") or "")


def test_a_pod_that_is_gone_or_another_by_then_costs_nothing(calm: Rig) -> None:
    daemon = batching(calm)
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    held = daemon.context.cache.pods_on("")
    calm.cluster.resources.delete(POD, "shop", "web-0")
    calm.cluster.resources.delete(POD, "shop", "web-1")
    create(calm, pod("web-1"))
    daemon.context.cache.pods_on = lambda node: held if node == "" else ()  # type: ignore[method-assign]
    assert cycle(daemon).startswith("released 1 pod")
    assert gates(calm, "web-1") == [GATE], "another pod of that name"
    assert len(daemon.extender.reservations.active()) <= 1
    assert condition(daemon, "BatchGivenUp") is None
