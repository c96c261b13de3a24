"""A ConfigMap that was set back to an older copy is noticed by the count of saves, also by the next leader."""

from typing import Any

from ballast.cluster.state import SAVES, StateAge, StateStore
from tests.worlds.clock import FakeClock
from tests.worlds.writing import WriterRig

STATE = "/api/v1/namespaces/ns/configmaps/ballast-state"


class Restored:
    """A `ballast-state` that somebody may replace by an older copy."""

    def __init__(self) -> None:
        self.rig, self.clock = WriterRig(modes={}), FakeClock()

    def store(self, age: StateAge | None = None) -> StateStore:
        return StateStore(self.rig.api, self.rig.writer, "ns", self.clock, age)  # type: ignore[arg-type]

    @property
    def data(self) -> dict[str, str]:
        found: dict[str, Any] = self.rig.api.objects[STATE]
        return dict(found["data"])

    def restore(self, copy: dict[str, str]) -> None:
        self.rig.api.objects[STATE]["data"] = dict(copy)


def save(store: StateStore, value: str) -> None:
    assert store.update(lambda keys: {**keys, "plan": value}, reason="a test").done


def test_each_save_counts_and_the_counts_are_no_keys() -> None:
    world = Restored()
    store = world.store()
    for number in range(3):
        save(store, str(number))
    assert world.data[SAVES] == "3"
    assert store.read() == {"plan": "2"}
    save(store, "2")
    assert world.data[SAVES] == "3", "nothing to change"
    assert store.set_back is None


def test_an_older_copy_is_noticed_once_and_remembered_by_whoever_leads_next() -> None:
    world = Restored()
    store = world.store()
    save(store, "0")
    old = world.data
    save(store, "1")
    world.clock.advance(100)
    world.restore(old)
    noticed = world.clock.wall()
    assert store.read() == {"plan": "0"}
    assert store.set_back == noticed
    world.clock.advance(100)
    save(store, "2")
    store.check_age()
    assert store.set_back == noticed
    following = world.store()
    following.check_age()
    assert following.set_back == round(noticed)


def test_the_lease_tells_a_new_leader_how_often_it_was_saved() -> None:
    world = Restored()
    first = world.store()
    for number in range(5):
        save(first, str(number))
    copy = world.data | {SAVES: "2"}
    world.restore(copy)
    blind, told = StateAge(), StateAge()
    told.see("5")
    unaware, aware = world.store(blind), world.store(told)
    unaware.check_age()
    aware.check_age()
    assert (unaware.set_back, aware.set_back) == (None, world.clock.wall())


def test_what_is_no_count_counts_nothing() -> None:
    age = StateAge()
    assert [age.see(text) for text in (None, "", "-1", "many", "9" * 400, "٣")] == [0] * 6
    assert age.saves == 0
