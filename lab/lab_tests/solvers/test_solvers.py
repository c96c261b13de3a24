import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from ballast.base.errors import Infeasible
from ballast.solving import Problem, Solution, arrange, collisions
from ballast.solving.units import units
from ballast_lab.solvers import SOLVERS, solve
from ballast_lab.solvers.exact import standing_out
from ballast_lab.solvers.problem_file import problem_of
from ballast_lab.solvers.relaxed import relaxed_bound
from lab_tests.solvers.problems import Json, all_placements, broken, documents, value
from tests.properties import examples

OURS = tuple(name for name in SOLVERS if name != "genetic-paper")
FEW = examples(15, suppress_health_check=[HealthCheck.too_slow])


def solved(document: Json, solver: str, **options: Any) -> Solution:
    return solve(problem_of(document, "test"), solver=solver, **{"evaluations": 600, **options})


def small(seed: int, nodes: int = 3, pods: int = 8, sizes: tuple[float, ...] = (1.0,)) -> Json:
    rng = np.random.default_rng(seed)
    resources = ["cpu", "memory", "disk", "network"]
    room = [100.0 * sizes[row % len(sizes)] for row in range(nodes)]
    use = rng.lognormal(0, 0.6, (pods, 4))
    use *= 0.5 * sum(room) / use.sum(axis=0)
    return {
        "resources": resources,
        "nodes": [{"name": f"n{row}", "capacity": dict.fromkeys(resources, each)} for row, each in enumerate(room)],
        "pods": [
            {"name": f"p{row:02d}", "use": dict(zip(resources, each.tolist(), strict=True))}
            for row, each in enumerate(use)
        ],
    }


@pytest.mark.parametrize("solver", OURS)
@given(document=documents())
@FEW
def test_a_placement_breaks_no_rule_and_is_refused_only_if_there_is_none(solver: str, document: Json) -> None:
    try:
        found = solved(document, solver)
    except Infeasible:
        assert not all_placements(document)
        return
    assert broken(document, dict(found.placement)) == []
    assert found.violations == ()
    check_devices(document, found)
    assert found.objective.value == pytest.approx(value(document, dict(found.placement)), abs=1e-12)
    assert found.evaluations <= 600


def check_devices(document: Json, found: Solution) -> None:
    """Each device of the answer has the resource, holds what is there, and has one share of a pod at most."""
    nodes = {node["name"]: node for node in document["nodes"]}
    left = {name: [device["capacity"] for device in node.get("devices", ())] for name, node in nodes.items()}
    for pod in document["pods"]:
        positions = found.devices().get(pod["name"], ())
        node = nodes[found.placement[pod["name"]]]
        assert len(set(positions)) == len(positions) == len(pod.get("devices", ()))
        for position, share in zip(positions, pod.get("devices", ()), strict=True):
            assert node["devices"][position]["resource"] == share["resource"]
            left[node["name"]][position] -= share["amount"]
    assert all(capacity >= 0 for capacities in left.values() for capacity in capacities)


@given(document=documents(pods=5), data=st.data())
@FEW
def test_at_most_so_many_pods_leave_their_node(document: Json, data: st.DataObject) -> None:
    for pod in document["pods"]:
        pod["node"] = data.draw(st.sampled_from([node["name"] for node in document["nodes"]]))
    most = data.draw(st.integers(0, 6))
    homes = {pod["name"]: pod["node"] for pod in document["pods"]}
    for solver in ("late-acceptance", "genetic", "steepest", "exact", "longest-first"):
        try:
            found = solved(document, solver, max_moves=most)
        except Infeasible:
            moves = (sum(each[pod] != home for pod, home in homes.items()) for each in all_placements(document))
            assert min(moves, default=99) > most
            continue
        assert found.moves <= most
        assert broken(document, dict(found.placement)) == []
        assert found.moves == sum(found.placement[pod] != home for pod, home in homes.items())


@given(document=documents(pods=5))
@FEW
def test_exact_is_the_best_of_all(document: Json) -> None:
    every = all_placements(document)
    if not every:
        with pytest.raises(Infeasible):
            solved(document, "exact", evaluations=None, seconds=1.0, clock=lambda: 0.0)
        return
    found = solved(document, "exact", evaluations=1_000_000, seconds=None)
    best = min(value(document, each) for each in every)
    assert found.objective.value == pytest.approx(best, rel=1e-6, abs=1e-12)
    assert found.bound is not None
    assert found.bound <= best + 1e-12
    assert found.bound == pytest.approx(best, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("solver", ["late-acceptance", "genetic"])
@pytest.mark.parametrize("seed", range(2))
def test_search_finds_the_best_of_small_problems(solver: str, seed: int) -> None:
    document = small(seed, pods=9, sizes=(1.0, 2.0) if seed % 2 else (1.0,))
    best = solved(document, "exact", evaluations=1_000_000).objective.value
    found = solved(document, solver, evaluations=20_000)
    assert np.sqrt(found.objective.value) <= 1.02 * np.sqrt(best)


@pytest.mark.parametrize("solver", SOLVERS)
def test_input_order_and_repetition_change_nothing(solver: str) -> None:
    document = small(1, nodes=4, pods=12)
    document["rules"] = {"affine": [["p01", "n0", "n2"]], "apart": [["p02", "p03"], ["p04", "p05", "p06"]]}
    for number, pod in enumerate(document["pods"]):
        pod["node"] = f"n{number % 4}"
    other = {
        **document,
        "nodes": document["nodes"][::-1],
        "pods": document["pods"][::-1],
        "rules": {
            kind: [each[:1] + each[1:][::-1] for each in lists[::-1]] for kind, lists in document["rules"].items()
        },
    }
    first, again, turned = (solved(each, solver, seed=3) for each in (document, document, other))
    assert dict(first.placement) == dict(again.placement) == dict(turned.placement)
    assert first.objective.value == again.objective.value == turned.objective.value
    assert first.evaluations == again.evaluations == turned.evaluations
    assert first.violations == turned.violations


def world(nodes: int, pods: int, sizes: tuple[float, ...] = (1.0,), seed: int = 0) -> Problem:
    """Requests are use times lognormal(.35)."""
    rng = np.random.default_rng(seed)
    capacity = np.outer([sizes[row % len(sizes)] for row in range(nodes)], [8.0, 32.0, 100.0, 100.0])
    use = rng.lognormal(0, 0.6, (pods, 4))
    use *= 0.5 * capacity.sum(axis=0) / use.sum(axis=0)
    return arrange(
        [f"n{row}" for row in range(nodes)],
        [f"p{row}" for row in range(pods)],
        ["cpu", "memory", "disk", "network"],
        capacity=capacity,
        use=use,
        kinds=["cpu", "memory"],
        room=capacity[:, :2],
        request=use[:, :2] * rng.lognormal(0, 0.35, (pods, 2)),
    )


@pytest.mark.parametrize(("sizes", "most"), [((1.0,), 0.0015), ((1.0, 2.0, 4.0), 0.0035)])
def test_a_hundred_nodes_are_even_after_few_rounds(sizes: tuple[float, ...], most: float) -> None:
    found = solve(world(100, 3000, sizes), solver="late-acceptance", evaluations=3_000_000)
    assert float(found.objective.sigma.max()) <= most


def test_an_unknown_capacity_takes_the_resource_out_for_that_node() -> None:
    document = small(0)
    document["nodes"][0]["capacity"]["network"] = None
    problem = problem_of(document, "test")
    assert problem.notes == ("network does not count for n0: the capacity is unknown or 0.",)
    found = solve(problem, solver="late-acceptance", evaluations=3000)
    network = dict.fromkeys(problem.nodes, 0.0)
    for pod in document["pods"]:
        network[found.placement[pod["name"]]] += pod["use"]["network"] / 100
    assert found.objective.sigma[3] == pytest.approx(np.std([network["n1"], network["n2"]]))


def test_a_budget_in_seconds_ends_by_the_clock() -> None:
    times = iter(np.arange(0.0, 10_000.0, 0.25).tolist())
    found = solve(world(10, 100), solver="late-acceptance", seconds=5.0, clock=lambda: next(times))
    assert next(times) == pytest.approx(5.0, abs=1.0), "it looks at the clock until the seconds are over, and no longer"
    assert found.evaluations > 100
    with pytest.raises(ValueError, match="clock"):
        solve(world(10, 100), seconds=5.0)


@pytest.mark.parametrize("seconds", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("devices", [False, True])
def test_programs_that_explain_end_with_the_time(
    seconds: float, *, devices: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each program takes all the time that it may have; there is one node too few, or one device."""
    now, programs = 0.0, collisions.run

    def run(*program: Any, seconds: float, **options: Any) -> Any:
        nonlocal now
        now += max(0.05, seconds)
        return programs(*program, seconds=seconds, **options)

    monkeypatch.setattr(collisions, "run", run)
    document = small(0, nodes=3, pods=7)
    if devices:
        for each in document["nodes"]:
            each["devices"] = [{"resource": "gpu", "capacity": 1000}] * 2
        for each in document["pods"]:
            each["devices"] = [{"resource": "gpu", "amount": 600}]
    else:
        document["rules"] = {"apart": [["p00", "p01", "p02", "p03"]]}
    with pytest.raises(Infeasible):
        solve(problem_of(document, "test"), seconds=seconds, clock=lambda: now)
    assert 0 < now <= 1.1 * seconds


def test_progress_never_goes_up() -> None:
    seen: list[tuple[int, float]] = []
    solve(world(10, 100), solver="genetic", evaluations=20_000, progress=lambda spent, best: seen.append((spent, best)))
    assert len(seen) > 2
    assert [each[0] for each in seen] == sorted(each[0] for each in seen)


@given(document=documents(pods=5))
@FEW
def test_the_bound_without_a_program_is_below_every_placement(document: Json) -> None:
    for each in document["nodes"]:
        each["capacity"], each["weight"] = document["nodes"][0]["capacity"], 1.0
    every = all_placements(document)
    bound = standing_out(units(problem_of(document, "test")))
    assert bound >= 0
    assert all(bound <= value(document, each) + 1e-12 for each in every)


@pytest.mark.parametrize(("nodes", "pods"), [(6, 24), (60, 600)], ids=["by a program", "too large for one"])
def test_what_is_not_solved_to_the_end_has_a_proved_bound(nodes: int, pods: int) -> None:
    """A pod that asks for nearly a whole node stands out wherever it is."""
    document = small(3, nodes=nodes, pods=pods)
    document["pods"].append({"name": "large", "use": dict.fromkeys(document["resources"], 95.0)})
    found = solved(document, "exact", evaluations=20_000)
    assert found.bound is not None
    assert 0 < found.bound <= found.objective.value
    assert solved(document, "late-acceptance", evaluations=40_000).objective.value >= found.bound


@given(document=documents(pods=5), data=st.data())
@FEW
def test_the_relaxed_bound_is_below_every_placement(document: Json, data: st.DataObject) -> None:
    for pod in document["pods"]:
        pod["node"] = data.draw(st.sampled_from([node["name"] for node in document["nodes"]]))
    contracted = units(problem_of(document, "test"))
    most = data.draw(st.sampled_from([np.inf, 1, 2]))
    values = []
    for placement in all_placements(document):
        on = np.array([sorted(contracted.problem.nodes).index(placement[pod]) for pod in contracted.problem.pods])
        of_units = np.zeros(contracted.size, np.int64)
        of_units[contracted.of] = on
        if contracted.moves(of_units) <= most:
            values.append((value(document, placement), of_units))
    for reached, on in values[:3]:
        bound = relaxed_bound(contracted, on, reached, most)
        assert all(bound <= other + 1e-12 for other, _ in values)


@pytest.mark.parametrize(("nodes", "pods", "share"), [(20, 200, 0.1), (60, 600, 0.3)])
def test_where_nodes_have_load_of_their_own_the_bound_is_near(nodes: int, pods: int, share: float) -> None:
    rng = np.random.default_rng(1)
    use, own = rng.lognormal(0.0, 0.6, (pods, 4)), np.zeros((nodes, 4))
    use *= 0.6 * nodes / use.sum(axis=0)
    own[: nodes // 4] = 1.6 * rng.random((nodes // 4, 4))
    names = [f"n{row:02}" for row in range(nodes)], [f"p{row:03}" for row in range(pods)]
    problem = arrange(
        *names, "abcd", capacity=np.ones((nodes, 4)), use=use, base=own, kinds="abcd",
        room=np.ones((nodes, 4)), request=use * rng.lognormal(0.0, 0.35, use.shape),
    )  # fmt: skip
    found = solve(problem, solver="late-acceptance", evaluations=100_000)
    assert found.bound is not None
    assert 1 - math.sqrt(found.bound / found.objective.value) <= share


def test_exact_finds_what_late_acceptance_finds_where_no_program_helps() -> None:
    document = small(3, nodes=20, pods=100)
    values = [solved(document, solver, evaluations=20_000).objective.value for solver in ("exact", "late-acceptance")]
    assert values[0] == values[1]


@pytest.mark.parametrize("solver", ["exact", "late-acceptance"])
def test_pods_that_come_together_from_two_nodes_make_one_move(solver: str) -> None:
    document = {
        "resources": ["cpu"],
        "nodes": [{"name": f"n{row}", "capacity": {"cpu": 10}} for row in range(3)],
        "pods": [
            {"name": "a", "use": {"cpu": 2}, "node": "n0"},
            {"name": "b", "use": {"cpu": 2}, "node": "n1"},
            {"name": "c", "use": {"cpu": 4}, "node": "n0"},
        ],
        "rules": {"together": [["a", "b"]]},
    }
    found = solved(document, solver, max_moves=1, evaluations=5_000)
    values = [
        value(document, placement)
        for placement in all_placements(document)
        if sum(placement[pod["name"]] != pod["node"] for pod in document["pods"]) <= 1
    ]
    assert found.moves <= 1
    assert found.bound is not None
    assert found.bound <= min(values) + 1e-12
    if solver == "exact":
        assert found.objective.value == pytest.approx(min(values))


def test_placements_that_mirror_each_other_do_not_take_turns() -> None:
    """Rounding makes either look better than the other."""
    document = {
        "resources": ["cpu", "memory", "disk"],
        "nodes": [
            {"name": "n0", "capacity": {"cpu": 16, "memory": 4, "disk": 16}},
            {"name": "n1", "capacity": {"cpu": 4, "memory": 16, "disk": 16}},
        ],
        "pods": [{"name": "p0", "use": {"cpu": 4, "memory": 4, "disk": 1}, "request": {"cpu": 2.5}}],
    }
    assert solved(document, "exact", evaluations=1_000_000).evaluations < 100
