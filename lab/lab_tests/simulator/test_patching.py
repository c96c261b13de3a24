import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_lab.simulator.kube import patching
from ballast_lab.simulator.kube.api_errors import ApiError

LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), DOCUMENTS, max_size=3)


def without_nulls(value: Any) -> Any:
    return (
        {key: without_nulls(each) for key, each in value.items() if each is not None}
        if isinstance(value, dict)
        else value
    )


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once_and_leaves_the_document_alone(document: Any, patch: Any) -> None:
    before = copy.deepcopy(document)
    once = patching.apply(patching.MERGE, document, patch)
    assert document == before
    assert patching.apply(patching.MERGE, once, patch) == once


@given(OBJECTS)
def test_merging_into_nothing_gives_the_patch_without_its_nulls(patch: Any) -> None:
    assert patching.merge({}, patch) == without_nulls(patch)


def test_the_examples_of_rfc_7396() -> None:
    for target, patch, wanted in (
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ):
        assert patching.merge(target, patch) == wanted


def test_a_strategic_patch_merges_lists_by_their_key_and_obeys_directives() -> None:
    pod = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], "finalizers": ["x"]}
    change = {"containers": [{"name": "b", "image": "2"}, {"name": "a", "$patch": "delete"}, {"name": "c"}]}
    assert patching.strategic(pod, change)["containers"] == [{"name": "b", "image": "2"}, {"name": "c"}]
    replaced = {"containers": [{"$patch": "replace"}, {"name": "z"}]}
    assert patching.strategic(pod, replaced)["containers"] == [{"name": "z"}]
    assert patching.strategic(pod, {"finalizers": ["y", "x"]})["finalizers"] == ["x", "y"]
    assert patching.strategic(pod, {"$deleteFromPrimitiveList/finalizers": ["x"]})["finalizers"] == []
    ordered = {"$setElementOrder/containers": [{"name": "b"}], "$retainKeys": ["a"], "more": 1}
    assert patching.strategic(pod, ordered) == {**pod, "more": 1}
    assert patching.strategic({"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}) == {"spec": {"b": 2}}
    with pytest.raises(ApiError, match="merge key"):
        patching.strategic(pod, {"containers": [{"image": "3"}]})
