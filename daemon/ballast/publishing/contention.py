"""Notices another writer of Ballast's keys on a node: what it wrote is put back, and the node tainted for a while.

Whoever writes there chooses when, so a value that stands could be theirs. A taint the kubelet of a node cannot change.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ballast.base.text import named
from ballast.cluster.write import FIELD_MANAGER
from ballast.publishing.label_plan import PublishedKeys
from ballast.publishing.node_keys import GUARDED, window_end

QUIET = 600.0
"""Seconds after the last foreign write for which a node is contended."""

MOST_TRIED = 4
"""Writes without an answer that are remembered of a node."""

NAMED = 5
"""Nodes that a message names."""

Writer = Callable[[str], str]
"""The field manager that wrote Ballast's keys on a node last; "" where that cannot be read."""


@dataclass
class _NodeChanges:
    uid: str
    expected: PublishedKeys
    tried: tuple[PublishedKeys, ...] = ()
    answered: bool = True
    until: float = 0.0
    by: str = ""


class LabelContention:
    """What each node should carry by our last write, and what others made of it. Times are monotonic seconds."""

    def __init__(self, identity: str, patience: float, writer: Writer, *, taints: bool = False) -> None:
        """`identity` is what our annotations carry. After `patience` seconds without a round nothing is expected.

        `taints`: whether overloaded nodes are tainted too. Where not, a taint that is there is one of contention.
        """
        self._identity = identity
        self._patience = patience
        self._writer = writer
        self._taints = taints
        self._own = f'"by":{json.dumps(identity)}'
        self._records: dict[str, _NodeChanges] = {}
        self._managers: dict[tuple[str, str], str] = {}
        self._last = 0.0
        self._looked_up = 0
        self._since: float | None = None

    def begin(self, uids: Mapping[str, str], now: float) -> None:
        """A round begins. After a while as a standby another replica has written, which is no foreign write."""
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
        record.expected, record.tried, record.answered = carried, (), True

    def tried(self, name: str, carried: PublishedKeys) -> None:
        """A write of ours got no answer: if it has arrived, the node carries this, which is no foreign write."""
        if (record := self._records.get(name)) is not None:
            record.tried = (*record.tried[1 - MOST_TRIED :], carried)

    def saw(self, name: str, uid: str, carried: PublishedKeys, now: float) -> None:
        """The watch, which has caught up with our write, shows this."""
        record = self._records.get(name)
        if record is None:
            if carried.tainted and not self._taints:  # The leader before found it contended; when, is not known.
                self._records[name] = _NodeChanges(uid, carried, until=now + QUIET)
            return
        if record.expected == carried:
            return
        if carried in record.tried:
            later = record.tried[record.tried.index(carried) + 1 :]  # One before it arrives no more.
            record.expected, record.tried, record.answered = carried, later, True
            return
        agrees = replace(record.expected, window=None) == replace(carried, window=None)
        record.expected, record.answered = carried, False
        if self._looked_up < NAMED:
            self._looked_up += 1
            record.by = self._writer(name)
        signed = bool(identity_of(carried.window, self._identity))
        if not (agrees and signed and record.by in ("", FIELD_MANAGER)):  # A second Ballast, which `others` tells.
            record.until = now + QUIET

    def newly(self, name: str, carried: PublishedKeys, now: float) -> bool:
        """Whether this shows a foreign write on a node that is not contended yet; for any thread.

        Our own labels come with another window, so a label that changed alone is none of ours.
        """
        record = self._records.get(name)
        if record is None or not record.answered or now < record.until:
            return False
        ours = record.expected
        changed = carried.window == ours.window and (carried.score, carried.load) != (ours.score, ours.load)
        return changed and carried not in record.tried

    def foreign(self) -> set[str]:
        """The nodes that carry what another wrote."""
        return {name for name, record in self._records.items() if not record.answered}

    def contended(self, now: float) -> set[str]:
        """The nodes that another has written within QUIET seconds."""
        return {name for name, record in self._records.items() if now < record.until}

    def others(self, carried: Mapping[str, PublishedKeys], at: float) -> str | None:
        """Which other Ballast has written nodes since we began, at the Unix time `at` of the first round; or None.

        It is found also where both write the same, so that nothing is contended. Of the nodes whose annotation says so,
        those count that a Ballast's field manager wrote, or of which nobody says who did.
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
        """Who else has written, and where; None where nobody did for QUIET seconds."""
        contended = sorted(self.contended(now))
        if not contended:
            return None
        managers = sorted({self._records[name].by for name in contended} - {"", FIELD_MANAGER})
        who = f"another writer ({', '.join(managers[:NAMED])})" if managers else "another writer"
        return (
            f"{who} has changed Ballast's labels, annotation or taint on {named(contended, NAMED)}. What it wrote is "
            f"put back, and a taint keeps pods off as far as they have a choice, until {QUIET / 60:.0f} quiet minutes "
            f"have passed. A node's own kubelet cannot write labels under BALLAST_PUBLISHING__LABEL_PREFIX={GUARDED}; "
            "for a second Ballast, give each its own nodes with BALLAST_CLUSTER__NODE_SELECTOR."
        )


def identity_of(annotation: str | None, own: str) -> str:
    """The identity of another Ballast in its `window` annotation, empty where there is none or it is our own."""
    try:
        document = json.loads(annotation or "null")
    except (ValueError, RecursionError):
        return ""
    by = document.get("by") if isinstance(document, dict) else None
    return by[:253] if isinstance(by, str) and by != own and by.isprintable() else ""
