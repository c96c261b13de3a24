from typing import Any

import pytest

from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.cluster.switches import Switches
from tests.worlds.clock import FakeClock


class Rig:
    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.clock = FakeClock()
        self.switches = Switches(None, self.clock, Metrics(), "ns")
        self.watch = self.switches._watch
        self.seen(data)

    def seen(self, data: dict[str, str] | None) -> None:
        items = [] if data is None else [wire.ConfigMap(wire.Meta(name="ballast-switches"), data)]
        self.switches._object.replace(items)
        self.watch._beat()
        self.watch._synced.set()


@pytest.mark.parametrize("data", [None, {}, {"paused": "false"}, {"paused.power": "true"}])
def test_not_paused(data: Any) -> None:
    assert Rig(data).switches.paused("publishing") is None


@pytest.mark.parametrize("key", ["paused", "paused.publishing"])
def test_paused_by_a_key(key: str) -> None:
    assert Rig({key: "true"}).switches.paused("publishing") == f"paused by key {key} of ConfigMap ns/ballast-switches"


@pytest.mark.parametrize("value", ["True", "yes", "", " true"])
def test_any_other_value_pauses_and_is_named(value: str) -> None:
    assert repr(value) in str(Rig({"paused": value}).switches.paused("publishing"))


def test_one_part_is_paused_alone() -> None:
    rig = Rig({"paused.power": "true"})
    assert rig.switches.paused("power")
    assert not rig.switches.paused("eviction")


def test_paused_before_it_was_read_and_with_the_reason_why_it_cannot_be() -> None:
    switches = Switches(None, FakeClock(), Metrics(), "ns")
    assert "has not been read" in str(switches.paused("power"))
    switches._watch._problem = "Ballast needs verb `list` on `configmaps`"
    assert "verb `list`" in str(switches.paused("power"))


def test_a_watch_older_than_thirty_seconds_pauses() -> None:
    rig = Rig({})
    rig.clock.advance(30)
    assert rig.switches.paused("power") is None
    rig.clock.advance(0.5)
    assert "last seen" in str(rig.switches.paused("power"))
    rig.seen({})
    assert rig.switches.paused("power") is None


def test_other_configmaps_do_not_count() -> None:
    rig = Rig({})
    rig.switches._object.put(wire.ConfigMap(wire.Meta(name="other"), {"paused": "true"}))
    assert rig.switches.paused("power") is None
    rig.switches._object.put(wire.ConfigMap(wire.Meta(name="ballast-switches"), {"paused": "true"}))
    assert rig.switches.paused("power")
    rig.switches._object.remove(wire.ConfigMap(wire.Meta(name="ballast-switches")))
    assert rig.switches.paused("power") is None
