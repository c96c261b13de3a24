"""Notices another writer of Ballast's keys on a node; no value of such a writer stays there."""

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ballast.base.text import named
from ballast.cluster.write import FIELD_MANAGER
from ballast.publishing.label_plan import PublishedKeys
from ballast.publishing.node_keys import window_end

TIMES = 3
"""Foreign changes within `WITHIN` that make a fight."""

WITHIN = 600.0
"""Seconds in which changes are counted, for which they are told, and for which a node is withheld after the last."""

NAMED = 5
"""Nodes that a message names."""

Writer = Callable[[str], str]
"""The field manager that wrote Ballast's keys on a node last; "" where that cannot be read."""


@dataclass
class _NodeChanges:
    uid: str
    expected: PublishedKeys
    foreign: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES))
    answered: bool = True
    withheld_until: float = 0.0
    by: str = ""
    second: bool = False


class LabelContention:
    """What each node should carry by our last write, and what others made of it. Times are monotonic seconds.

    A foreign change is answered with our own values. After TIMES of them nothing of ours is published on that node:
    whoever writes there chooses when, so a value that stands could be theirs.
    """

    def __init__(self, identity: str, patience: float, writer: Writer) -> None:
        """`identity` is what our annotations carry. After `patience` seconds without a round nothing is expected."""
        self._identity = identity
        self._patience = patience
        self._writer = writer
        self._own = f'"by":{json.dumps(identity)}'
        self._records: dict[str, _NodeChanges] = {}
        self._managers: dict[tuple[str, str], str] = {}
        self._last = 0.0
        self._looked_up = 0
        self._since: float | None = None

    def begin(self, uids: Mapping[str, str], now: float) -> None:
        """A round begins. After a while as a standby another replica has written, which is no fight."""
        idle = now - self._last > self._patience
        self._last, self._looked_up = now, 0
        if idle:
            self.forget()
        else:
            self._records = {name: record for name, record in self._records.items() if uids.get(name) == record.uid}

    def forget(self) -> None:
        """Another replica may have written since."""
        self._records.clear()
        self._managers.clear()
        self._since = None

    def wrote(self, name: str, uid: str, carried: PublishedKeys) -> None:
        """We have written this node; it carries this now."""
        record = self._records.setdefault(name, _NodeChanges(uid, carried))
        record.expected, record.answered = carried, True

    def saw(self, name: str, carried: PublishedKeys, now: float) -> None:
        """The watch, which has caught up with our write, shows this."""
        record = self._records.get(name)
        if record is None or record.expected == carried:
            return
        agrees = replace(record.expected, window=None) == replace(carried, window=None)
        record.expected, record.answered = carried, False
        record.foreign.append(now)
        if self._looked_up < NAMED:
            self._looked_up += 1
            record.by = self._writer(name)
        signed = bool(identity_of(carried.window, self._identity))
        record.second = agrees and signed and record.by in ("", FIELD_MANAGER)
        if self.withheld(name, now) or (len(record.foreign) == TIMES and now - record.foreign[0] <= WITHIN):
            record.withheld_until = now + WITHIN

    def foreign(self, now: float) -> dict[str, bool]:
        """The nodes that carry what another wrote, or are withheld; True for those."""
        return {
            name: self.withheld(name, now)
            for name, record in self._records.items()
            if not record.answered or now < record.withheld_until
        }

    def withheld(self, name: str, now: float) -> bool:
        """Whether nothing is published on this node now."""
        record = self._records.get(name)
        return record is not None and now < record.withheld_until

    def others(self, carried: Mapping[str, PublishedKeys], at: float) -> str | None:
        """Which other Ballast has written nodes since we began, at the Unix time `at` of the first round; or None.

        It is found also where both write the same, so that nothing is fought over. Of the nodes whose annotation says
        so, those count that a Ballast's field manager wrote, or of which nobody says who did.
        """
        self._since = at if self._since is None else self._since
        writers: dict[str, list[str]] = {}
        for name, keys in carried.items():
            if keys.window is None or self._own in keys.window:
                continue
            by, end = identity_of(keys.window, self._identity), window_end(keys.window)
            if by and end is not None and end >= self._since:
                writers.setdefault(by, []).append(name)
        writers = {by: proven for by, names in writers.items() if (proven := self._proven(names, carried))}
        if not writers:
            return None
        who = "; ".join(f"{by} has written {named(sorted(names), NAMED)}" for by, names in sorted(writers.items()))
        return (
            f"another Ballast publishes too: {who}. Stop one of them, or give each its own nodes with "
            "BALLAST_CLUSTER__NODE_SELECTOR."
        )

    def _proven(self, names: list[str], carried: Mapping[str, PublishedKeys]) -> list[str]:
        """Of the first NAMED nodes, those that no other than a Ballast has written."""
        proven = []
        for name in sorted(names)[:NAMED]:
            key = name, carried[name].window or ""
            if key not in self._managers:
                if len(self._managers) > 20 * NAMED:
                    self._managers.clear()
                self._managers[key] = self._writer(name)
            if self._managers[key] in ("", FIELD_MANAGER):
                proven.append(name)
        return proven

    def problem(self, now: float) -> str | None:
        """Who else has written, and where; None where nobody did for WITHIN seconds.

        Where another Ballast writes the same labels, `others` tells it, and this only a fight.
        """
        changed = sorted(
            name
            for name, record in self._records.items()
            if record.foreign and now - record.foreign[-1] < WITHIN and (self.withheld(name, now) or not record.second)
        )
        if not changed:
            return None
        managers = sorted({self._records[name].by for name in changed} - {"", FIELD_MANAGER})
        who = f"another writer ({', '.join(managers[:NAMED])})" if managers else "another writer"
        withheld = [name for name in changed if self.withheld(name, now)]
        held = f"; nothing is published on {named(withheld, NAMED)} while that goes on" if withheld else ""
        return (
            f"{who} has changed Ballast's labels, annotation or taint on {named(changed, NAMED)}{held}. A node's own "
            "kubelet cannot write BALLAST_PUBLISHING__PREFIX=ballast.node-restriction.kubernetes.io; for a second "
            "Ballast, give each its own nodes with BALLAST_CLUSTER__NODE_SELECTOR."
        )


def identity_of(annotation: str | None, own: str) -> str:
    """The identity of another Ballast in its `window` annotation, empty where there is none or it is our own."""
    try:
        document = json.loads(annotation or "null")
    except (ValueError, RecursionError):
        return ""
    by = document.get("by") if isinstance(document, dict) else None
    return by[:253] if isinstance(by, str) and by != own and by.isprintable() else ""
