"""What is kept of objects that are larger than they need to be."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.cluster.objects import object_budget
from ballast.cluster.objects.decoding import POOL_BYTES, Pool, Reader, Shared, pod_reader
from ballast.cluster.objects.object_budget import IN_ALL, LARGEST, OF_NAMESPACE, ORDINARY, ObjectBudget, too_large
from ballast.cluster.workload_cache import reader as reader_of
from ballast.model.template import OPAQUE, PLAIN
from ballast_lab.harness.waiting import HUNG
from tests.unit.cluster import fat
from tests.worlds.http_server import Answer, Request, serving

pytestmark = pytest.mark.slow


def reads(reader: Reader[Any], document: dict[str, Any]) -> Any:
    found = reader.read(json.dumps(document).encode())
    assert found is not None
    return found


def keep(key: str) -> bool:
    return key.startswith("ballast.dev/")


@pytest.mark.parametrize("shape", fat.SHAPES.values(), ids=fat.SHAPES)
@pytest.mark.parametrize("size", [150_000, 1_100_000])
def test_a_fat_pod_keeps_its_place_and_its_requests(shape: Callable[..., dict[str, Any]], size: int) -> None:
    reader = pod_reader(keep)
    found = reads(reader, shape(7, size))
    assert (found.namespace, found.name, found.uid, found.node) == ("tenant", "fat-00007", "u7", "n1")
    assert found.shape.requests["cpu"] > 0
    assert len(repr(found)) < 4000
    if shape is not fat.environment:
        assert found.template is OPAQUE
        assert reader.budget.opaque() == {"tenant": 1}


def test_a_pod_of_many_short_values_is_fat_too() -> None:
    found = reads(pod_reader(keep), fat.affinity(1, 40_000, 1))
    assert found.template is OPAQUE


def test_what_is_never_read_makes_no_pod_opaque() -> None:
    document = fat.pod(1, metadata={"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 250_000}})
    assert reads(pod_reader(keep), document).template is not OPAQUE


@pytest.mark.parametrize("shape", [fat.affinity, fat.labels, fat.tolerations, fat.volumes])
def test_lean_pods_have_neither_labels_nor_constraints(shape: Callable[..., dict[str, Any]]) -> None:
    reader = pod_reader(keep, whole=False)
    found = reads(reader, shape(1, 1_000_000))
    assert not found.labels
    assert found.template is PLAIN
    assert reader.budget.opaque() == {}


def test_a_pod_that_becomes_small_is_known_again() -> None:
    reader = pod_reader(keep)
    reads(reader, fat.labels(1, 500_000))
    assert reads(reader, fat.labels(1, 100)).labels
    assert reader.budget.opaque() == {}


def test_a_namespace_has_a_budget_of_its_own() -> None:
    budget, each = ObjectBudget(), ORDINARY + 50_000
    admitted = [budget.admits("a", f"p{number}", each) for number in range(500)]
    assert sum(admitted) == OF_NAMESPACE // 50_000
    assert budget.admits("b", "p", each)
    budget.forget("a/p0")
    assert budget.admits("a", "q", each)


def test_ordinary_objects_have_no_limit() -> None:
    budget = ObjectBudget()
    assert all(budget.admits("a", f"p{number}", ORDINARY) for number in range(20_000))


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 30), st.integers(0, 2 * LARGEST))))
def test_what_is_admitted_never_exceeds_the_budgets(steps: list[tuple[str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(object_budget, "OF_NAMESPACE", 100_000)
        patch.setattr(object_budget, "IN_ALL", 250_000)
        budget, kept = ObjectBudget(), {}
        for namespace, number, weight in steps:
            kept.pop((namespace, number), None)
            if budget.admits(namespace, f"p{number}", weight):
                kept[namespace, number] = max(0, weight - ORDINARY)
        assert sum(kept.values()) <= 250_000
        for namespace in "abcdef":
            assert sum(above for (there, _), above in kept.items() if there == namespace) <= 100_000
        for namespace, number in list(kept):
            budget.forget(f"{namespace}/p{number}")
        assert all(budget.admits("z", f"n{number}", LARGEST) for number in range(1))


def test_an_opaque_disruption_budget_allows_nothing_in_its_namespace() -> None:
    document = {
        "metadata": {"name": "b", "namespace": "tenant", "generation": 1},
        "spec": {
            "selector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": fat.words(900_000, 30)}]}
        },
        "status": {"observedGeneration": 1, "disruptionsAllowed": 5},
    }
    found = reads(reader_of("poddisruptionbudgets", keep), document)
    assert found.allowed == 0
    assert found.selector.matches({"any": "pod"})


@pytest.mark.parametrize("kind", ["deployments", "replicasets", "statefulsets", "namespaces", "rollouts.argoproj.io"])
def test_fat_workloads_are_kept_by_name(kind: str) -> None:
    many = {word: word for word in fat.words(600_000, 30)}
    document = {
        "metadata": {
            "name": "w",
            "namespace": "tenant",
            "annotations": {"ballast.dev/x": "y" * 200_000},
            "labels": many,
        },
        "spec": {"replicas": 3, "selector": {"matchLabels": many}, "template": {"metadata": {"labels": many}}},
    }
    reader = reader_of(kind, keep)
    found = reads(reader, document)
    assert found.name == "w"
    assert len(repr(found)) < 4000
    assert reader.budget.opaque() == {"tenant": 1}


def test_the_sentence_names_the_namespaces_with_most() -> None:
    assert too_large({"pods": {}}) is None
    found = too_large({"pods": {"a": 3, "b": 150}}, {"deployments": {"a": 4}})
    assert found is not None
    assert found.startswith("150 pods of namespace b, 4 deployments of namespace a, 3 pods of namespace a are larger")
    assert "and 7 more" in str(too_large({"pods": {f"n{number}": 1 for number in range(12)}}))


def test_shared_values_are_bounded_by_bytes() -> None:
    pool: Pool[str, str] = Pool(50_000)
    for number in range(100):
        pool.add(f"{number}" + "x" * 2**20, "")
    assert sum(map(len, pool.held)) <= POOL_BYTES
    shared = Shared()
    for number in range(20):
        shared.string(f"{number}" + "x" * 2**20)
    assert not shared._strings.held


def test_a_process_that_lists_fat_pods_stays_small() -> None:
    """60 pods of 1 MB of every kind; read in pages of 125 and kept, they took more than 400 MB."""
    shapes = list(fat.SHAPES.values())
    items = [json.dumps(shapes[number % len(shapes)](number, 1_000_000)).encode() for number in range(60)]
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        asked.append(request)
        if "watch" in request.query or request.path.endswith("nodes"):
            return Answer({"metadata": {"resourceVersion": "1"}})
        return Answer(fat.page(items, request.query))

    with serving(answer) as server:
        command = [sys.executable, "-m", "tests.unit.cluster.fat", server.url, "whole"]
        found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=HUNG).stdout)
    assert found["pods"] == 60
    assert found["opaque"]["tenant"] >= 50
    assert found["peak"] < 150
    assert found["kept"] < 80
    assert IN_ALL < 2**26
