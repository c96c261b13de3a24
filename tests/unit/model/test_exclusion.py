from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from ballast.model.disruption import NAMESPACE, AnnotatedObject, by_operator, exclusion, part_exclusion

NOW = 1_700_000_000.0
VALUES = st.none() | st.sampled_from(["true", "false", "", "True", "no"]) | st.text(max_size=3)
P = "ballast.dev"


@given(VALUES, VALUES)
def test_the_nearest_object_that_says_anything_decides(near: str | None, far: str | None) -> None:
    for key, ask in (
        ("exclude", lambda objects: exclusion(objects, P, NOW)),
        ("exclude-power", lambda objects: part_exclusion(objects, P, "power")),
    ):
        objects = [
            AnnotatedObject("object", str(n), {} if v is None else {f"{P}/{key}": v}) for n, v in enumerate((near, far))
        ]
        found = ask(objects)
        said = near if near is not None else far
        assert (found is None) is (said in (None, "false"))
        if found is not None:
            assert found.reason.startswith(f"object {0 if near is not None else 1} has")
            assert found.unreadable is (said != "true")


@given(st.floats(-1e6, 1e6).filter(lambda seconds: abs(seconds) > 1))
def test_a_time_excludes_until_it_has_passed(seconds: float) -> None:
    until = datetime.fromtimestamp(NOW + seconds, UTC).isoformat()
    assert (exclusion([AnnotatedObject("object", "", {f"{P}/exclude-until": until})], P, NOW) is not None) is (
        seconds > 0
    )


@given(st.sampled_from(["soon", "", "2026-01-01", "2026-01-01T00:00:00", "12"]))
def test_what_is_no_moment_excludes_and_says_so(text: str) -> None:
    found = exclusion([AnnotatedObject("object", "", {f"{P}/exclude-until": text})], P, NOW)
    assert found is not None
    assert found.unreadable


def test_a_flag_beats_the_time_beside_it() -> None:
    past, future = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"
    assert exclusion([AnnotatedObject("object", "", {f"{P}/exclude": "true", f"{P}/exclude-until": past})], P, NOW)
    assert exclusion([AnnotatedObject("object", "", {f"{P}/exclude": "false", f"{P}/exclude-until": future})], P, NOW)
    assert not exclusion([AnnotatedObject("object", "", {f"{P}/exclude": "false", f"{P}/exclude-until": past})], P, NOW)


def test_what_tenants_may_not_use_counts_on_namespaces_alone() -> None:
    keys = frozenset({"ballast.dev/exclude-power"})
    said = {"ballast.dev/exclude-power": "true", "ballast.dev/exclude": "true"}
    objects = [AnnotatedObject("Deployment", "web", said), AnnotatedObject(NAMESPACE, "shop", said)]
    found = by_operator(objects, keys)
    assert found == [
        AnnotatedObject("Deployment", "web", {"ballast.dev/exclude": "true"}),
        AnnotatedObject(NAMESPACE, "shop", said),
    ]
    tenant = by_operator([AnnotatedObject("Deployment", "web", said), AnnotatedObject(NAMESPACE, "shop", {})], keys)
    assert part_exclusion(tenant, "ballast.dev", "power") is None
    assert exclusion(tenant, "ballast.dev", 0.0) is not None
