"""Where replacements are steered by taints, a step waits until the replacement before it is bound."""

from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.replacement_reservations import BOUND_WITHIN, ReplacementReservations, all_bound
from ballast.model.pod import Owner, Pod
from tests.unit.actuation.test_leaving import LEAVING, LOADED, Yard
from tests.unit.actuation.test_loaded import snapshot
from tests.worlds.clock import FakeClock
from tests.worlds.evicting import EvictingApi, FakeExtender

LOADS = [[0.9], [0.8], [0.2], [0.1]]
AIM, OTHER_AIM = "n2", "n3"


class Landed:
    """Nodes n0 to n3; the replacement of the first step is bound at the look with number `at`."""

    def __init__(self, at: float) -> None:
        api = EvictingApi()
        self.yard, self.clock, self.looks, self.at = Yard(api), FakeClock(), 0, at
        for name in ("n0", "n1", "n2", "n3"):
            api.objects[f"/api/v1/nodes/{name}"] = {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}}
        taints = self.yard.leaving()
        extender = FakeExtender(self.clock)
        self.landing = ReplacementReservations(extender, self.clock, taints=taints, pods=self.pods)
        self.landing.begin(snapshot(LOADS), {}, self.clock.wall())
        self.seen: list[float] = []

    def pods(self) -> tuple[Pod, ...]:
        self.looks += 1
        return (replacement("a", self.clock.wall(), node=AIM if self.looks >= self.at else ""),)

    def step(self, name: str, source: str, aim: str) -> StepRecord:
        now = self.clock.wall()
        return StepRecord(f"shop/{name}", f"u-{name}", source, now, owner=f"owner-{name}", prefers=aim)


def replacement(name: str, created: float, *, node: str = "n2", uid: str = "new", deleting: bool = False) -> Pod:
    owner = Owner("ReplicaSet", name, f"owner-{name}", True)
    return Pod("shop", f"{name}-{uid}", uid=f"{uid}-{name}", owner=owner, node=node, created=created, deleting=deleting)


def test_the_next_step_waits_until_the_replacement_before_is_bound() -> None:
    landed = Landed(at=5)
    assert landed.landing.keep_off(landed.step("a", "n0", AIM)) is None
    before, looks = landed.clock.monotonic(), landed.looks
    assert landed.yard.taints(AIM) == []
    assert landed.landing.keep_off(landed.step("b", "n1", OTHER_AIM)) is None
    assert landed.looks == 5 > looks
    assert 0 < landed.clock.monotonic() - before < BOUND_WITHIN
    assert (landed.yard.taints("n1"), landed.yard.taints(AIM), landed.yard.taints(OTHER_AIM)) == (
        [LEAVING],
        [LOADED],
        [],
    )


def test_a_node_stays_open_for_a_replacement_that_is_not_bound_in_time() -> None:
    landed = Landed(at=float("inf"))
    landed.landing.keep_off(landed.step("a", "n0", AIM))
    before = landed.clock.monotonic()
    assert landed.landing.keep_off(landed.step("b", "n1", OTHER_AIM)) is None
    assert BOUND_WITHIN <= landed.clock.monotonic() - before < BOUND_WITHIN + 0.5
    assert (landed.yard.taints(AIM), landed.yard.taints(OTHER_AIM)) == ([], [])


def test_nothing_is_waited_for_after_a_step_that_did_not_happen() -> None:
    landed = Landed(at=float("inf"))
    first = landed.step("a", "n0", AIM)
    landed.landing.keep_off(first)
    landed.landing.release_all(first)
    before = landed.clock.monotonic()
    landed.landing.keep_off(landed.step("b", "n1", OTHER_AIM))
    assert landed.clock.monotonic() == before


def test_each_workload_needs_as_many_new_pods_on_nodes_as_were_evicted() -> None:
    both = [StepRecord(f"shop/{uid}", uid, "n0", 100.0, owner="owner-a", besides=("old-a",)) for uid in ("u1", "u2")]
    old, one, two = (replacement("a", 99.0, uid=uid) for uid in ("old", "one", "two"))
    assert all_bound([], [])
    assert not all_bound(both, [old, one])
    assert all_bound(both, [old, one, two])
    assert not all_bound(both, [one, replacement("a", 99.0, uid="two", node="")])
    assert not all_bound(both, [one, replacement("a", 99.0, uid="two", deleting=True)])
    assert not all_bound(both, [one, replacement("a", 90.0, uid="two")])
    assert all_bound([StepRecord("shop/bare", "u", "n0", 100.0)], [])
