"""Of several tellers of one node, the one whose target runs there is believed; numbers of nodes decide nothing."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.telemetry.several_jobs import LEFTOVER, REMEMBERED, Job, JobsOfNodes, SeveralJobs, Teller

OURS, THEIRS = Job("monitoring", "node-exporter"), Job("tenant", "evil")
Labels = dict[str, str]
Reported = Mapping[str, Sequence[Labels]]


def of(job: Job, pod: str = "") -> Labels:
    """The labels of a series."""
    return {"namespace": job.namespace, "job": job.name, **({"pod": pod} if pod else {})}


def fleet(count: int, *, without: Sequence[int] = ()) -> dict[str, list[Labels]]:
    """Nodes n0, n1, …, each told of by its own pod of our job."""
    return {f"n{row}": [] if row in without else [of(OURS, f"ne-{row}")] for row in range(count)}


PLACES = {f"monitoring/ne-{row}": f"n{row}" for row in range(40)} | {
    f"tenant/evil-{row}": f"n{row}" for row in range(40)
}


def judged(jobs: JobsOfNodes, nodes: Reported, at: float = 0.0) -> SeveralJobs | None:
    return jobs.judge(at, {node: each for node, each in nodes.items() if each}, PLACES.get)


def left_out(found: SeveralJobs | None) -> set[Job | Teller]:
    return set() if found is None else set(found.left_out)


@pytest.mark.parametrize("down", [[], [3], [0, 1, 2, 3]])
@pytest.mark.parametrize("told", [range(4), range(20)])
def test_a_job_whose_pods_run_elsewhere_is_left_out_however_many_nodes_it_tells_of(
    told: Sequence[int], down: Sequence[int]
) -> None:
    nodes = fleet(20, without=down)
    for row in told:
        nodes[f"n{row}"].append(of(THEIRS, "evil-7"))
    found = judged(JobsOfNodes(), nodes)
    assert found is not None
    assert found.left_out == {THEIRS: 'job!="evil"'}
    assert found.doubtful == frozenset()


def test_a_pod_that_tells_of_another_node_alone_counts_for_nothing_there() -> None:
    found = judged(JobsOfNodes(), fleet(5, without=[3]) | {"n3": [of(THEIRS, "evil-1")]})
    assert left_out(found) == {THEIRS}


@pytest.mark.parametrize("pod", ["evil-7", "evil-1"])
def test_a_pod_under_the_job_and_namespace_of_the_exporter_is_left_out_alone(pod: str) -> None:
    forged = {"namespace": OURS.namespace, "job": OURS.name, "pod": pod}
    places = {**PLACES, f"monitoring/{pod}": "n9"}
    nodes = fleet(20, without=[2])
    for row in (1, 2):
        nodes[f"n{row}"].append(forged)
    jobs = JobsOfNodes()
    for at in (0.0, LEFTOVER):
        found = jobs.judge(at, nodes, places.get)
    assert found is not None
    assert found.left_out == {Teller(OURS, f"monitoring/{pod}"): f'pod!="{pod}"'}
    assert found.leaves_out(forged)
    assert not found.leaves_out(of(OURS, "ne-1"))


def test_pods_of_two_jobs_on_the_node_that_they_tell_of_leave_it_doubtful() -> None:
    nodes = fleet(5)
    nodes["n2"].append(of(THEIRS, "evil-2"))
    found = judged(JobsOfNodes(), nodes)
    assert found is not None
    assert (found.doubtful, found.left_out) == ({"n2"}, {})
    assert set(found.matchers) == {'job!="evil"', 'job!="node-exporter"'}


def test_two_jobs_that_scrape_the_same_pod_are_one() -> None:
    nodes = fleet(5)
    for row in range(5):
        nodes[f"n{row}"].append({"namespace": "monitoring", "job": "pods", "pod": f"ne-{row}"})
    assert judged(JobsOfNodes(), nodes) is None


def test_without_labels_of_pods_a_shared_node_is_doubtful_and_others_are_not() -> None:
    nodes = {f"n{row}": [of(OURS)] for row in range(5)}
    nodes["n2"].append(of(THEIRS))
    found = judged(JobsOfNodes(), nodes)
    assert found is not None
    assert (found.doubtful, found.left_out) == ({"n2"}, {})


def test_jobs_that_tell_the_same_number_are_no_matter() -> None:
    nodes = {f"n{row}": [of(OURS), of(Job("monitoring", "kubelet"))] for row in range(5)}
    jobs = JobsOfNodes()
    assert jobs.judge(0.0, nodes, agreed=frozenset(nodes)) is None
    found = jobs.judge(60.0, nodes, agreed=frozenset({"n0", "n1", "n2", "n4"}))
    assert found is not None
    assert found.doubtful == {"n3"}


def test_who_contradicts_others_does_not_stand_in_where_they_fall_silent() -> None:
    for more in ("", "ne"):
        nodes = {f"n{row}": [of(OURS, more and f"ne-{row}"), of(THEIRS)] for row in range(5)}
        jobs = JobsOfNodes()
        judged(jobs, {node: each[:1] for node, each in nodes.items()})
        nodes["n3"] = [of(THEIRS)]
        found = judged(jobs, nodes, 60.0)
        assert found is not None
        assert "n3" in found.doubtful


def test_what_was_left_out_stays_so_for_an_hour() -> None:
    nodes = fleet(3)
    jobs = JobsOfNodes()
    judged(jobs, nodes | {"n0": [*nodes["n0"], of(THEIRS, "evil-2")]})
    assert left_out(judged(jobs, nodes, 60.0)) == {THEIRS}
    assert left_out(judged(jobs, nodes, REMEMBERED - 1)) == {THEIRS}
    assert judged(jobs, nodes, REMEMBERED) is None


def test_agents_that_scrape_for_others_are_believed_where_nobody_is_proved_by_place() -> None:
    nodes = {f"n{row}": [of(Job("agents", "alloy"), "alloy-0")] for row in range(9)}
    assert JobsOfNodes().judge(0.0, nodes, {"agents/alloy-0": "n20"}.get) is None
    assert JobsOfNodes().judge(0.0, {"n1": nodes["n1"]}, {"agents/alloy-0": "n20"}.get) is None


def test_a_rollout_of_the_exporter_is_nothing_to_say() -> None:
    """What the pod before told is seen for a while beside the next one's."""
    jobs, nodes = JobsOfNodes(), fleet(9)
    for row in range(9):
        both = nodes | {f"n{row}": [of(OURS, f"gone-{row}"), of(OURS, f"ne-{row}")]}
        assert judged(jobs, both, 60.0 * row) is None
        assert judged(jobs, both, 60.0 * row + 30) is None


def test_a_new_exporter_whose_pod_the_watch_does_not_show_yet_is_nothing_to_say() -> None:
    assert judged(JobsOfNodes(), fleet(9, without=[4]) | {"n4": [of(OURS, "new")]}) is None


@pytest.mark.parametrize(
    ("forged", "matcher"),
    [
        (Job("tenant", "node-exporter"), 'namespace!="tenant"'),
        (Job("tenant", 'e"v\\il'), 'job!="e\\"v\\\\il"'),
        (Job("tenant", ""), 'job!=""'),
        (Job("tenant", "a\nb\t\u202e\U000e0001"), 'job!="a\\u000ab\\u0009\\u202e\\U000e0001"'),
    ],
)
def test_the_matcher_leaves_out_that_job_alone(forged: Job, matcher: str) -> None:
    nodes = fleet(3)
    nodes["n0"].append(of(forged, "evil-2"))
    found = judged(JobsOfNodes(), nodes)
    assert found is not None
    assert found.left_out == {forged: matcher}
    assert found.matchers == (matcher,)


def test_more_than_can_be_named_leave_their_nodes_doubtful() -> None:
    nodes = fleet(30)
    for row in range(30):
        nodes[f"n{row}"].append(of(Job("tenant", f"evil-{row:02d}"), f"evil-{(row + 1) % 30}"))
    found = judged(JobsOfNodes(), nodes)
    assert found is not None
    assert len(found.left_out) == 20
    assert found.doubtful == {f"n{row}" for row in range(20, 30)}


def test_a_namespace_that_is_the_exporters_own_tells_no_jobs_apart() -> None:
    series = {"n0": [{"namespace": space, "job": "dcgm", "pod": "train"} for space in ("team-a", "team-b")]}
    assert JobsOfNodes().judge(0.0, series, PLACES.get, namespaces=False) is None


ROWS = st.integers(0, 11)
FORGED = st.lists(
    st.tuples(
        ROWS,
        st.sampled_from([THEIRS, OURS, Job("tenant", "node-exporter"), Job("monitoring", "evil"), Job("", "")]),
        st.sampled_from(["", "ghost", "evil-0", "evil-1", "evil-5", "ne-0", "ne-1"]),
    ),
    max_size=40,
)


@given(FORGED, st.sets(ROWS, max_size=2), st.lists(st.booleans(), min_size=1, max_size=4))
def test_whatever_a_tenant_tells_no_value_but_the_exporters_counts(
    forged: list[tuple[int, Job, str]], down: set[int], turns: list[bool]
) -> None:
    """Of a node that is not doubtful the exporter's own pod tells alone, and it is never left out."""
    jobs = JobsOfNodes()
    judged(jobs, fleet(12))
    honest = {node: each for node, each in fleet(12, without=sorted(down)).items() if each}
    at = 60.0
    for on in [True, *turns, True, True]:
        nodes = {node: list(each) for node, each in honest.items()}
        for row, job, pod in forged if on else []:
            if of(job, pod) | {"job": ""} == of(OURS, f"ne-{row}") | {"job": ""}:
                continue  # all that is known of the exporter's own target: a copy of it
            nodes.setdefault(f"n{row}", []).append(of(job, pod))
        found = judged(jobs, nodes, at)
        at += LEFTOVER
    genuine = [of(OURS, f"ne-{row}") for row in range(12)]
    if found is None:
        assert all(labels in genuine for each in nodes.values() for labels in each)
        return
    assert not any(found.leaves_out(labels) for each in honest.values() for labels in each)
    for node in nodes.keys() - found.doubtful:
        counted = [labels for labels in nodes[node] if not found.leaves_out(labels)]
        assert all(labels == of(OURS, f"ne-{node[1:]}") for labels in counted), node
