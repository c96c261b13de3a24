"""What planners are shown of a course is what the daemon would lay out of the same objects."""

from dataclasses import fields, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ballast.base.errors import Conflict, NotFound, TooManyRequests
from ballast.eviction.feasibility import handed_over
from ballast.model.pod import Pod
from ballast.model.selector import parse
from ballast.model.workload import DisruptionBudget
from ballast.placement.layout import layout
from ballast.settings import load
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.history import RESOURCES
from ballast_lab.rehearse.played import PlayedClock
from ballast_lab.rehearse.played_cluster import PlayedCluster, schedule
from ballast_lab.rehearse.recording import open_recording
from lab_tests.rehearse.worlds import BEGIN, RecordedPod, World, hot_world

LATER = BEGIN + 600


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """After ten minutes, in which a pod ended and another started; then two pods are moved."""
    world = hot_world(20)
    world.pods[3].end = 300.0
    world.pods += [RecordedPod("late", "n2", 0.7, requests=(0.3, 2**30), start=300.0)]
    recording = open_recording(world.write(tmp_path))
    course = Course(recording.history, load({}))
    for use in recording.play(BEGIN, LATER, 60.0):
        course.advance(use)
    course.move(course.row_of("default/w0-0"), 2)
    course.move(course.row_of("default/late"), 3)
    return course


def cluster_of(course: Course) -> PlayedCluster:
    clock = PlayedClock()
    clock.now = course.time
    return PlayedCluster(course, clock, lambda pod: None, schedule)


def test_the_layout_is_that_of_the_daemon(course: Course) -> None:
    shown, load_now = cluster_of(course), course.load()
    rows = course.running()
    use = {
        f"{course.pods[row].namespace}/{course.pods[row].name}": dict(zip(RESOURCES, amounts, strict=True))
        for row, amounts in zip(rows.tolist(), course.of_pods(rows).tolist(), strict=True)
    }
    error = np.full(load_now.T.shape, 0.01)
    expected = layout(shown.nodes(), shown.pods(), RESOURCES, load_now.T, use, None, {"cpu": 1, "memory": 1}, error)
    arranged = course.arrange(load_now.T, error, (0, 1))
    for field in fields(expected):
        ours, theirs = getattr(arranged, field.name), getattr(expected, field.name)
        if isinstance(theirs, np.ndarray):
            np.testing.assert_allclose(ours, theirs, err_msg=field.name)
        else:
            assert ours == theirs, field.name


def test_a_moved_pod_takes_its_use_along(course: Course) -> None:
    """Half a core left n1 of nineteen such pods, of which one has ended; 0.7 of a core went from n2 to n4."""
    np.testing.assert_allclose(course.load()[0] * 10, [17 * 0.5, 1.0, 1.5, 1.7])


def test_a_moved_pod_is_new_where_it_is(course: Course) -> None:
    pod = course.pods[course.row_of("default/w0-0")]
    assert (pod.node, pod.created) == ("n3", LATER)
    assert pod.uid != course.history.pods[course.row_of("default/w0-0")].uid


def test_a_pod_that_starts_where_moved_pods_took_the_room_goes_elsewhere(tmp_path: Path) -> None:
    """n1 has room for two pods of half of its memory; one was moved there, so of two that start one is displaced."""
    half = (0.1, 20 * 2.0**30)
    pods = [RecordedPod("a", "n2", requests=half)]
    pods += [RecordedPod(f"b{number}", "n1", requests=half, start=120.0) for number in range(2)]
    recording = open_recording(World(pods, minutes=10).write(tmp_path))
    course = Course(recording.history, load({}))
    for use in recording.play(BEGIN, BEGIN + 600, 60.0):
        course.advance(use)
        if use.time == BEGIN:
            course.move(course.row_of("default/a"), 0)
    assert course.displaced == 1
    assert sorted(np.bincount(course.on[course.there], minlength=4).tolist()) == [0, 0, 1, 2]
    assert (course.free >= 0).all()


def test_one_of_a_name_ends_before_the_next_starts(tmp_path: Path) -> None:
    """As kube-state-metrics shows a StatefulSet's pod that comes back elsewhere within the hour."""
    pods = [
        RecordedPod("db-0", "n1", kind="StatefulSet", workload="db", end=900.0),
        RecordedPod("db-0", "n2", kind="StatefulSet", workload="db", start=300.0),
    ]
    recording = open_recording(World(pods, minutes=10).write(tmp_path))
    course = Course(recording.history, load({}))
    for use in recording.play(BEGIN, BEGIN + 600, 60.0):
        course.advance(use)
        assert np.count_nonzero(course.there) == 1
    assert course.pods[course.running()[0]].node == "n2"


def test_a_taint_stays_until_it_is_taken_away(course: Course) -> None:
    cluster = cluster_of(course)

    def marked() -> list[str]:
        shown = course.arrange(course.load().T, None, (0, 1)).nodes
        assert tuple(shown) == cluster.nodes()
        return [node.name for node in shown if handed_over(node, "ballast.dev")]

    def put(*keys: str) -> None:
        taints = [{"key": key, "effect": "PreferNoSchedule"} for key in keys]
        cluster.request("PATCH", "/api/v1/nodes/n2", body={"spec": {"taints": taints}})

    put("ballast.dev/empty")
    assert marked() == ["n2"]
    assert b"ballast.dev/empty" in cluster.get("/api/v1/nodes/n2")
    put()
    assert marked() == []
    assert course.nodes == list(course.history.nodes)


def evict(cluster: PlayedCluster, pod: Pod, uid: str = "") -> None:
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
    cluster.request("POST", path, body={"deleteOptions": {"preconditions": {"uid": uid or pod.uid}}})


def test_an_evicted_pod_is_another_one_elsewhere(course: Course) -> None:
    cluster = cluster_of(course)
    pod = next(pod for pod in cluster.pods() if pod.node == "n1")
    evict(cluster, pod)
    [landing] = cluster.landings
    came = next(each for each in cluster.pods() if (each.namespace, each.name) == (pod.namespace, pod.name))
    assert (came.node, came.uid != pod.uid, came.created) == (landing.target, True, LATER)
    assert landing.source == "n1" != landing.target
    with pytest.raises(Conflict):
        evict(cluster, pod)
    with pytest.raises(NotFound):
        evict(cluster, msgspec.structs.replace(pod, name="nobody"))


def test_a_budget_allows_nothing_while_a_replacement_is_not_ready(course: Course) -> None:
    """Of w0 one pod may go; its replacement takes 90 s to be Ready."""
    pods = [pod for pod in cluster_of(course).pods() if pod.owner is not None and pod.owner.name == "w0"]
    key = ("default", "Deployment", "w0")
    budget = DisruptionBudget("default", "w0", parse(""), allowed=1)
    history = replace(course.history, restarts={key: 90.0})
    course.history = replace(history, objects=replace(history.objects, budgets=(budget,)))
    clock = PlayedClock()
    clock.now = course.time
    cluster = PlayedCluster(course, clock, lambda pod: None, schedule)
    evict(cluster, pods[0])
    [workload] = [each for each in cluster.workloads() if each.key == key]
    assert workload.replicas == (workload.ready or 0) + 1
    with pytest.raises(TooManyRequests):
        evict(cluster, pods[1])
    clock.now += 90.0
    cluster.settle()
    assert all(pod.ready for pod in cluster.pods())
    evict(cluster, pods[1])


def test_what_full_nodes_could_not_give_is_still_wanted(tmp_path: Path) -> None:
    """n1 shows 10 of its cores, its pods want 12: without one of 3 it has 9, not 7."""
    pods = [RecordedPod(f"a{number}", "n1", 3.0) for number in range(4)]
    world = World(pods, minutes=10)
    recording = open_recording(world.write(tmp_path))
    course = Course(recording.history, load({}))
    for use in recording.play(BEGIN, BEGIN + 600, 60.0):
        course.advance(replace(use, nodes=np.minimum(use.nodes, 10.0 * np.array([[1.0], [2.0**40]]))))
    np.testing.assert_allclose(course.used()[0], [10.0, 0.0, 0.0, 0.0])
    course.move(0, 1)
    np.testing.assert_allclose(course.used()[0], [9.0, 3.0, 0.0, 0.0])


def test_prometheus_has_the_past_of_pods_that_keep_their_names(tmp_path: Path) -> None:
    pods = [RecordedPod("web-1", "n1", 1.0), RecordedPod("db-0", "n1", 2.0, kind="StatefulSet", workload="db")]
    recording = open_recording(World(pods, minutes=10).write(tmp_path))
    course = Course(recording.history, load({}))
    for use in recording.play(BEGIN, BEGIN + 600, 60.0):
        course.advance(use)
    for row in (0, 1):
        course.move(row, 1)
    past = dict(
        zip((pod.name for pod in course.pods), course.over_the_hour(course.running())[:, 0].tolist(), strict=True)
    )
    assert past["db-0"] == 2.0
    assert np.isnan(past["web-1"])
