"""Of several scrape jobs that report one node, the one that reports the most nodes is believed."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.telemetry.several_jobs import REMEMBERED, Job, JobsOfNodes

OURS, THEIRS = Job("monitoring", "node-exporter"), Job("tenant-a", "evil")
Reported = Mapping[str, Sequence[dict[str, str]]]


def reported(**jobs: Sequence[Job]) -> Reported:
    """The jobs that report each node."""
    return {node: [{"namespace": job.namespace, "job": job.name} for job in each] for node, each in jobs.items()}


def fleet(count: int, *more: Job) -> dict[str, Sequence[Job]]:
    """`count` nodes of ours; `more` report the first one too."""
    return {f"n{row}": (OURS, *(more if row == 0 else ())) for row in range(count)}


def test_a_job_that_reports_fewer_nodes_is_left_out() -> None:
    jobs = JobsOfNodes()
    assert jobs.judge(0.0, reported(**fleet(3, THEIRS))) == {THEIRS}
    assert jobs.several is not None
    assert jobs.several.jobs == {OURS: 3, THEIRS: 1}
    assert jobs.several.shared == {"n0"}
    assert jobs.several.left_out == {THEIRS: 'job!="evil"'}
    assert jobs.several.doubtful == frozenset()
    assert jobs.several.matchers == ('job!="evil"',)


def test_one_job_for_each_node_is_nothing_to_say() -> None:
    jobs = JobsOfNodes()
    assert jobs.judge(0.0, reported(**fleet(3), pool=[Job("monitoring", "gpu-nodes")])) == frozenset()
    assert jobs.several is None


@pytest.mark.parametrize(
    ("forged", "matcher"),
    [
        (Job("tenant-a", "node-exporter"), 'namespace!="tenant-a"'),
        (Job("monitoring", 'e"v\\il'), 'job!="e\\"v\\\\il"'),
        (Job("", ""), 'job!=""'),
        (Job("tenant-a", "a\nb\t\u202e\U000e0001"), 'job!="a\\u000ab\\u0009\\u202e\\U000e0001"'),
    ],
)
def test_the_matcher_leaves_out_that_job_alone(forged: Job, matcher: str) -> None:
    jobs = JobsOfNodes()
    assert jobs.judge(0.0, reported(**fleet(3, forged))) == {forged}
    assert jobs.several is not None
    assert jobs.several.left_out[forged] == matcher


def test_a_job_that_no_matcher_tells_from_others_makes_its_nodes_doubtful() -> None:
    """It has the name of one good job and the namespace of another."""
    other = Job("logging", "agents")
    jobs = JobsOfNodes()
    nodes = fleet(3, Job("logging", "node-exporter")) | {"n7": [other]}
    assert jobs.judge(0.0, reported(**nodes)) == frozenset()
    assert jobs.several is not None
    assert jobs.several.doubtful == {"n0"}


def test_a_job_with_nodes_of_its_own_stays_and_what_it_shares_is_doubtful() -> None:
    jobs = JobsOfNodes()
    pool = Job("monitoring", "gpu-nodes")
    assert jobs.judge(0.0, reported(**fleet(3, pool), n9=[pool])) == frozenset()
    assert jobs.several is not None
    assert jobs.several.doubtful == {"n0"}


def test_equal_jobs_are_named_and_neither_is_left_out() -> None:
    jobs = JobsOfNodes()
    second = Job("monitoring", "second")
    assert jobs.judge(0.0, reported(n0=[OURS, second], n1=[second, OURS])) == frozenset()
    assert jobs.several is not None
    assert jobs.several.doubtful == frozenset()
    assert jobs.several.matchers == ('job!="second"', 'job!="node-exporter"')


def test_what_was_left_out_does_not_stand_in_when_the_good_job_is_silent() -> None:
    jobs = JobsOfNodes()
    jobs.judge(0.0, reported(**fleet(3, THEIRS)))
    silent = reported(**{**fleet(3), "n0": [THEIRS]})
    assert jobs.judge(60.0, silent) == {THEIRS}
    assert jobs.judge(REMEMBERED - 1, silent) == {THEIRS}
    assert jobs.judge(REMEMBERED, silent) == frozenset(), "an hour later it is a job of its own"
    assert jobs.several is None


def test_a_job_that_takes_over_is_believed_as_soon_as_it_is_the_larger_one() -> None:
    jobs, new = JobsOfNodes(), Job("monitoring", "new")
    assert jobs.judge(0.0, reported(n0=[OURS, new], n1=[OURS], n2=[OURS])) == {new}
    assert jobs.judge(60.0, reported(n0=[new], n1=[OURS, new], n2=[OURS, new])) == {OURS}


CROWD = [Job("t", f"j{number:04d}") for number in range(500)]


@pytest.mark.parametrize(
    ("more", "matcher"),
    [([], 'job="node-exporter"'), ([Job("t", "node-exporter")], 'job="node-exporter",namespace="monitoring"')],
)
def test_beside_very_many_jobs_the_good_one_is_asked_for_by_name(more: list[Job], matcher: str) -> None:
    jobs = JobsOfNodes()
    assert len(jobs.judge(0.0, reported(**fleet(5, *CROWD, *more)))) == 500 + len(more)
    assert jobs.several is not None
    assert jobs.several.matchers == (matcher,)
    assert jobs.several.doubtful == frozenset()


def test_the_good_one_is_not_asked_for_by_a_namespace_that_is_the_exporters_own() -> None:
    jobs = JobsOfNodes()
    jobs.judge(0.0, reported(**fleet(5, *CROWD)), namespaces=False)
    assert jobs.several is not None
    assert jobs.several.matchers == ('job="node-exporter"',)


def test_of_very_many_jobs_beside_two_good_ones_the_nodes_are_doubtful() -> None:
    jobs = JobsOfNodes()
    left_out = jobs.judge(0.0, reported(**fleet(5, *CROWD), pool=[Job("monitoring", "gpu-nodes")]))
    assert len(left_out) == 20
    assert jobs.several is not None
    assert jobs.several.doubtful == {"n0"}


def test_a_namespace_that_is_the_exporters_own_tells_no_jobs_apart() -> None:
    jobs = JobsOfNodes()
    series = {"n0": [{"namespace": "team-a", "job": "dcgm"}, {"namespace": "team-b", "job": "dcgm"}]}
    assert jobs.judge(0.0, series, namespaces=False) == frozenset()
    assert jobs.several is None


JOBS = [Job(namespace, name) for namespace in ("a", "b") for name in ("x", "y", "z")]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from(JOBS), min_size=1), min_size=1))
def test_leaving_out_takes_no_node_away_and_keeps_the_largest_job(nodes: dict[str, set[Job]]) -> None:
    jobs = JobsOfNodes()
    left_out = jobs.judge(0.0, reported(**{node: sorted(each) for node, each in nodes.items()}))
    counts = {job: sum(job in each for each in nodes.values()) for job in JOBS}
    for each in nodes.values():
        assert each - left_out, "some job still reports the node"
        assert max(each, key=lambda job: counts[job]) not in left_out or len({counts[job] for job in each}) == 1
    shared = {node for node, each in nodes.items() if len(each) > 1}
    if jobs.several is None:
        assert not shared
    else:
        assert jobs.several.shared == shared
        for node in shared - jobs.several.doubtful:
            assert len({counts[job] for job in nodes[node] - left_out}) == 1
