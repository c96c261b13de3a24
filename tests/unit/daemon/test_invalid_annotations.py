import pytest

from ballast.cluster.write import WriteTarget
from ballast.jobs.eviction.observations import InvalidAnnotations
from ballast.model.pod import Pod
from ballast.model.workload import Namespace, Workload


def web(**annotations: str) -> Workload:
    return Workload("Deployment", "shop", "web", annotations={f"ballast.dev/{k}": v for k, v in annotations.items()})


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"evict": "maybe"}, 'it has ballast.dev/evict: "maybe", which is neither "true" nor "false"'),
        ({"exclude": "yes"}, 'it has ballast.dev/exclude: "yes", which is neither "true" nor "false"'),
        ({"exclude-until": "soon"}, 'it has ballast.dev/exclude-until: "soon", which is no RFC 3339 time'),
        ({"evict": "true", "exclude": "false", "exclude-until": "2020-01-01T00:00:00Z"}, None),
        ({}, None),
    ],
)
def test_a_value_that_means_nothing_is_told_once(annotations: dict[str, str], told: str | None) -> None:
    heard: list[tuple[WriteTarget, str]] = []
    wishes = InvalidAnnotations("ballast.dev", lambda target, why: heard.append((target, why)))
    for _ in range(2):
        wishes.observe([web(**annotations)], [], [])
    expected = [] if told is None else [(WriteTarget("Deployment", "web", "shop", api_version="apps/v1"), told)]
    assert [(str(target), why) for target, why in heard] == [
        (str(target), f"left alone by evictions: {why}") for target, why in expected
    ]


def test_pods_and_namespaces_are_looked_at_too_and_again_after_they_were_mended() -> None:
    heard: list[str] = []
    wishes = InvalidAnnotations("ballast.dev", lambda target, why: heard.append(str(target)))
    strange = {"ballast.dev/evict": "?"}
    for pods in ([Pod("shop", "a", annotations=strange)], [], [Pod("shop", "a", annotations=strange)]):
        wishes.observe([], [Namespace("shop", annotations=strange)], pods)
    assert heard == ["Namespace shop", "Pod shop/a", "Pod shop/a"]
