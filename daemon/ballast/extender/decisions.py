"""The extender: decides by the load of the last snapshot, the pods of the watch and its own decisions."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from ballast.answers import api
from ballast.answers.views import NodeScore
from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, give_way, pool_of_shapes, to_pod
from ballast.cluster.watch import WATCH_SILENT
from ballast.extender.extender_reservations import ExtenderReservations
from ballast.extender.snapshot_state import SnapshotState
from ballast.extender.strategies import Strategies
from ballast.model.devices import ANNOTATIONS, claim_of
from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.snapshot import Snapshot
from ballast.placement.assumed_pods import OUTCOMES, AssumedPods, learn, owner_of
from ballast.placement.choice import apart, choose, spread, worth
from ballast.placement.fleet_model import FleetModel, Held
from ballast.placement.live_residual import LiveResidual
from ballast.scoring import crane, dominant_residual, load_aware, load_variation
from ballast.scoring.blend import finest
from ballast.scoring.demand import DEFAULT_REQUESTS
from ballast.scoring.dominant_residual import HOUR, DominantResidual
from ballast.scoring.protocol import Strategy
from ballast.scoring.scores import Scores
from ballast.serving.board import Board
from ballast.serving.extender import Priorities, Rejections, equal
from ballast.serving.host_index import Hosts, Named
from ballast.settings.plain_parts import ExtenderSettings

BATCH = 25
"""Pods of a list that are added at once."""

PAUSE = 0.0005
"""Seconds after each batch, for waiting requests."""

PAUSES = 10
"""Such pauses at most, about as long as an answer takes: a caller may be slow."""

OFTEN = 100
"""The pod profiles are learned again after this many arrivals, earlier at the start."""

FEW_UNSEEN = 8
"""So many decisions about pods that the watch has not shown take the best node. The next ones go apart: nobody knows
what runs there by now, and what does not exist must not count.
"""

LATE_FROM = 0.5
"""The share of the greatest age of a snapshot from which its scores count less: one cycle at least has failed then."""

PROMPT_LAG = 1.0
"""Seconds by which a healthy watch may be late on a busy machine; scores count in full."""

BLIND_LAG = 60.0
"""Seconds by which the watch of pods lags when scores count for nothing any more."""

STANDARD = Pod("", "standard", shape=shape_of([ContainerShape(DEFAULT_REQUESTS)]))
"""The pod that labels are scored for if a strategy needs one: 100m and 200Mi, kube-scheduler's defaults."""


class ExtenderService:
    """Answers schedulers, and follows the pods as a sink of their watch. Everything may be called from any thread."""

    def __init__(
        self,
        settings: ExtenderSettings,
        clock: Clock,
        metrics: Metrics,
        board: Board,
        pods_age: Callable[[], float],
        strategies: Strategies | None = None,
        pods: Callable[[], Iterable[Pod]] = tuple,
        claim: Callable[[Pod], Pod] = lambda pod: pod,
    ) -> None:
        """`pods_age`: seconds since the watch of pods last said anything; `pods` are those it has shown; `claim` adds
        to a pod what it asks for by resource claims. Raises UsageError for a strategy that cannot be used.
        """
        self._strategies, self._pods = strategies or Strategies(), pods
        self.siblings: Mapping[str, Mapping[str, float]] = {}
        self._settings, self._clock, self._board, self._pods_age = settings, clock, board, pods_age
        self._lock, self._never = threading.Lock(), threading.Event()
        self._shapes = pool_of_shapes()
        self._busy: Callable[[], bool] = lambda: False
        outcomes = {outcome: metrics.extender_decisions.labels(outcome) for outcome in OUTCOMES}
        self._rejections = metrics.extender_rejections.labels("load")
        self._assumed = AssumedPods(settings.assume_for, lambda outcome: outcomes[outcome].inc(), claim)
        metrics.extender_assumed.set_function(lambda: len(self._assumed.assumptions))
        metrics.extender_unseen.set_function(lambda: self._assumed.unseen(clock.monotonic()))
        metrics.extender_watch_lag.set_function(lambda: self._assumed.watch_lag(clock.monotonic()))
        self._spread = 0
        self.reservations = ExtenderReservations(self._assumed, self._lock, clock, metrics)
        self._state: SnapshotState | None = None
        self._renew_at = 1
        self._strategy(settings.strategy)

    def prioritize(
        self, pod: wire.Pod, names: Sequence[str], profile: str | None, *, proved: bool = False
    ) -> Priorities:
        """Decides for a pod: 10 points for the chosen node, 0..9 for the others; 5 for all if it cannot decide.

        `profile` names another strategy than that of the settings; a caller has `proved` who it is by a token or a
        certificate. Raises UsageError if the strategy cannot be used.
        """
        name, arriving = profile or self._settings.strategy, self._arriving(pod)
        with self._lock:
            state = self._state
            if state is None:
                self._strategy(name)
                return equal(Hosts(()).named(names), "no-snapshot")
            if name not in state.strategies:
                state.strategies[name] = self._strategy(name, state)
            return self._decide(state, name, arriving, names, proved)

    def filter(self, pod: wire.Pod, names: Sequence[str]) -> Rejections:
        """{node: why} for nodes that are reserved for other pods or loaded above the threshold."""
        threshold, state = self._settings.filter_threshold, self._state
        self.reservations.note_filter(pod.metadata.uid)
        if not names or (threshold is None and self.reservations.idle):
            return Rejections()
        if any(owner.kind == "DaemonSet" and owner.controller for owner in pod.metadata.owner_references or ()):
            return Rejections()
        reserved = {} if self.reservations.idle else self.reservations.reject(self._arriving(pod), names)
        if threshold is None:
            return Rejections(reserved)
        neutral = self._load_unusable()
        if state is None or neutral is not None:
            return Rejections(reserved, neutral or "no-snapshot")
        others = [name for name in names if name not in reserved] if reserved else names
        overloaded = state.overloaded(threshold, others)
        self._rejections.inc(len(overloaded))
        return Rejections({**reserved, **overloaded})

    def awaits(self, pod: wire.Pod) -> bool:
        """Whether room may be held for this pod, which the watch has not shown yet."""
        return self.reservations.awaits(pod.metadata)

    def observe(self, snapshot: Snapshot) -> None:
        """Decides by this snapshot from now on. Most of the work is done without the lock, so requests go on."""
        state, assumed = self._state, self._assumed
        bindings = crane.bindings_of(self._pods(), snapshot.rows, self._strategies.policy, snapshot.time)
        model = FleetModel(snapshot, state.model if state else None, bindings=bindings, siblings=self.siblings)
        if not model.follows:
            # The nodes have changed, so sums of the model before do not fit: all pods are counted again, unlocked.
            with self._lock:
                held = assumed.begin()
            model.fill(held)
        plain = self._strategies.make(dominant_residual.NAME)
        assert isinstance(plain, DominantResidual)
        residual = LiveResidual(model, plain)
        with self._lock:
            profiles, hourly = assumed.arrivals.profiles(), assumed.arrivals.since(self._clock.wall() - HOUR)
            scored = state.residual.asked() if state else []
        prepared = residual.prepare(profiles, residual.copied(profiles), scored, *hourly) if profiles else None
        following = SnapshotState.of(model, residual, snapshot.known, state)
        for name in {self._settings.strategy, *(state.strategies if state else ())}:
            following.warm(name, self._strategy(name, following))
        # What watches and decisions have changed meanwhile reaches the new model by `adopt`.
        with self._lock:
            assumed.expire(self._clock.monotonic())
            self.reservations.expire()
            assumed.adopt(model)
            if prepared is not None:
                residual.install(prepared)
            self._state = following

    def replace(self, items: list[Pod]) -> None:
        """The watch has listed all pods. Requests are answered between batches of them."""
        with self._lock:
            if first := self._assumed.nothing_shown:
                learn(self._assumed.arrivals, map(self._assumed.claimed, items))
        listed: set[str] = set()
        for start in range(0, len(items), BATCH):
            batch = items[start : start + BATCH]
            listed.update([pod.uid for pod in batch])
            with self._lock:
                now, wall = self._clock.monotonic(), self._clock.wall()
                for pod in batch:
                    if not first:
                        self.reservations.note_shown(pod)
                    self._assumed.put(pod, now, wall=wall, learn=not first)
            self._clock.wait(self._never, PAUSE)
        with self._lock:
            gone = self._assumed.shown_besides(listed)
        for uid in gone:
            with self._lock:
                self._assumed.remove(uid, self._clock.wall())
        self._renew()

    def give_way(self) -> None:
        """Called between the pieces of long work: requests under way come first.

        Work that went on beside them would take the interpreter at each of their array operations.
        """
        give_way()
        for _ in range(PAUSES):
            if not self._busy():
                return
            self._clock.wait(self._never, PAUSE)

    def settle(self) -> None:
        """After an answer: what it changed is computed now, so that the next one need not."""
        with self._lock:
            if self._state is not None:
                self._state.model.fleet.settle()
                self._state.residual.settle()

    def follow(self, busy: Callable[[], bool]) -> None:
        """`busy` tells from now on whether a request arrives or is being answered."""
        self._busy = busy

    def put(self, item: Pod) -> None:
        """The watch shows a pod."""
        with self._lock:
            self.reservations.note_shown(item)
            self._assumed.put(item, self._clock.monotonic(), wall=self._clock.wall())
            due = self._assumed.arrivals.count >= self._renew_at
        if due:
            self._renew()

    def remove(self, item: Pod) -> None:
        """The watch shows that a pod is gone."""
        with self._lock:
            self.reservations.note_gone(item.uid)
            self._assumed.remove(item.uid, self._clock.wall())

    def in_use(self) -> bool:
        """Whether schedulers ask."""
        return self.reservations.in_use()

    def owners_in_flight(self) -> set[str]:
        """The UIDs of the owners of pods that wait or do not show in the window yet."""
        with self._lock:
            return self._assumed.owners_in_flight()

    def node_scores(self, name: str) -> dict[str, int | None]:
        """{node: its score without a particular pod, 0..100, None where unknown}."""
        scored = self._without_pod(name)
        return {} if scored is None else scored[0].by_node(scored[1])

    def label_scores(self, name: str) -> dict[str, float | None]:
        """{node: what its label is made from, 0..100 without rounding, None where unknown}.

        Pods that the window does not show yet count: a node that just got ten pods is not the best one. Of a load x the
        score is 100 (1 - sqrt(x)), without its deviation: measurements/experiments.md, "windows", says why.
        """
        state = self._state
        if state is None:
            return {}
        of_load = name in (load_variation.NAME, load_aware.NAME)
        strategy = self._strategies.make(load_variation.NAME if of_load else name, "full", deviation=False)
        if strategy.needs_pods and self._pods_age() > WATCH_SILENT:
            return state.by_node_exactly(None)
        with self._lock, self._assumed.proved_alone():
            scores = strategy.score(state.model.fleet, STANDARD if strategy.needs_pod else None)
        if of_load:
            scores = replace(scores, exact=load_variation.label_score((100 - scores.exact) / 50))
        return state.by_node_exactly(scores)

    def node_score(self, name: str, node: str) -> NodeScore | None:
        """The score by a strategy, without a particular pod; None for an unknown node."""
        scored = self._without_pod(name)
        return None if scored is None else scored[0].node_score(node, name, scored[1])

    def scores_of(self, namespace: str, name: str) -> api.PodScores | None:
        """The scores of every node for a pod: by the strategy of the settings and by each one that it blends.

        None where no such pod is known.
        """
        pod = next((pod for pod in self._pods() if pod.name == name and pod.namespace == namespace), None)
        if pod is None:
            return None
        documents: list[api.Scores] = []
        with self._lock:
            state, decision = self._state, self._assumed.assumptions.get(pod.uid)
            neutral: str | None = "no-snapshot"
            if state is not None:
                strategy = self._strategy(self._settings.strategy, state)
                neutral, documents = self._unusable(strategy), state.explain(self._settings.strategy, strategy, pod)
        return api.PodScores(
            pod=f"{pod.namespace}/{pod.name}",
            node=pod.node or None,
            decided=decision.node if decision else None,
            time=state.model.window_end if state else None,
            neutral=neutral,
            strategies=documents,
            strategy=self._settings.strategy,
            scores=documents[0].scores if documents else {},
            unknown=documents[0].unknown if documents else [],
        )

    def _decide(self, state: SnapshotState, name: str, arriving: Pod, names: Sequence[str], proved: bool) -> Priorities:
        assumed, uid, now = self._assumed, arriving.uid, self._clock.monotonic()
        assumed.expire(now)
        # A pod that is decided again must not stand in its own way: its last decision no longer counts.
        assumed.forget_decision(uid)
        named = state.hosts.named(names)
        if (preferred := self.reservations.prefer(uid, named)) is not None:
            return preferred
        age, lag = self._age(state), assumed.watch_lag(now, asked=True)
        rows, model, strategy = named.rows, state.model, state.strategies[name]
        # Without any known load the scores would be the strategy's guesses: the scheduler's own plugins decide then.
        blind = strategy.needs_load and not (state.known if named.everybody else state.known[rows]).any()
        neutral = self._unusable(strategy) or ("unknown-nodes" if blind or not len(rows) else None)
        if neutral is not None:
            return replace(equal(named, neutral), snapshot_age=age, watch_lag=lag)
        unseen = 0 if proved or assumed.may_book(uid, proved=False) else assumed.unbooked(now)
        late = self._lateness(strategy, lag)
        exact = _exact(strategy, model, named, arriving, late)
        if exact is None:
            return replace(equal(named, "unknown-nodes"), snapshot_age=age, watch_lag=lag)
        wanted = exact
        if 0 < unseen < FEW_UNSEEN:  # What nobody has proved moves where these pods go, and no point of others.
            with assumed.supposing(uid, arriving.shape, self._clock.wall(), now):
                supposed = _exact(strategy, model, named, arriving, late)
            wanted = exact if supposed is None else supposed
        owner, claim = owner_of(arriving), claim_of(arriving)
        siblings = assumed.of_owner(owner) if claim is None else {}
        wanted = apart(wanted, model.counts(siblings)[rows]) if siblings else wanted
        chosen = choose(wanted, state.keys.take(rows), uid)
        if unseen >= FEW_UNSEEN:
            chosen = self._go_apart(uid, exact * state.sizes[rows], rows, model.rows)
        # The pod counts on its node from now on, so that the next pod of a burst does not see an empty node.
        node = model.names[rows[chosen]]
        held = Held(node, arriving.shape, self._clock.wall(), owner, claim, expected=True)
        assumed.assume(uid, held, now, arriving.template, proved=proved)
        self.reservations.note_decision(uid)
        return replace(_priorities(named, exact, chosen), snapshot_age=age, watch_lag=lag)

    def _age(self, state: SnapshotState) -> float:
        """Seconds since the load of the snapshot was measured."""
        return max(0.0, self._clock.wall() - state.model.window_end)

    def _lateness(self, strategy: Strategy, lag: float) -> float:
        """How late is what is known, from 0, in time, to 1, when it says nothing any more."""
        most, rendered, late = self._board.max_age, self._board.rendered, 0.0
        if strategy.needs_load and most and rendered is not None:
            late = ((self._clock.wall() - rendered.fetched) / most - LATE_FROM) / (1 - LATE_FROM)
        return min(max(late, (lag - PROMPT_LAG) / (BLIND_LAG - PROMPT_LAG), 0.0), 1.0)

    def _go_apart(self, uid: str, weights: Floats, rows: Ints, row_of: Mapping[str, int]) -> int:
        """The position of a node for a pod that the watch has not shown: the same when it is asked about again."""
        before = self._assumed.decided_unseen(uid, self._clock.monotonic())
        again = np.flatnonzero(rows == row_of.get(before or "", -1))
        if len(again):
            return int(again[0])
        self._spread += 1
        return spread(weights, self._spread)

    def _without_pod(self, name: str) -> tuple[SnapshotState, Scores | None] | None:
        """The scores without a particular pod; None for them while the strategy needs pods and the watch is silent."""
        state = self._state
        if state is None:
            return None
        strategy = self._strategy(name, state, "off")
        if strategy.needs_pods and self._pods_age() > WATCH_SILENT:
            return state, None
        with self._lock if strategy.needs_pods else nullcontext():
            return state, strategy.score(state.model.fleet, STANDARD if strategy.needs_pod else None)

    def _arriving(self, pod: wire.Pod) -> Pod:
        """The pod as the watch shows it, else as the scheduler sends it.

        Of a request its shape alone is kept, while a decision holds it: what is known of a shape is found by it.
        """
        shown = self._assumed.waiting(pod.metadata.uid)
        if shown is None:
            with self._lock:
                shown = to_pod(pod, Shared(self._shapes), lambda key: key in ANNOTATIONS)
        return self._assumed.claimed(shown)

    def _unusable(self, strategy: Strategy) -> str | None:
        """Why a strategy cannot decide now."""
        if self._pods_age() > WATCH_SILENT:
            return "no-pods"
        return self._load_unusable() if strategy.needs_load else None

    def _load_unusable(self) -> str | None:
        if self._board.frozen:
            return "frozen"
        return "old-snapshot" if self._board.current() is None else None

    def _strategy(self, name: str, state: SnapshotState | None = None, in_flight: str = "full") -> Strategy:
        """Raises UsageError for a name that is no strategy, or one that needs keys it has not been given."""
        return self._strategies.make(name, in_flight, state.residual if state else None)

    def _renew(self) -> None:
        """Learns the pod profiles again from the latest arrivals."""
        with self._lock:
            state, arrivals = self._state, self._assumed.arrivals
            self._renew_at = arrivals.count + min(max(arrivals.count, 1), OFTEN)
            profiles = arrivals.profiles()
            if state is None or not profiles:
                return
            copied, scored = state.residual.copied(profiles), state.residual.asked()
            hourly = arrivals.since(self._clock.wall() - HOUR)
        prepared = state.residual.prepare(profiles, copied, scored, *hourly)
        with self._lock:
            if self._state is state:
                state.residual.install(prepared)


def _exact(strategy: Strategy, model: FleetModel, named: Named, arriving: Pod, late: float) -> Floats | None:
    """The scores of the named nodes, None where none is known."""
    fleet = model.fleet if named.everybody else model.fleet.at(named.rows)
    scores = finest(strategy, fleet, arriving)
    if scores.unknown.all():
        return None
    exact = scores.exact.take(named.rows) if named.everybody else scores.exact
    # Nodes within a share of the range are equal, so that pods share them; of the worst one only if blind.
    return np.minimum(exact, exact.max() - late * np.ptp(exact)) if late else exact


def _priorities(named: Named, exact: Floats, chosen: int) -> Priorities:
    """Points by the exact scores; names that no node of the snapshot has get the fewest."""
    points = worth(exact)
    if len(named.rows) < len(named.known):
        known, points = points, np.full(len(named.known), points.min())
        points[named.known] = known
        chosen = int(np.flatnonzero(named.known)[chosen])
    return Priorities(named.priorities(points, chosen))
