"""Label selectors and their requirements, as Kubernetes matches them."""

import re
from collections.abc import Mapping

import msgspec


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """Operators In, NotIn, Exists, DoesNotExist, and for nodes Gt and Lt (apimachinery pkg/labels/selector.go)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet it."""
        value = labels.get(self.key)
        if self.operator == "In":
            return value is not None and value in self.values
        if self.operator == "NotIn":
            return value is None or value not in self.values
        if self.operator == "Exists":
            return value is not None
        if self.operator == "DoesNotExist":
            return value is None
        if value is None or len(self.values) != 1 or self.operator not in ("Gt", "Lt"):
            return False
        try:
            number, bound = int(value), int(self.values[0])
        except ValueError:
            return False
        return number > bound if self.operator == "Gt" else number < bound


class Selector(msgspec.Struct, frozen=True, gc=False):
    """All `requirements` hold. Without any it selects everything; where there is no selector, nothing is selected."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)


_SET = re.compile(r"(\S+)\s+(in|notin)\s*\((.*)\)")
_COMPARED = re.compile(r"([^\s!=]+)\s*(==|=|!=)\s*(\S*)")
_ORDERED = re.compile(r"([^\s!=<>]+)\s*([<>])\s*(-?[0-9]+)")


def parse(text: str) -> Selector:
    """A selector as kubectl takes it, such as `app=web,tier in (a,b),!legacy`. Raises ValueError for anything else."""
    parts = (part.strip() for part in re.split(r",(?![^(]*\))", text))
    return Selector(tuple(_requirement(part) for part in parts if part))


def _requirement(text: str) -> Requirement:
    if matched := _SET.fullmatch(text):
        values = tuple(value.strip() for value in matched[3].split(","))
        return Requirement(matched[1], "In" if matched[2] == "in" else "NotIn", values)
    if matched := _COMPARED.fullmatch(text):
        return Requirement(matched[1], "NotIn" if matched[2] == "!=" else "In", (matched[3],))
    if matched := _ORDERED.fullmatch(text):
        return Requirement(matched[1], "Gt" if matched[2] == ">" else "Lt", (matched[3],))
    if re.fullmatch(r"!?\s*[^\s!=<>(),]+", text):
        return Requirement(text.lstrip("! "), "DoesNotExist" if text.startswith("!") else "Exists")
    raise ValueError(f"{text!r} is no requirement on labels")
