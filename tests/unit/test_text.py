import pytest

from ballast.base.text import named, pods


@pytest.mark.parametrize(
    ("count", "most", "text"),
    [
        (0, 3, ""),
        (2, 3, "n0, n1"),
        (3, 3, "n0, n1, n2"),
        (5, 3, "n0, n1, n2 and 2 more"),
        (2_001, 1, "n0 and 2,000 more"),
    ],
)
def test_a_list_of_names_ends_with_how_many_follow(count: int, most: int, text: str) -> None:
    assert named([f"n{index}" for index in range(count)], most) == text


def test_one_pod_is_no_plural() -> None:
    assert [pods(count) for count in (0, 1, 2, 2_000)] == ["0 pods", "1 pod", "2 pods", "2,000 pods"]
