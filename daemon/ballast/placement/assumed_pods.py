"""Pods on their nodes: as the watch shows them, and as decided where the watch has not shown it yet."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from ballast.model.devices import claim_of
from ballast.model.pod import Pod
from ballast.model.shape import Shape
from ballast.model.template import PLAIN, Template
from ballast.placement.fleet_model import FleetModel, Held
from ballast.scoring.profiles import Arrivals, asked_by

OUTCOMES = ("assumed", "confirmed", "undone", "expired", "retried", "unseen", "impossible")
"""`unseen`: the watch has not shown the pod, and the caller has proved nothing: it counts once the watch shows it.
`impossible`: the pod cannot start on that node, or nothing shows that it could start at all.
"""

ORDINARY = "default-scheduler"
"""The scheduler that every cluster has. Others count once a pod is bound where they were sent, without proof."""

MOST_SCHEDULERS = 1000
"""Schedulers that are known to bind."""


class AssumedPods:
    """Pods by node, with the scheduler's decisions before the watch shows them, as in kube-scheduler's cache.

    A decision is booked at once; the pod's binding confirms it, or undoes it when it went elsewhere or is gone:

        pods = AssumedPods(assume_for=30, on_outcome=print)
        pods.put(waiting, now=0)  # the watch shows a pod that waits
        pods.assume(waiting.uid, Held("n1", waiting.shape, time()), now=1)  # assumed: its room on n1 is taken
        pods.put(bound, now=2)  # confirmed, if it is bound to n1; otherwise undone
        pods.expire(now=31)  # expired, if the binding never came

    `on_outcome` is called with the outcome of each decision, one of OUTCOMES. Not for several threads at once. All
    times are parameters; `now` is monotonic.
    """

    def __init__(
        self,
        assume_for: float,
        on_outcome: Callable[[str], None] = lambda outcome: None,
        claim: Callable[[Pod], Pod] = lambda pod: pod,
    ) -> None:
        """`claim` adds to a pod what it asks for by resource claims."""
        self.assumptions = Assumptions(assume_for)
        self.arrivals = Arrivals()
        self._claim = claim
        self._unseen = UnseenDecisions()
        self._ahead: dict[str, float] = {}
        self._tried: dict[str, tuple[float | None, str]] = {}
        """{uid: when it was refused, and where room was made} of pods about which a decision came to nothing."""
        self._binding = {ORDINARY}
        self._lags: deque[tuple[float, float, bool]] = deque(maxlen=MOST_UNSEEN)
        self.model: FleetModel | None = None
        self._on_outcome = on_outcome
        self._waiting: dict[str, Pod] = {}
        self._held: dict[str, Held | Pod] = {}
        """By UID. A bound pod stands for itself: of 450,000 pods each byte is half a megabyte."""
        self._of_owner: dict[str, dict[str, int]] = {}
        """{owner: {node: its pods there}}"""
        self._reserved: set[str] = set()
        self._flying: dict[str, Held] = {}
        self._recent: dict[str, Held] = {}
        self._departed: deque[tuple[Held, float]] = deque(maxlen=MOST_DEPARTED)
        self._journal: list[tuple[Held, int]] | None = None

    def waiting(self, uid: str) -> Pod | None:
        """The pod as the watch shows it, while it is not bound and no gate holds it back."""
        return self._waiting.get(uid)

    def unseen(self, now: float) -> int:
        """How many decisions of the last seconds are about pods that the watch has not shown."""
        return len(self._ahead) + sum(uid not in self._waiting for uid in self._unseen.uids(now))

    def unbooked(self, now: float) -> int:
        """How many decisions of the last seconds take no room, or are about pods that the watch has not shown."""
        return len(self._ahead) + len(self._unseen.uids(now))

    def decided_unseen(self, uid: str, now: float) -> str | None:
        """The node that was chosen for a pod that the watch has not shown."""
        return self._unseen.node(uid, now)

    def watch_lag(self, now: float, *, asked: bool = False) -> float:
        """Seconds by which the watch was late at most in the last minute: from the decision about a pod to its first
        event, or from its creation, which is told in whole seconds, if nobody had asked yet. With `asked` the first
        alone, which need no clock but ours.
        """
        return max((lag for at, lag, own in self._lags if now - at <= LAG_FOR and (own or not asked)), default=0.0)

    @contextmanager
    def supposing(self, uid: str, shape: Shape, wall: float, now: float) -> Iterator[None]:
        """Counts the decisions about pods that the watch has not shown, but for this one's, as if each were of this
        shape: a burst of equal pods goes apart, and nobody makes a node look fuller than the burst itself would.
        """
        model = self.model
        supposed = [Held(node, shape, wall, expected=True) for node in self._unseen.nodes(uid, now)] if model else []
        self._suppose(supposed, 1)
        try:
            yield
        finally:
            self._suppose(supposed, -1)

    def may_book(self, uid: str, *, proved: bool) -> bool:
        """Whether a decision about this pod takes room: the watch shows that it could start, or the caller has proved
        who it is.

        Nothing shows it for a pod that a scheduler has refused, whose scheduler is not known to bind, or that depends
        on more than its node: on volumes, devices, other pods. Nor for one that came to nothing before, until it is
        refused again: who asks about a pod and does not bind it may be anybody.
        """
        pod = self._waiting.get(uid)
        if pod is None:
            return proved and len(self._ahead) < MOST_UNSEEN
        if pod.deleting or self._tried.get(uid) == (pod.waiting_since, pod.nominated):
            return False
        free = len(self.assumptions.guesses) < MOST_GUESSES and pod.template.independent
        return proved or (free and not pod.waiting and pod.scheduler_name in self._binding)

    @contextmanager
    def proved_alone(self) -> Iterator[None]:
        """Without what was decided for callers that have proved nothing."""
        guesses = [(uid, _as_held(self._held[uid])) for uid in self.assumptions.guesses]
        for uid, _ in guesses:
            self._hold(uid, None)
        try:
            yield
        finally:
            for uid, held in guesses:
                self._hold(uid, held)

    def claimed(self, pod: Pod) -> Pod:
        """The pod with what it asks for by resource claims, as far as these have been seen."""
        template = pod.template
        return self._claim(pod) if template.device_claims or template.named_claims else pod

    def of_owner(self, owner: str) -> Mapping[str, int]:
        """{node: pods of this owner there}"""
        return self._of_owner.get(owner, {})

    def owners_in_flight(self) -> set[str]:
        """The UIDs of the owners of pods that wait or were bound after the window ended."""
        waiting = (owner_of(pod) for pod in self._waiting.values())
        return {*waiting, *(held.owner for held in self._flying.values())} - {""}

    @property
    def nothing_shown(self) -> bool:
        """Whether the watch has shown no pod yet."""
        return not self._waiting and len(self._held) == len(self.assumptions) + len(self._reserved)

    def shown_besides(self, uids: set[str]) -> list[str]:
        """Pods the watch has shown that are not among these."""
        bound = [uid for uid in self._held.keys() - uids - self._reserved if uid not in self.assumptions]
        return [*bound, *(self._waiting.keys() - uids)]

    def shown_bound(self, uid: str) -> bool:
        """Whether the watch has shown the pod on a node."""
        return uid in self._held and uid not in self.assumptions

    def reserve(self, name: str, held: Held) -> None:
        """Room that counts as taken under a name, until it is released."""
        self._reserved.add(name)
        self._hold(name, held)

    def release(self, name: str) -> None:
        """Drops a reservation."""
        self._reserved.discard(name)
        self._hold(name, None)

    def begin(self) -> Iterator[Held]:
        """All that is held by now, from which a new model is made; what changes meanwhile reaches it by `adopt`."""
        self._journal = []
        return map(_as_held, list(self._held.values()))

    def adopt(self, model: FleetModel) -> None:
        """From now on with this model, which shares the sums of the one before or was filled with what `begin` gave."""
        if not model.follows:
            for held, sign in self._journal or ():
                model.place(held, sign)
        self._journal = None
        model.placed.forget()
        if self.model is None:  # Before the first one nothing tells which pods a window does not show.
            stays = ((uid, _as_held(booked)) for uid, booked in self._held.items())
            self._recent = self._flying = {uid: held for uid, held in stays if model.unshown(held)}
        self._flying = {uid: held for uid, held in self._flying.items() if model.fly(held)}
        there = {uid: (held, math.inf) for uid, held in self._recent.items()}
        recent = set(map(id, (held for held, _ in model.measure([*there.values(), *self._departed]))))
        self._recent = {uid: held for uid, held in self._recent.items() if id(held) in recent}
        self._departed = deque((stay for stay in self._departed if id(stay[0]) in recent), maxlen=MOST_DEPARTED)
        self.model = model

    def put(self, pod: Pod, now: float, *, wall: float | None = None, learn: bool = True) -> None:
        """The watch shows a pod at `wall` (Unix seconds); what it asks for is learned once it is on a node."""
        uid = pod.uid
        if pod.finished:
            self.remove(uid, wall)
            return
        if pod.gated and not pod.node:  # No scheduler asks about it; it counts as new once its gates are gone.
            self._forget_waiting(uid)
            self._settle(uid, "undone")
            return
        if learn and pod.node and not self.shown_bound(uid):  # Others may never start, and teach nothing.
            self.arrivals.learn(asked_by(self.claimed(pod)), pod.created)
        decided = self._shown_first(pod, now, wall if learn else None) if uid not in self._waiting else None
        if not pod.node:
            before = self._waiting.get(uid)
            self._waiting[uid] = pod
            if pod.deleting or (before is not None and self._given_up(before, pod)):
                self._settle(uid, "undone")
            elif decided is not None and self.may_book(uid, proved=False):
                since = pod.created if wall is None else wall
                held = Held(decided.node, pod.shape, since, owner_of(pod), claim_of(pod), expected=True)
                self._try(uid, held, now, pod.template, proved=False)
            return
        self._bind(pod, decided, now)

    def _bind(self, pod: Pod, decided: Decision | None, now: float) -> None:
        """A pod is on a node; `decided` is what was decided about it before the watch showed it."""
        uid = pod.uid
        decision = self.assumptions.drop(uid)
        if decision is not None:
            self._on_outcome("confirmed" if decision.node == pod.node else "undone")
        meant = decision or decided or self._unseen.take(uid, now)
        if meant is not None and meant.node == pod.node and len(self._binding) < MOST_SCHEDULERS:
            self._binding.add(pod.scheduler_name)
        self._forget_waiting(uid)
        booked, held = self._held.get(uid), _as_held(pod)
        if booked is None or not _same(_as_held(booked), held):
            self._hold(uid, held)
            self._make_room(pod.node, pod.shape)
        self._held[uid] = pod

    def remove(self, uid: str, wall: float | None = None) -> None:
        """The pod is gone, or finished, since `wall` (Unix seconds)."""
        if wall is not None and self.shown_bound(uid):
            self.arrivals.leave(wall)
            stay = _as_held(self._held[uid]), wall
            if self.model is None or self.model.stay(*stay):
                self._departed.append(stay)
        self._forget_waiting(uid)
        self._settle(uid, "undone")
        self._hold(uid, None)

    def forget_decision(self, uid: str) -> None:
        """Before a pod is decided again, so that it does not stand in its own way."""
        self._settle(uid, "retried")

    def assume(self, uid: str, held: Held, now: float, template: Template = PLAIN, *, proved: bool = False) -> bool:
        """Books a decision about a pod that `may_book`, where the node has room for it. Returns whether it counts."""
        if not uid or self.shown_bound(uid):
            return False
        if not self.may_book(uid, proved=proved):
            self._unseen.keep(uid, held.node, now)
            self._on_outcome("impossible" if uid in self._waiting else "unseen")
            return False
        if uid not in self._waiting:
            self._ahead[uid] = now
        return self._try(uid, held, now, template, proved=proved)

    def expire(self, now: float) -> None:
        """Undoes the decisions whose time is over."""
        for decision in self.assumptions.expire(now):
            self._undo(decision, "expired")
            pod = self._waiting.get(decision.uid)
            if pod is not None:
                self._tried[decision.uid] = pod.waiting_since, pod.nominated

    def _forget_waiting(self, uid: str) -> None:
        self._waiting.pop(uid, None)
        self._tried.pop(uid, None)

    def _make_room(self, node: str, shape: Shape) -> None:
        """A pod takes more there than was known: what is only assumed there ends, as far as it has no room left."""
        model = self.model
        if model is None or not model.overbooked(node, shape):
            return
        for uid in [uid for uid in self.assumptions if self._held[uid].node == node]:
            self._settle(uid, "undone")
            if not model.overbooked(node, shape):
                return

    def _shown_first(self, pod: Pod, now: float, wall: float | None) -> Decision | None:
        """How late the watch shows a pod is kept; returns what was decided about it before."""
        decision, asked = self._unseen.take(pod.uid, now), self._ahead.pop(pod.uid, None)
        if decision is not None:
            asked = decision.until - UNSEEN_FOR
        if asked is not None:
            self._lags.append((now, now - asked, True))
        elif wall is not None and not self.shown_bound(pod.uid):
            self._lags.append((now, max(0.0, wall - pod.created - WHOLE_SECONDS), False))
        return decision

    def _given_up(self, before: Pod, pod: Pod) -> bool:
        """Whether a scheduler has since found no node for it, or makes room on another than was decided: what it tried
        for a preemption or for a group of pods is over.
        """
        decision = self.assumptions.get(pod.uid)
        if decision is None or (before.waiting_since, before.nominated) == (pod.waiting_since, pod.nominated):
            return False
        return pod.nominated != decision.node and (pod.waiting or bool(pod.nominated))

    def _suppose(self, supposed: Iterable[Held], sign: int) -> None:
        for held in supposed:
            assert self.model is not None
            self.model.place(held, sign)
            self.model.fly(held, sign)
            self.model.stay(held, sign=sign)

    def _try(self, uid: str, held: Held, now: float, template: Template, *, proved: bool) -> bool:
        """Books a decision where a scheduler could have made it: who asks for more asks about no node of its own."""
        if self.model is not None and not self.model.takes(held.node, held.shape, template):
            self._on_outcome("impossible")
            return False
        self.assumptions.assume(uid, held.node, now, proved=proved)
        self._on_outcome("assumed")
        self._hold(uid, held)
        return True

    def _settle(self, uid: str, outcome: str) -> None:
        decision = self.assumptions.drop(uid)
        if decision is not None:
            self._undo(decision, outcome)

    def _undo(self, decision: Decision, outcome: str) -> None:
        self._on_outcome(outcome)
        self._ahead.pop(decision.uid, None)
        self._hold(decision.uid, None)

    def _hold(self, uid: str, held: Held | None) -> None:
        before = self._held.pop(uid, None)
        if before is not None:
            self._count(_as_held(before), -1)
            if (flying := self._flying.pop(uid, None)) is not None and self.model is not None:
                self.model.fly(flying, -1)
            if (recent := self._recent.pop(uid, None)) is not None and self.model is not None:
                self.model.stay(recent, sign=-1)
        if held is not None:
            self._held[uid] = held
            self._count(held, 1)
            if self.model is not None and self.model.fly(held):
                self._flying[uid] = held
            if self.model is not None and self.model.stay(held):
                self._recent[uid] = held

    def _count(self, held: Held, sign: int) -> None:
        if held.owner:
            there = self._of_owner.setdefault(held.owner, {})
            there[held.node] = there.get(held.node, 0) + sign
            if not there[held.node]:
                del there[held.node]
                if not there:
                    del self._of_owner[held.owner]
        if self._journal is not None:
            self._journal.append((held, sign))
        if self.model is not None:
            self.model.place(held, sign)


def _as_held(booked: Held | Pod) -> Held:
    """What it takes."""
    if isinstance(booked, Held):
        return booked
    since = booked.scheduled_at or booked.created
    return Held(booked.node, booked.shape, since, owner_of(booked), claim_of(booked))


def _same(one: Held, other: Held) -> bool:
    """Whether they take the same, since the same time, for the same owner."""
    here = one.node, one.since, one.owner, one.claim, one.expected
    same = here == (other.node, other.since, other.owner, other.claim, other.expected)
    return same and one.shape is other.shape


def owner_of(pod: Pod) -> str:
    """Its UID, empty without one."""
    return pod.owner.uid if pod.owner else ""


def learn(arrivals: Arrivals, pods: Iterable[Pod], most: int = 500) -> None:
    """Learns from the newest of the pods that are on nodes, oldest first."""
    countable = (pod for pod in pods if not pod.finished and pod.node)
    for pod in sorted(countable, key=lambda pod: (pod.created, pod.uid))[-most:]:
        arrivals.learn(asked_by(pod), pod.created)


MOST_DEPARTED = 20_000
"""Pods that left within the window; beyond these the oldest are taken for shown."""

UNSEEN_FOR = 5.0
"""Seconds in which the watch shows a pod that a scheduler asks about, if the pod exists."""

MOST_UNSEEN = 1000
"""Decisions about pods that the watch has not shown; the oldest is forgotten first."""

MOST_GUESSES = 500
"""Decisions without proof that take room. Labels are made without them: that many are taken out and put back in 20 ms.
"""

LAG_FOR = 60.0
"""Seconds for which a late event of the watch counts."""

WHOLE_SECONDS = 1.0
"""The precision of creation times."""

SPARE = 1000
"""Deadlines of replaced decisions that are kept before they are cleared away."""


@dataclass(frozen=True)
class Decision:
    """`until` is monotonic, in seconds."""

    uid: str
    node: str
    until: float


class UnseenDecisions:
    """Decisions about pods of which nothing shows that they could start. They take no room.

    So requests about pods that do not exist take none. `spread` sends such pods apart while there are many of them.
    """

    def __init__(self) -> None:
        self._decisions: dict[str, Decision] = {}

    def keep(self, uid: str, node: str, now: float) -> None:
        """Replaces what was decided for this pod before."""
        self._decisions.pop(uid, None)
        if len(self._decisions) >= MOST_UNSEEN:
            del self._decisions[next(iter(self._decisions))]
        self._decisions[uid] = Decision(uid, node, now + UNSEEN_FOR)

    def node(self, uid: str, now: float) -> str | None:
        """The node that was chosen for this pod."""
        decision = self._decisions.get(uid)
        return decision.node if decision is not None and now < decision.until else None

    def nodes(self, uid: str, now: float) -> list[str]:
        """The nodes that were chosen for other pods."""
        return [entry.node for entry in self._decisions.values() if entry.uid != uid and now < entry.until]

    def uids(self, now: float) -> Collection[str]:
        """Of which pods there are."""
        while self._decisions and next(iter(self._decisions.values())).until <= now:
            del self._decisions[next(iter(self._decisions))]
        return self._decisions.keys()

    def take(self, uid: str, now: float) -> Decision | None:
        """Removes the decision for this pod and returns it, unless its time is over."""
        decision = self._decisions.pop(uid, None)
        return decision if decision is not None and now < decision.until else None


class Assumptions:
    """At most one decision per pod UID, each for the same time."""

    def __init__(self, assume_for: float) -> None:
        self._assume_for = assume_for
        self._decisions: dict[str, Decision] = {}
        self._deadlines: list[tuple[float, str]] = []
        self.guesses: set[str] = set()
        """Of callers that have proved nothing."""

    def __len__(self) -> int:
        return len(self._decisions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._decisions)

    def __contains__(self, uid: str) -> bool:
        return uid in self._decisions

    def get(self, uid: str) -> Decision | None:
        """The decision for this pod, if there is one."""
        return self._decisions.get(uid)

    def assume(self, uid: str, node: str, now: float, *, proved: bool = True) -> None:
        """Replaces what was decided for this pod before."""
        self.drop(uid)
        if not proved:
            self.guesses.add(uid)
        decision = self._decisions[uid] = Decision(uid, node, now + self._assume_for)
        heapq.heappush(self._deadlines, (decision.until, uid))
        if len(self._deadlines) > 2 * len(self._decisions) + SPARE:
            self._deadlines = [(decision.until, decision.uid) for decision in self._decisions.values()]
            heapq.heapify(self._deadlines)

    def drop(self, uid: str) -> Decision | None:
        """Removes and returns the decision for this pod, if there is one."""
        self.guesses.discard(uid)
        return self._decisions.pop(uid, None)

    def expire(self, now: float) -> list[Decision]:
        """Drops and returns the decisions whose time is over."""
        expired = []
        while self._deadlines and self._deadlines[0][0] <= now:
            until, uid = heapq.heappop(self._deadlines)
            decision = self._decisions.get(uid)
            if decision is not None and decision.until == until:
                self.drop(uid)
                expired.append(decision)
        return expired
