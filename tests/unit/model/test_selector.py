import pytest

from ballast.model.selector import Requirement, Selector, parse


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app==web", {"app": "db"}, False),
        ("app!=web", {}, True),
        ("app!=web", {"app": "web"}, False),
        ("app in (web, db),tier", {"app": "db", "tier": ""}, True),
        ("app in (web, db),tier", {"app": "db"}, False),
        ("app notin (web)", {}, True),
        ("app notin (web),!old", {"app": "db", "old": "1"}, False),
        ("!old", {}, True),
        ("app=", {"app": ""}, True),
    ],
)
def test_what_kubectl_selects(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse(text).matches(labels) is matches


@pytest.mark.parametrize("text", ["app web", "app in web", "=web", "a,b c"])
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(ValueError, match="no requirement on labels"):
        parse(text)


def test_selectors_are_values() -> None:
    assert parse("app=web") == Selector((Requirement("app", "In", ("web",)),))
    assert len({parse("a,b"), parse("a, b")}) == 1


@pytest.mark.parametrize("operator", ["Gt", "Lt", "Between"])
def test_without_a_number_nothing_is_compared(operator: str) -> None:
    assert not Requirement("n", operator, ("1", "2")).matches({"n": "1"})
    assert not Requirement("n", operator, ("one",)).matches({"n": "1"})
    assert not Requirement("n", operator, ("1",)).matches({})
