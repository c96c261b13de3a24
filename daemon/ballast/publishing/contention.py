"""Notices another writer of Ballast's keys on a node, and leaves that node alone for a while."""

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ballast.base.text import named
from ballast.publishing.label_plan import PublishedKeys
from ballast.publishing.node_keys import window_end

TIMES = 3
"""Foreign changes within `WITHIN` that make a fight."""

WITHIN = 600.0
"""Seconds in which changes are counted, and for which a node is left alone after a fight."""

NAMED = 5
"""Nodes that a message names."""


@dataclass
class _NodeChanges:
    uid: str
    expected: PublishedKeys
    foreign: deque[float] = field(default_factory=lambda: deque(maxlen=TIMES))
    alone_until: float = 0.0
    by: str = ""


class LabelContention:
    """What each node should carry by our last write, and what others made of it. Times are monotonic seconds."""

    def __init__(self, identity: str, patience: float) -> None:
        """`identity` is what our annotations carry. After `patience` seconds without a round nothing is expected."""
        self._identity = identity
        self._patience = patience
        self._own = f'"by":{json.dumps(identity)}'
        self._records: dict[str, _NodeChanges] = {}
        self._last = 0.0
        self._since: float | None = None

    def begin(self, uids: Mapping[str, str], now: float) -> None:
        """A round begins. After a while as a standby another replica has written, which is no fight."""
        idle = now - self._last > self._patience
        self._last = now
        if idle:
            self._records.clear()
            self._since = None
        else:
            self._records = {name: record for name, record in self._records.items() if uids.get(name) == record.uid}

    def wrote(self, name: str, uid: str, carried: PublishedKeys) -> None:
        """We have written this node; it carries this now."""
        record = self._records.setdefault(name, _NodeChanges(uid, carried))
        record.expected = carried

    def saw(self, name: str, carried: PublishedKeys, now: float) -> None:
        """The watch, which has caught up with our write, shows this."""
        record = self._records.get(name)
        if record is None or record.expected == carried:
            return
        record.expected = carried
        record.foreign.append(now)
        record.by = identity_of(carried.window, self._identity) or record.by
        if len(record.foreign) == TIMES and now - record.foreign[0] <= WITHIN:
            record.alone_until = now + WITHIN
            record.foreign.clear()

    def left_alone(self, name: str, now: float) -> bool:
        """Whether this node is not written now."""
        record = self._records.get(name)
        return record is not None and now < record.alone_until

    def others(self, carried: Mapping[str, PublishedKeys], at: float) -> str | None:
        """Which other Ballast has written nodes since we began, at the Unix time `at` of the first round; or None.

        It is found also where both write the same, so that nothing is fought over.
        """
        self._since = at if self._since is None else self._since
        writers: dict[str, list[str]] = {}
        for name, keys in carried.items():
            if keys.window is None or self._own in keys.window:
                continue
            by, end = identity_of(keys.window, self._identity), window_end(keys.window)
            if by and end is not None and end >= self._since:
                writers.setdefault(by, []).append(name)
        if not writers:
            return None
        who = "; ".join(f"{by} has written {named(sorted(names), NAMED)}" for by, names in sorted(writers.items()))
        return (
            f"another Ballast publishes too: {who}. Stop one of them, or give each its own nodes with "
            "BALLAST_CLUSTER__NODE_SELECTOR."
        )

    def problem(self, now: float) -> str | None:
        """Who else writes, and where; None without a fight."""
        fought = sorted(name for name in self._records if self.left_alone(name, now))
        if not fought:
            return None
        others = sorted({self._records[name].by for name in fought} - {""})
        who = f"another Ballast ({', '.join(others)})" if others else "another writer"
        return (
            f"{who} has changed Ballast's labels, annotation or taint {TIMES} times in {WITHIN / 60:.0f} minutes on "
            f"{named(fought, NAMED)}; they are left alone for {WITHIN / 60:.0f} minutes. Let only one write "
            "BALLAST_PUBLISHING__PREFIX, or give each its own nodes with BALLAST_CLUSTER__NODE_SELECTOR."
        )


def identity_of(annotation: str | None, own: str) -> str:
    """The identity of another Ballast in its `window` annotation, empty where there is none or it is our own."""
    try:
        document = json.loads(annotation or "null")
    except (ValueError, RecursionError):
        return ""
    by = document.get("by") if isinstance(document, dict) else None
    return by[:253] if isinstance(by, str) and by != own and by.isprintable() else ""
