import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ballast.base.errors import ClusterError, Forbidden, TooManyRequests
from ballast.base.metrics import Metrics
from ballast.cluster.node_writes import with_taint
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, annotation_filter, to_node
from ballast.cluster.versions import Versions
from ballast.cluster.writer import Pace, Writer
from ballast.model.node import Node
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner
from ballast.publishing.publisher import PART, Publisher
from ballast.publishing.round import Round
from tests.unit.publishing.worlds import KEYS, RULES, snapshot_of
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi

NAMES = ("a", "b", "c", "d", "e", "f")
CALM = Freeze(max_unknown=0.2, forget_after=3600.0)
OURS = {"key": KEYS.taint, "effect": "PreferNoSchedule"}
THEIRS = {"key": "team", "value": "blue", "effect": "NoSchedule"}


class Stand:
    """A publisher over nodes in memory; `see` lets the watch catch up."""

    def __init__(self, *names: str, mode: str = "on", qps: float = 1000.0, **rules: Any) -> None:
        self.clock = FakeClock()
        self.api = FakeApi({f"/api/v1/nodes/{name}": {"metadata": {"name": name}} for name in names})
        self.names = names
        self.pause: str | None = None
        self.leads = True
        self.writer = Writer(
            self.api,  # type: ignore[arg-type]
            self.clock,
            Metrics(),
            pace=Pace(self.clock, qps, 1),
            modes={PART: mode},
            paused=lambda part: self.pause,
            leading=lambda: self.leads,
        )
        self.versions = Versions()
        self.publisher = Publisher(
            self.api,  # type: ignore[arg-type]
            self.writer,
            self.clock,
            KEYS,
            LabelPlanner(KEYS, replace(RULES, **rules)),
            interval=30.0,
            versions=self.versions,
        )
        self.cached: dict[str, Node] = {}
        self.see()

    def see(self) -> None:
        decode, shared = msgspec.json.Decoder(wire.Node), Shared()
        self.cached = {
            path.rpartition("/")[2]: to_node(
                decode.decode(msgspec.json.encode(item)), shared, annotation_filter("ballast.dev")
            )
            for path, item in self.api.objects.items()
        }

    def round(self, load: float | None = 0.5, *, later: float = 30.0, **loads: float | None) -> Round:
        """One round with the snapshot of so much later, with the load of all nodes and of some."""
        self.clock.advance(later)
        values = {name: loads.get(name, load) for name in self.names}
        known = {name: None if value is None else (value, 0.1) for name, value in values.items()}
        scores = {name: None if value is None else round(100 * (1 - value)) for name, value in values.items()}
        snapshot = snapshot_of(known, at=self.clock.wall())
        return self.publisher.round(snapshot, scores, CALM, self.cached.get)

    def written(self) -> list[str]:
        """The nodes of all writes so far."""
        return [path.rpartition("/")[2] for _, path, _ in self.api.writes]

    def labels(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.api.objects[f"/api/v1/nodes/{name}"]["metadata"].get("labels", {})
        return found

    def taints(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.objects[f"/api/v1/nodes/{name}"].get("spec", {}).get("taints", [])
        return found


def failing(error: ClusterError, *names: str) -> Callable[[str, str, Any], None]:
    def before(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and path.rpartition("/")[2] in names:
            raise error

    return before


def test_a_round_writes_every_node_once() -> None:
    stand = Stand(*NAMES)
    assert stand.round() == Round(written=6)
    assert stand.written() == list(NAMES)
    assert stand.labels("a") == {KEYS.score: "12", KEYS.load: "normal"}


def test_what_was_written_counts_before_the_watch_has_seen_it() -> None:
    stand = Stand("a")
    stand.round()
    assert stand.round() == Round()
    stand.see()
    assert stand.round() == Round()
    assert stand.written() == ["a"]


@pytest.mark.parametrize("backup", ["before any label", "of other labels"])
def test_after_a_restore_of_etcd_our_own_labels_are_no_strangers(backup: str) -> None:
    stand = Stand(*NAMES)
    if backup == "of other labels":
        stand.round(0.2)
        stand.see()
    copy, version = json.loads(json.dumps(stand.api.objects)), stand.api.version
    for load in (0.5, 0.7, 0.9, 0.6):
        stand.round(load, later=400.0)
        stand.see()
    listed: list[int] = []
    stand.versions.follow(lambda: listed.append(len(stand.api.writes)))
    stand.api.objects, stand.api.version = copy, version
    carried = dict(stand.cached)
    for _ in range(4):  # The watch is silent, and shows what it showed.
        stand.round(0.3, later=400.0)
        assert stand.cached == carried
        assert stand.publisher.contended() is None
    assert listed
    stand.see()
    stand.round(0.3, later=400.0)
    stand.see()
    for _ in range(3):
        stand.round(0.3)
        assert stand.publisher.contended() is None
        assert {*map(len, map(stand.labels, NAMES))} == {2}
        assert {stand.labels(name)["ballast.dev/score"] for name in NAMES} == {"17"}


def test_what_someone_else_changed_after_us_is_written_again() -> None:
    stand = Stand("a")
    stand.round()
    stand.api.request("PATCH", "/api/v1/nodes/a", body={"metadata": {"labels": {KEYS.score: "10"}}})
    assert stand.round() == Round(), "not seen yet"
    stand.see()
    assert stand.round().written == 1
    assert stand.labels("a")[KEYS.score] == "12"


def test_dry_run_remembers_what_it_would_have_written() -> None:
    stand = Stand("a", "b", mode="dry-run", taint=True)
    assert stand.round(0.95).written == 2
    assert [stand.round(0.95) for _ in range(3)] == [Round()] * 3
    assert stand.publisher.classes() == {"a": "high", "b": "high"}
    assert stand.round(0.95, a=None).written == 1
    assert [stand.round(0.95, a=None) for _ in range(3)] == [Round()] * 3
    assert stand.api.writes == []


def test_a_pause_stops_a_round_at_once_and_says_why() -> None:
    stand = Stand(*NAMES)
    stand.api.after = lambda *_: setattr(stand, "pause", "paused by key paused")
    assert stand.round() == Round(written=1, stopped="paused by key paused")
    assert stand.written() == ["a"]
    stand.pause, stand.api.after = None, lambda *_: None
    assert stand.round() == Round(written=5)


def test_a_lost_lease_stops_a_round_at_once() -> None:
    stand = Stand(*NAMES)
    stand.api.after = lambda *_: setattr(stand, "leads", False)
    assert stand.round() == Round(written=1, stopped="this replica does not hold the Lease")


def test_three_failures_in_a_row_leave_the_rest_for_the_next_round() -> None:
    stand = Stand(*NAMES)
    stand.api.before = failing(Forbidden("may not patch", status=403), *NAMES)
    assert stand.round() == Round(waiting=3, failed=3, problem="may not patch")
    stand.api.before = lambda *_: None
    assert stand.round() == Round(written=6)


def test_nodes_that_always_fail_do_not_hold_up_the_others() -> None:
    stand = Stand(*NAMES)
    stand.api.before = failing(ClusterError("a webhook says no", status=400), "a", "b", "c")
    assert stand.round() == Round(waiting=3, failed=3, problem="a webhook says no")
    assert stand.round() == Round(written=3, failed=3, problem="a webhook says no")
    assert stand.written() == ["d", "e", "f"]


def test_a_node_that_is_gone_is_no_failure() -> None:
    stand = Stand("a", "b")
    del stand.api.objects["/api/v1/nodes/a"]
    assert stand.round() == Round(written=1)
    stand.see()
    assert stand.round() == Round()


def test_a_node_that_the_watch_shows_no_more_is_not_written() -> None:
    stand = Stand("a", "b")
    del stand.cached["a"]
    assert stand.round() == Round(written=1)
    assert stand.written() == ["b"]


def test_a_round_ends_before_the_next_and_leaves_what_is_left() -> None:
    stand = Stand(*NAMES, qps=0.1)
    first = stand.round()
    assert first.waiting > 0
    assert first.written + first.waiting == 6
    assert stand.round().written > 0


def test_what_was_left_waiting_is_planned_again() -> None:
    stand = Stand("a", "b")
    stand.api.before = failing(TooManyRequests("later", retry_after=20.0), "b")
    assert stand.round().failed == 1
    stand.api.before = lambda *_: None
    stand.round(b=0.9)
    assert stand.labels("b")[KEYS.score] == "2"


@pytest.mark.parametrize("seconds", [None, 0.0, 8.0, 300.0, 1e9])
def test_a_node_whose_patch_is_to_wait_holds_up_no_other(seconds: float | None) -> None:
    stand = Stand(*NAMES)
    stand.api.before = failing(TooManyRequests("later", retry_after=seconds), "b", "d")
    began = stand.clock.monotonic()
    first = stand.round()
    assert stand.clock.monotonic() - began <= 30.0 + 2 * 3.0 + 1.0
    assert (first.written, first.failed, first.waiting) == (4, 2, 0)
    assert first.problem == "later"
    stand.api.before = lambda *_: None
    assert stand.round() == Round(written=2)


def test_a_clock_that_runs_faster_has_a_deadline_that_comes_sooner() -> None:
    stand = Stand("a")

    class Fast(FakeClock):
        speed = 100.0

    stand.publisher._clock = Fast()
    stand.api.before = failing(TooManyRequests("later", retry_after=1.0), "a")
    began = stand.clock.monotonic()
    assert stand.round(later=0.0).failed == 1
    assert stand.clock.monotonic() == began


def test_the_same_snapshot_planned_twice_is_one_cycle() -> None:
    stand = Stand("a")
    stand.round(0.5)
    for _ in range(12):
        assert stand.round(0.41) == Round(), "a label moves after six minutes"
        assert stand.round(0.41, later=0.0) == Round(), "the same cycle"
    assert stand.round(0.41).written == 1
    assert stand.labels("a")[KEYS.score] == "14"


def test_a_stopped_publisher_writes_nothing_more() -> None:
    stand = Stand(*NAMES)
    stand.api.after = lambda *_: stand.publisher.stop()
    assert stand.round() == Round(written=1, waiting=5)


def test_a_stopped_publisher_does_not_go_on_to_the_taint() -> None:
    stand = Stand("a", taint=True)
    stand.api.after = lambda *_: stand.publisher.stop()
    assert stand.round(0.95) == Round(written=1)
    assert [method for method, _, _ in stand.api.requests] == ["PATCH"]


def test_the_taint_is_a_patch_of_its_own_with_the_version_that_was_read() -> None:
    stand = Stand("a", taint=True)
    stand.api.objects["/api/v1/nodes/a"]["spec"] = {"taints": [THEIRS]}
    stand.see()
    stand.round(0.95)
    assert stand.taints("a") == [THEIRS, OURS]
    metadata, taint = (body for _, _, body in stand.api.writes)
    assert set(metadata) == {"metadata"}
    assert "resourceVersion" not in metadata["metadata"]
    assert set(taint["metadata"]) == {"resourceVersion"}
    stand.see()
    for _ in range(3):
        stand.round(0.5)
        stand.see()
    assert stand.taints("a") == [THEIRS]


def test_both_taints_are_one_patch_and_all_others_stay() -> None:
    stand = Stand("a", taint=True, load_taint="NoSchedule")
    foreign = {"key": "example.com/load", "value": "7", "effect": "NoSchedule"}
    stand.api.objects["/api/v1/nodes/a"]["spec"] = {"taints": [THEIRS, foreign]}
    stand.see()
    assert stand.round(0.95) == Round(written=1)
    assert stand.taints("a") == [THEIRS, foreign, OURS, {"key": KEYS.load, "value": "95", "effect": "NoSchedule"}]
    assert [set(body) for _, _, body in stand.api.writes] == [{"metadata"}, {"metadata", "spec"}]
    assert stand.round(0.95) == Round(), "not seen yet"
    stand.see()
    assert stand.round(0.95) == Round()


def test_in_dry_run_the_load_taint_is_not_written() -> None:
    stand = Stand("a", mode="dry-run", load_taint="PreferNoSchedule")
    assert [stand.round(0.5) for _ in range(2)] == [Round(written=1), Round()]
    assert not stand.api.writes


def test_a_taint_someone_sets_meanwhile_is_kept() -> None:
    stand = Stand("a", taint=True)
    late = {"key": "late", "effect": "NoExecute"}
    once = threading.Event()

    def race(method: str, path: str, body: Any) -> None:
        if method == "PATCH" and "spec" in body and not once.is_set():
            once.set()
            stand.api.request("PATCH", path, body={"metadata": {}, "spec": {"taints": [late]}})

    stand.api.before = race
    stand.round(0.95)
    assert stand.taints("a") == [late, OURS]


@pytest.mark.parametrize(
    "present", [[], [THEIRS], [OURS], [OURS, THEIRS], [{"key": KEYS.taint, "effect": "NoExecute"}]]
)
def test_only_our_taint_comes_and_goes(present: list[dict[str, Any]]) -> None:
    wanted = with_taint(present, KEYS.taint, True)
    assert wanted.count(OURS) == 1
    assert [taint for taint in wanted if taint != OURS] == [taint for taint in present if taint != OURS]
    assert with_taint(wanted, KEYS.taint, False) == [taint for taint in present if taint != OURS]
    assert with_taint(wanted, KEYS.taint, True) == wanted


@pytest.mark.parametrize("times", [1, 3])
def test_patches_that_arrived_without_an_answer_make_no_node_contended(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand("a")
    stand.round(0.2)
    stand.see()
    send = stand.api.request

    def lost(*arguments: Any, **more: Any) -> bytes:
        send(*arguments, **more)
        raise ClusterError("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(stand.api, "request", lost)
        for number in range(times):
            assert stand.round(0.5 + 0.1 * number).failures == {"a"}
    stand.see()
    stand.round(0.2)
    assert stand.publisher.contended() is None
    assert OURS not in stand.taints("a")
