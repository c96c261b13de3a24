"""What once escaped a decoder no longer does, and a few new mutations do not either; `make fuzz` tries many more."""

import pytest

from ballast_lab.fuzz.running import Escape, escapes, known, tried
from ballast_lab.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_escapes(name: str) -> None:
    found = [escape for body in (*TARGETS[name].examples, *known(name)) if (escape := tried(name, body))]
    found += escapes(40, 1, [name])
    assert not found, found[0].error


@pytest.mark.parametrize("name", sorted({"prioritize", "instant", "cluster file", "problem file", "scale", "page"}))
def test_the_examples_are_well_formed(name: str) -> None:
    for body in TARGETS[name].examples:
        assert TARGETS[name].run(body) not in (400, 413)


def test_an_escape_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(body: bytes) -> object:
        raise KeyError(body)

    monkeypatch.setattr("ballast_lab.fuzz.running.TARGETS", {"broken": type(TARGETS["page"])(broken, [b"a"])})
    [found] = escapes(10, 1, ["broken"])
    assert isinstance(found, Escape)
    assert "KeyError" in found.error
