"""What a lane did and was promised; kept beside the audit log, so that it can be judged again."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ballast_lab.faults.cells import Cell
from ballast_lab.faults.events import Event, parse
from ballast_lab.faults.judge import Broken, Final, Rules, budget, judged, returned

_FILE, _LOG = "histories.pickle", "audit.log"


@dataclass
class Outcome:
    """What became of one cell. `again`: seconds until the part acted again, None where that was not asked. `broken` is
    filled in by the judge afterwards.
    """

    cell: Cell
    began: float
    ended: float = 0.0
    reached: bool = False
    kills: int = 0
    problem: str = ""
    again: float | None = None
    broken: list[Broken] = field(default_factory=list)


@dataclass
class History:
    """Of one lane. `problem` is why not all was given back; `second_namespace` is that of the second release."""

    lane: str
    second_namespace: str
    rules: Rules
    final: Final
    problem: str
    outcomes: list[Outcome]

    def judge(self, events: Sequence[Event]) -> list[Broken]:
        """What is broken; it is put to the cells in whose time it was, too."""
        found = [Broken("returned", self.problem)] if self.problem else []
        found += returned(self.final, self.rules)
        found += self._of_releases(events)
        for outcome in self.outcomes:
            outcome.broken = [each for each in found if outcome.began <= each.at <= outcome.ended]
        return found

    def _of_releases(self, events: Sequence[Event]) -> list[Broken]:
        """Each release by itself, what they did to the watts together."""
        first = [each for each in events if each.who.partition(".")[0] == self.lane]
        second = [each for each in events if each.who.partition(".")[0] == f"{self.lane}b"]
        alone = replace(self.rules, each={}, touched=_touched(first, second))
        homes = self.rules.namespaces | {self.second_namespace}
        beside = replace(alone, namespaces=homes, touched=_touched(second, first))
        both = sorted((each for each in (*first, *second) if each.done), key=lambda each: each.at)
        return [*judged(first, alone), *judged(second, beside), *budget(both, self.rules)]


def _touched(own: Iterable[Event], others: Iterable[Event]) -> dict[str, list[float]]:
    """What others wrote, and what was perhaps written: the API server did not say."""
    unanswered = [each for each in own if each.code >= 500 or not each.code]
    found: dict[str, list[float]] = {}
    for event in (*unanswered, *(each for each in others if each.done)):
        found.setdefault(event.subject, []).append(event.at)
    return found


def keep(folder: Path, histories: Sequence[History]) -> None:
    (folder / _FILE).write_bytes(pickle.dumps(list(histories)))


def kept(folder: Path) -> list[History]:
    found: list[History] = pickle.loads((folder / _FILE).read_bytes())
    return found


def judge(folder: Path, histories: Sequence[History]) -> tuple[list[Broken], int]:
    """(what is broken, how many writes were judged)."""
    with (folder / _LOG).open("rb") as log:
        events = list(parse(log))
    return [broken for history in histories for broken in history.judge(events)], len(events)
