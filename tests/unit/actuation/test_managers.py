"""Who else wrote a field."""

from typing import Any

import pytest

from ballast.actuation.scaling.remembered import titled
from ballast.actuation.scaling.scale import manager_of
from tests.worlds.kube_api import FakeApi


def owned(*entries: Any) -> FakeApi:
    return FakeApi({"/x": {"metadata": {"managedFields": list(entries)}}})


def entry(manager: str, time: str = "2026-01-01T00:00:00Z", field: str = "replicas") -> dict[str, Any]:
    return {"manager": manager, "time": time, "fieldsV1": {"f:spec": {f"f:{field}": {}}}}


def ask(api: FakeApi, path: str = "/x") -> str:
    return manager_of(api, path, "replicas")  # type: ignore[arg-type]


def test_the_latest_of_the_others_who_own_the_field() -> None:
    late = entry("helm", "2026-01-02T00:00:00Z")
    assert (
        ask(owned(entry("kubectl"), late, entry("ballast", "2027-01-01T00:00:00Z"), entry("x", "2028", "max")))
        == "helm"
    )


@pytest.mark.parametrize("odd", [None, "text", {}, {"manager": "x"}, {"manager": "x", "fieldsV1": {"f:spec": []}}])
def test_what_cannot_be_read_is_nobody(odd: Any) -> None:
    assert ask(owned(odd)) == ""
    assert ask(owned(), "/missing") == ""


def test_managers_are_called_as_people_know_them() -> None:
    assert titled("kustomize-controller") == "Flux (field manager kustomize-controller)"
    assert titled("kubectl-edit") == "field manager kubectl-edit"
