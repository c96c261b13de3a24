import re
from pathlib import Path
from typing import Any

import pytest

from ballast.windows import band
from tests.worlds.daemons import (
    LOAD,
    NODE,
    SCORE,
    TAINT,
    WINDOW,
    Rig,
    condition,
    get,
    metric,
    rig,
    snapshot,
    until,
    verbose,
    watcher,
    window,
)

pytestmark = pytest.mark.slow


def test_the_first_cycle_knows_every_node_from_the_past(calm: Rig) -> None:
    daemon = calm.daemon()
    assert daemon.board.cycles[0].sentence == "know 10 of 10 nodes from prometheus, 0 unknown"
    assert snapshot(daemon).primary.count.tolist() == [[30] * 10] * 2
    assert sorted(watcher(daemon)) == calm.names
    assert get(daemon, "/readyz").status_code == get(daemon, "/livez").status_code == 200
    assert "10 of 10 nodes known" in verbose(daemon)
    assert metric(daemon, "ballast_nodes_unknown") == 0
    assert metric(daemon, "ballast_leader") == 1


def test_nothing_is_written_before_two_complete_cycles_as_leader(calm: Rig) -> None:
    daemon = calm.daemon()
    calm.lose_lease(daemon)
    calm.cycle(daemon, 2)
    calm.lead_again(daemon)
    assert calm.publish(daemon) == "published nothing: a new leader acts after 2 complete cycles, 0 ended"
    assert calm.cycle(daemon)[1] == "published nothing: a new leader acts after 2 complete cycles, 1 ended"
    assert "nodes" not in calm.patches()
    assert calm.cycle(daemon)[1] == "labels current on 10 of 10 nodes (10 changed, 0 unknown); next in 30 s"


def test_what_a_node_carries(calm: Rig) -> None:
    daemon = calm.settled()
    seen = snapshot(daemon)
    score_for_labels = daemon.extender.label_scores(daemon.context.settings.publishing.strategy)
    for row, name in enumerate(calm.names):
        own = calm.own(name)
        assert set(own) == {SCORE, LOAD, WINDOW}
        means = seen.primary.mean[:, row]
        peak = means.max()
        assert own[LOAD] == ("low" if peak < 0.3 else "high" if peak >= 0.8 else "normal")
        assert int(own[SCORE]) == band.label_of(score_for_labels[name])
        document = window(own[WINDOW])
        assert set(document) == {"v", "by", "end", "length", "cpu", "memory"}
        assert (document["v"], document["length"]) == (1, 900)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["end"])
        assert document["cpu"] == {"mean": round(means[0], 4), "std": 0.0, "n": 30, "cov": 1.0}


def test_when_telemetry_has_stopped_nothing_more_is_written(calm: Rig) -> None:
    daemon = calm.settled()
    before = calm.patches()
    calm.advance(4)
    assert calm.publish(daemon) == "published nothing: the newest cycle of telemetry is 2 min old"
    assert calm.patches().get("nodes") == before.get("nodes")
    calm.watch(daemon)
    assert calm.publish(daemon) == "labels current on 10 of 10 nodes (0 changed, 0 unknown); next in 30 s"


def test_a_fresh_start_is_settled_by_one_patch_a_node_and_then_nothing_is_written(calm: Rig) -> None:
    daemon = calm.daemon()
    calm.cycle(daemon, 6)
    assert calm.patches()["nodes"] == 10
    before = calm.patches()
    sentences = {calm.cycle(daemon)[1] for _ in range(5)}
    assert sentences == {"labels current on 10 of 10 nodes (0 changed, 0 unknown); next in 30 s"}
    assert calm.patches()["nodes"] == before["nodes"]
    assert before.get("configmaps", 0) == calm.patches().get("configmaps", 0)


def test_when_nothing_changes_a_node_is_written_once_an_hour(calm: Rig) -> None:
    calm.interval = 120.0
    daemon = calm.settled(WINDOWS__MIN_SAMPLES="3", WINDOWS__LENGTHS="15m")
    first = {name: window(own[WINDOW])["end"] for name, own in calm.published().items()}
    assert calm.patches()["nodes"] == 10
    calm.cycle(daemon, 20)
    assert calm.patches()["nodes"] == 10
    calm.cycle(daemon, 10)
    assert calm.patches()["nodes"] == 20
    again = {name: window(own[WINDOW])["end"] for name, own in calm.published().items()}
    assert all(again[name] > first[name] for name in calm.names)
    assert len(set(again.values())) > 1, "spread over the last tenth of the hour"


def test_breathing_nodes_take_at_most_two_patches_to_settle(tmp_path: Path) -> None:
    with rig(tmp_path, nodes=20, scene="breathing") as breathing:
        breathing.faults.clear()
        daemon = breathing.daemon()
        breathing.cycle(daemon, 3)
        assert 20 <= breathing.patches()["nodes"] <= 40
        assert all({SCORE, LOAD, WINDOW} == set(own) for own in breathing.published().values())


def test_a_dark_node_is_unknown_after_max_age_and_published_again_when_it_is_back(calm: Rig) -> None:
    daemon = calm.settled()
    dark = calm.names[3]
    before = calm.own(dark)
    calm.faults.node_dark(dark)
    calm.cycle(daemon, 2)
    assert calm.own(dark) == before
    told, published = calm.cycle(daemon, 3)
    assert told.startswith("know 9 of 10 nodes from prometheus, 1 unknown")
    assert "labels current on 9 of 10 nodes (0 changed, 1 unknown)" in published
    assert calm.own(dark) == {LOAD: "unknown"}
    assert sorted(watcher(daemon)) == [name for name in calm.names if name != dark]
    assert get(daemon, f"/watcher?host={dark}").status_code == 404
    assert metric(daemon, "ballast_nodes_unknown") == 1
    assert metric(daemon, f'ballast_node_score{{node="{dark}"}}') is None
    assert condition(daemon, "NodesUnknown") == f"unknown: {dark}"
    assert f"condition NodesUnknown: True NoWindow unknown: {dark}" in verbose(daemon)
    until(lambda: f"unknown: {dark}" in calm.state().get("conditions", ""))
    patches = calm.patches()["nodes"]
    calm.cycle(daemon, 3)
    assert calm.patches()["nodes"] == patches
    calm.faults.clear()
    calm.cycle(daemon, 12)
    assert set(calm.own(dark)) == {SCORE, LOAD, WINDOW}
    assert dark in watcher(daemon)
    assert condition(daemon, "NodesUnknown") is None


def test_much_of_the_cluster_silent_freezes_then_withdraws_and_comes_back(calm: Rig) -> None:
    daemon = calm.settled(PUBLISHING__FORGET_AFTER="10m")
    before, patches = calm.published(), calm.patches()["nodes"]
    for name in calm.names[:4]:
        calm.faults.node_dark(name)
    told, published = calm.cycle(daemon, 5)
    assert told.startswith("know 6 of 10 nodes from prometheus, 4 unknown")
    assert re.fullmatch(
        "publishing is frozen: 4 of 10 nodes are silent, more than 20% of the measured ones; "
        r"what was published is withdrawn in (9|10) min if that stays",
        published,
    )
    assert get(daemon, "/watcher").status_code == 500
    assert get(daemon, "/watcher").content == b""
    assert get(daemon, "/watcher/health").status_code == 503
    assert get(daemon, "/readyz").status_code == 200
    assert metric(daemon, "ballast_frozen") == 1
    assert metric(daemon, 'ballast_condition{type="PublishingFrozen"}') == 1
    assert "more than 20% of the measured nodes are silent" in (condition(daemon, "PublishingFrozen") or "")
    assert calm.published() == before
    assert calm.patches()["nodes"] == patches
    calm.cycle(daemon, 17)
    assert calm.published() == before
    told, published = calm.cycle(daemon, 4)
    assert set(map(str, calm.published().values())) == {str({LOAD: "unknown"})}
    assert calm.patches()["nodes"] == patches + 10
    assert published == "withdrew what was published from 0 of 10 nodes, 4 unknown; next in 30 s"
    calm.faults.clear()
    calm.faults.node_dark(calm.names[0])
    unfrozen = 0
    while condition(daemon, "PublishingFrozen"):
        told, published = calm.cycle(daemon)
        unfrozen += 1 if "1 unknown" in told else 0
        assert unfrozen <= 2
    assert unfrozen == 2
    assert get(daemon, "/watcher").status_code == 200
    calm.cycle(daemon)
    assert calm.own(calm.names[0]) == {LOAD: "unknown"}
    assert all({SCORE, LOAD, WINDOW} == set(calm.own(name)) for name in calm.names[1:])


def test_a_restart_while_prometheus_is_down_removes_nothing_before_forget_after(calm: Rig) -> None:
    calm.interval = 60.0
    calm.settled().stop()
    before = calm.published()
    calm.faults.prometheus_down()
    calm.faults.metrics_server_missing()
    patches = calm.patches()["nodes"]
    daemon = calm.daemon(PUBLISHING__FORGET_AFTER="10m")
    assert "know 0 of 10 nodes" in daemon.board.cycles[0].sentence
    assert "10 silent" in daemon.board.cycles[0].sentence
    told, published = calm.cycle(daemon, 9)
    assert published.startswith("publishing is frozen: 10 of 10 nodes are silent")
    assert "BALLAST_PROMETHEUS__URL" in told
    assert calm.published() == before
    assert calm.patches()["nodes"] == patches
    calm.cycle(daemon, 2)
    assert set(map(str, calm.published().values())) == {str({LOAD: "unknown"})}
    calm.faults.clear()
    calm.cycle(daemon, 3)
    assert all({SCORE, LOAD, WINDOW} == set(own) for own in calm.published().values())


def test_a_restart_changes_nothing(calm: Rig) -> None:
    calm.settled().stop()
    before, patches = calm.published(), calm.patches()["nodes"]
    calm.cycle(calm.daemon(), 5)
    assert calm.published() == before
    assert calm.patches()["nodes"] == patches


def test_a_node_that_was_dark_before_a_restart_stays_unknown(calm: Rig) -> None:
    daemon = calm.settled()
    dark = calm.names[5]
    calm.faults.node_dark(dark)
    calm.cycle(daemon, 6)
    assert calm.own(dark) == {LOAD: "unknown"}
    daemon.stop()
    patches = calm.patches()["nodes"]
    daemon = calm.daemon()
    assert daemon.board.cycles[0].sentence.startswith("know 9 of 10 nodes from prometheus, 1 unknown")
    calm.cycle(daemon, 5)
    assert calm.own(dark) == {LOAD: "unknown"}
    assert calm.patches()["nodes"] == patches


def test_a_new_node_is_young_and_published_once_its_window_suffices(calm: Rig) -> None:
    fresh = calm.names[-1]
    document = calm.node(fresh)
    calm.cluster.resources.delete(NODE, "", fresh)
    daemon = calm.daemon(WINDOWS__LENGTHS="5m", WINDOWS__MIN_SAMPLES="3")
    calm.cycle(daemon, 4)
    del document["metadata"]["resourceVersion"]
    calm.cluster.resources.create(NODE, "", document)
    until(lambda: daemon.context.cache.node(fresh))
    assert calm.cycle(daemon)[0] == "know 9 of 10 nodes from prometheus, 1 unknown (1 young)"
    assert calm.own(fresh) == {}
    assert fresh not in watcher(daemon)
    calm.cycle(daemon, 6)
    assert set(calm.own(fresh)) == {SCORE, LOAD, WINDOW}
    assert fresh in watcher(daemon)


def test_overloaded_nodes_are_tainted_and_foreign_taints_stay(calm: Rig) -> None:
    foreign = [{"key": "team", "value": "blue", "effect": "NoSchedule"}]
    for name in calm.names:
        calm.set_taints(name, foreign)
    loads = {"PUBLISHING__TAINT": "true", "PUBLISHING__LOW": "0.1", "PUBLISHING__HIGH": "0.2"}
    daemon = calm.settled(**loads, PUBLISHING__OVERLOADED="0.3")
    peaks = dict(zip(calm.names, snapshot(daemon).primary.mean.max(axis=0), strict=True))
    over = {name for name in calm.names if peaks[name] >= 0.3}
    assert over
    for name in calm.names:
        ours = [{"key": TAINT, "effect": "PreferNoSchedule"}] if name in over else []
        assert calm.node(name)["spec"]["taints"] == foreign + ours
    daemon.stop()
    daemon = calm.daemon(**loads, PUBLISHING__OVERLOADED="1.5")
    send, raced = daemon.context.api.request, set()

    def racing(method: str, path: str, *, body: Any = None, **options: Any) -> bytes:
        name = path.rpartition("/")[2]
        if method == "PATCH" and "spec" in body and name not in raced:
            raced.add(name)
            calm.set_taints(name, [*calm.node(name)["spec"]["taints"], {"key": "late", "effect": "NoExecute"}])
        return send(method, path, body=body, **options)

    daemon.context.api.request = racing  # type: ignore[method-assign]
    calm.cycle(daemon, 4)
    assert raced == over
    for name in over:
        assert [taint["key"] for taint in calm.node(name)["spec"]["taints"]] == ["team", "late"]


def test_nodes_come_and_go(calm: Rig) -> None:
    daemon = calm.settled()
    gone = calm.names[4]
    calm.cluster.resources.delete(NODE, "", gone)
    until(lambda: daemon.context.cache.node(gone) is None)
    calm.advance()
    assert calm.watch(daemon) == "know 9 of 9 nodes from prometheus, 0 unknown; rejected 2 unmatched"
    assert gone not in watcher(daemon)
    assert (
        daemon.scheduler.run("publishing").sentence
        == "labels current on 9 of 9 nodes (0 changed, 0 unknown); next in 30 s"
    )


def test_two_ballasts_that_fight_over_labels_find_each_other(calm: Rig) -> None:
    daemon = calm.settled()
    fought, other = calm.names[:2], '{"by":"elsewhere/ballast","v":1}'
    assert window(calm.own(calm.names[0])[WINDOW])["by"] == "ballast/ballast"
    for _ in range(4):
        for name in fought:
            patch = {"metadata": {"labels": {SCORE: "1"}, "annotations": {WINDOW: other}}}
            calm.cluster.resources.patch(NODE, "", name, "application/merge-patch+json", patch)
        calm.cycle(daemon)
    assert "taint on node-000, node-001. What it wrote is put back" in str(condition(daemon, "Contended"))
    assert all(calm.own(name)[SCORE] != "1" for name in calm.names), "nothing of theirs stays"
    assert all(window(calm.own(name)[WINDOW])["by"] == "ballast/ballast" for name in fought)
    taint = [{"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}]
    assert [calm.node(name)["spec"].get("taints", []) for name in calm.names[:3]] == [taint, taint, []]
    calm.cycle(daemon, 22)
    assert condition(daemon, "Contended") is None
    assert not any(calm.node(name)["spec"].get("taints") for name in fought)


@pytest.mark.parametrize(
    ("prefix", "mode", "is_open"),
    [
        (None, "on", True),
        ("scores.example.com", "on", True),
        ("evilnode-restriction.kubernetes.io", "on", True),
        ("x.node-restriction.kubernetes.io", "on", False),
        ("node-restriction.kubernetes.io", "on", False),
        (None, "dry-run", False),
    ],
)
def test_an_open_prefix_of_labels_is_told_while_a_profile_reads_them(
    prefix: str | None, mode: str, is_open: bool, calm: Rig
) -> None:
    daemon = calm.settled(PUBLISHING__MODE=mode, **({"PUBLISHING__LABEL_PREFIX": prefix} if prefix else {}))
    calm.cycle(daemon)
    told = condition(daemon, "LabelsOpen")
    assert (told is not None) == is_open
    if is_open:
        assert f"write {prefix or 'ballast.dev'}/score on it" in str(told)
        assert "BALLAST_PUBLISHING__LABEL_PREFIX=ballast.node-restriction.kubernetes.io keeps" in str(told)
        for asked in (True, False):  # A night without new pods says nothing of the profile.
            daemon.publishing._extender_asked = lambda asked=asked: asked  # type: ignore[misc]
            calm.cycle(daemon)
            assert condition(daemon, "LabelsOpen") is None


def test_labels_may_have_a_prefix_of_their_own_and_everything_else_keeps_its(calm: Rig) -> None:
    """NodeRestriction keeps these labels from kubelets; the words of operators stay where they are."""
    guarded = "ballast.node-restriction.kubernetes.io"
    calm.settled(PUBLISHING__TAINT="true").stop()
    assert "ballast.dev/score" in calm.node(calm.names[0])["metadata"]["labels"]
    daemon = calm.settled(PUBLISHING__LABEL_PREFIX=guarded, PUBLISHING__TAINT="true")
    calm.cycle(daemon, 2)
    for name in calm.names:
        labels = calm.node(name)["metadata"]["labels"]
        assert {key for key in labels if "ballast" in key} == {f"{guarded}/score", f"{guarded}/load"}
        assert WINDOW in calm.node(name)["metadata"]["annotations"]
    [shown, *_] = get(daemon, "/api/v1/nodes").json()["nodes"]
    assert shown["published"]["score"] == calm.node(shown["name"])["metadata"]["labels"][f"{guarded}/score"]
