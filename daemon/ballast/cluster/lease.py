"""Which replica writes: a Lease, judged by our own monotonic clock alone."""

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError, Conflict, NotFound
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.state import StateAge
from ballast.cluster.threads import going
from ballast.cluster.versions import Versions
from ballast.cluster.write import FIELD_MANAGER, Result, Write, WriteOutcome, WriteTarget, object_path, record

STOP_PATIENCE = 2.0

LONGEST_FOREIGN = 300.0
"""Seconds without a renewal after which a Lease is free, whatever duration its holder wrote."""

SAVES = "ballast.dev/state-saves"
"""Annotation of the Lease: how often `ballast-state` was saved."""

_NAMED = 100
_log = structlog.get_logger("lease")
_decoder = msgspec.json.Decoder(wire.Lease)


class Leadership(ABC):
    """Whether this replica may write at this moment. Subscribers are called at each gain and loss.

    Callbacks run in the thread that notices, and must not take long.
    """

    problem: str | None = None
    """Why the Lease can be neither acquired nor renewed now."""

    beat: float | None = None
    """When its loop came round last (monotonic seconds); None before its first time, or without a loop."""

    def __init__(self) -> None:
        self.versions = Versions()
        """Hears of the versions of the Lease, which is read or written every few seconds."""
        self._on_gain: Callable[[], None] | None = None
        self._on_loss: Callable[[], None] | None = None

    def subscribe(self, on_gain: Callable[[], None], on_loss: Callable[[], None]) -> None:
        """Before `start`."""
        self._on_gain, self._on_loss = on_gain, on_loss

    def standing_by(self) -> str | None:
        """Who leads instead, and what keeps this replica from it; None while it leads."""
        return None if self.is_leader() else f"standing by: {self._instead()}"

    def _instead(self) -> str:
        return "this replica does not lead"

    def _call_back(self, leads: bool) -> None:
        callback = self._on_gain if leads else self._on_loss
        if callback:
            callback()

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @property
    @abstractmethod
    def alive(self) -> bool:
        """False only if its thread died before `stop`."""

    @abstractmethod
    def is_leader(self) -> bool:
        """Asked again before every write."""


def read_lease(api: KubeApi, namespace: str, name: str) -> wire.LeaseSpec | None:
    """The Lease as it is, None where there is none: its `holder_identity` (empty when released), `renew_time`."""
    try:
        return _decoder.decode(api.get(object_path(_collection(namespace), name))).spec
    except NotFound:
        return None


class AlwaysLeader(Leadership):
    """For a single replica without a Lease."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._metrics = metrics
        self._leads = False

    def start(self) -> None:
        self._leads = True
        self._metrics.leader.set(1)
        self._call_back(True)

    def stop(self) -> None:
        was, self._leads = self._leads, False
        self._metrics.leader.set(0)
        if was:
            self._call_back(False)

    @property
    def alive(self) -> bool:
        return True

    def is_leader(self) -> bool:
        return self._leads


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds."""

    duration: float = 15.0
    """After which another may take a Lease that is not renewed."""
    deadline: float = 10.0
    """After which this replica stops leading if it could not renew."""
    retry: float = 2.0
    """Between two attempts."""


class Elector(Leadership):
    """Holds the Lease or waits for it.

    It leads until `times.deadline` seconds after the *sending* of its last successful renewal; another may take the
    Lease `times.duration` seconds after it *saw* that renewal. So two never lead at once, whatever the remote clocks
    say and however long a request or this process is held up. Subscribers are called from the elector's thread.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        metrics: Metrics,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        age: StateAge | None = None,
    ) -> None:
        """`age` goes into the Lease with each renewal, and is learned from it."""
        super().__init__()
        self._age = age or StateAge()
        self._oddity: str | None = None
        self.identity = identity
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._namespace = namespace
        self._name = name
        self._times = times or LeaseTimes()
        self._jitter = random.Random()  # noqa: S311
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._leads_until = float("-inf")
        self._told_leader = False
        self._held: dict[str, Any] | None = None
        self._seen = ("", 0.0)
        self._holder = ""
        self._known = ""
        self.beat = None
        """When it last tried (monotonic)."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops leading at once, then gives the Lease back so that another need not wait. Stop the writers before.

        Waits STOP_PATIENCE for the attempt under way and again for the answer; the API server may still act after that.
        """
        self._stop.set()
        if self._thread:
            self._thread.join(STOP_PATIENCE)
        self._tell()
        if self._held is not None:
            self._release(self._held)

    def is_leader(self) -> bool:
        """True only while no other replica can have taken the Lease; asked again before every write."""
        return self._clock.monotonic() < self._leads_until and not self._stop.is_set()

    @property
    def alive(self) -> bool:
        return going(self._thread, self._stop)

    def holder(self) -> str:
        """Who held the Lease when it was last read; empty when nobody."""
        return self._holder

    def _instead(self) -> str:
        holder = self._holder
        who = f"{holder or 'nobody yet'} holds the Lease"
        if holder == self.identity:
            who = "this replica held the Lease until its renewals failed"
        return who + (f"; {self.problem}" if self.problem else "")

    def tick(self) -> None:
        """One attempt to renew or acquire. Called every `retry` seconds by the thread."""
        self.beat = self._clock.monotonic()
        try:
            with suppress(Conflict):
                self._attempt()
            self.problem = self._oddity
        except ClusterError as error:
            if self.problem is None:
                _log.warning("cannot renew or acquire the Lease; trying again", problem=str(error))
            self.problem = str(error)
        self._tell()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.tick()
            except Exception:
                _log.exception("the elector failed unexpectedly; trying again")
            left = self._leads_until - self._clock.monotonic()
            wait = self._times.retry * self._jitter.uniform(1.0, 1.2)
            self._clock.wait(self._stop, min(wait, left) if left > 0 else wait)

    def _attempt(self) -> None:
        if self._held is not None:
            try:
                self._take(self._held)
                return
            except (Conflict, NotFound):
                self._held = None
        try:
            lease = msgspec.json.decode(self._api.get(self._path, timeout=self._times.deadline / 2))
        except NotFound:
            lease = None
        else:
            self._compare(lease)
        if self._stop.is_set():
            return
        self._oddity = None
        if lease is None or self._free(lease):
            self._take(lease)
        else:
            self._leads_until = float("-inf")

    def _free(self, lease: dict[str, Any]) -> bool:
        now = self._clock.monotonic()
        version = lease["metadata"].get("resourceVersion", "")
        self._age.see((lease["metadata"].get("annotations") or {}).get(SAVES))
        if version != self._seen[0]:
            self._seen = (version, now)
        spec = lease.get("spec") or {}
        self._holder = spec.get("holderIdentity") or ""
        if not self._holder or self._holder == self.identity:
            return True
        duration = float(spec.get("leaseDurationSeconds") or 0)
        free = now - self._seen[1] >= max(self._times.duration, min(duration, LONGEST_FOREIGN))
        if duration > LONGEST_FOREIGN and not free:
            self._oddity = (
                f"Lease {self._namespace}/{self._name} of {printable(self._holder, _NAMED)} asks others to wait "
                f"{duration:.0f} s; {LONGEST_FOREIGN:.0f} s count. Delete the Lease if nobody renews it."
            )
        return free

    def _take(self, lease: dict[str, Any] | None) -> None:
        """Creates, acquires or renews. Raises Conflict if someone was quicker; then it is theirs."""
        sent_at = self._clock.monotonic()
        old = (lease or {}).get("spec") or {}
        same = old.get("holderIdentity") == self.identity
        now = _micro_time(self._clock.wall())
        transitions = int(old.get("leaseTransitions") or 0)
        spec = {
            **old,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "acquireTime": old["acquireTime"] if same and old.get("acquireTime") else now,
            "renewTime": now,
            "leaseTransitions": transitions if same or lease is None else transitions + 1,
        }
        self._held = self._send(lease, spec, "renewed" if same else "acquired", routine=same)
        self._holder = self.identity
        self._leads_until = sent_at + self._times.deadline

    def _release(self, lease: dict[str, Any]) -> None:
        now = _micro_time(self._clock.wall())
        spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now}
        try:
            self._send(lease, spec, "released", routine=False, timeout=STOP_PATIENCE)
        except Conflict:
            pass
        except ClusterError as error:
            _log.warning("the Lease could not be given back; others wait until it expires", problem=str(error))
        self._held = None

    def _send(
        self,
        lease: dict[str, Any] | None,
        spec: dict[str, Any],
        reason: str,
        *,
        routine: bool,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        base = lease or {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
        }
        if self._age.saves:
            annotations = {**(base["metadata"].get("annotations") or {}), SAVES: str(self._age.saves)}
            base = {**base, "metadata": {**base["metadata"], "annotations": annotations}}
        write = Write(
            kind="lease",
            part=None,
            method="PUT" if lease else "POST",
            path=self._path if lease else _collection(self._namespace),
            target=WriteTarget("Lease", self._name, self._namespace, api_version="coordination.k8s.io/v1"),
            reason=reason,
            body={**base, "spec": spec},
        )
        try:
            body = self._api.request(
                write.method,
                write.path,
                query={"fieldManager": FIELD_MANAGER},
                body=write.body,
                timeout=timeout or self._times.deadline / 2,
            )
        except ClusterError as error:
            result = Result.CONFLICT if isinstance(error, Conflict) else Result.FAILED
            record(self._metrics, WriteOutcome(write, result, str(error)))
            raise
        record(self._metrics, WriteOutcome(write, Result.DONE, body=body), routine=routine)
        held: dict[str, Any] = msgspec.json.decode(body)
        self._compare(held)
        return held

    def _compare(self, lease: dict[str, Any]) -> None:
        """Later versions are larger, also those of a Lease that was created again."""
        known, self._known = self._known, lease["metadata"].get("resourceVersion", "")
        self.versions.went_back(self._known, known, "the Lease")

    def _tell(self) -> None:
        leads = self.is_leader()
        self._metrics.leader.set(leads)
        if leads == self._told_leader:
            return
        self._told_leader = leads
        _log.info("leading" if leads else "no longer leading", identity=self.identity)
        self._call_back(leads)

    @property
    def _path(self) -> str:
        return object_path(_collection(self._namespace), self._name)


def _collection(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def _micro_time(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
