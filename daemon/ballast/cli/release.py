"""`ballast release`: takes back everything Ballast wrote on nodes."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from ballast import log
from ballast.clock import Clock, SystemClock
from ballast.cluster import listing
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.decoding import annotation_filter, node_reader
from ballast.cluster.identity import own_namespace
from ballast.cluster.lease import read_lease
from ballast.cluster.write import Result
from ballast.cluster.writer import Writer
from ballast.errors import BallastError, UsageError
from ballast.metrics import Metrics
from ballast.publishing import release as publishing
from ballast.publishing.keys import Keys
from ballast.publishing.publisher import PART
from ballast.settings import Duration, Settings, load

LOOK_AGAIN = 5.0


def release(
    if_stale: Annotated[
        str | None,
        typer.Option(
            help="Only while the Lease was last renewed so long ago, such as 15m. Without a Lease nothing is done."
        ),
    ] = None,
) -> None:
    """Removes Ballast's labels, annotation and taint from all nodes.

    Stop the daemon first, or pause publishing: it would write them again.
    """
    settings = load()
    log.configure(settings.log.level, settings.log.format)
    clock, metrics = SystemClock(), Metrics()
    api = connect(settings.cluster, metrics)
    stale = None if if_stale is None else StaleLease(api, clock, settings, _age(if_stale))
    if stale is not None and not stale():
        typer.echo(f"Released nothing: {stale.why}")
        return
    nodes = listing.list_all(
        api, "/api/v1/nodes", node_reader(annotation_filter(settings.publishing.prefix)), {}, threading.Event()
    )
    assert nodes is not None
    writer = Writer(
        api,
        clock,
        metrics,
        qps=settings.cluster.qps,
        burst=settings.cluster.burst,
        modes={PART: "on"},
        paused=lambda part: None,
        leading=stale or (lambda: True),
    )
    outcomes = publishing.release(api, writer, nodes[0], Keys.of(settings.publishing.prefix))
    stopped = f" Stopped: {stale.why}" if stale is not None and stale.why else ""
    tried = [outcome for outcome in outcomes if outcome.result is not Result.REFUSED]
    failed = [outcome for outcome in tried if outcome.result not in (Result.DONE, Result.GONE)]
    typer.echo(f"Released {len({o.write.target.name for o in tried}):,} of {len(nodes[0]):,} nodes.{stopped}")
    if failed:
        raise BallastError(f"{len(failed):,} writes failed; the first: {failed[0].reason}. Run it again.")


def _age(text: str) -> float:
    try:
        return Duration(text)
    except ValueError as error:
        raise UsageError(f"--if-stale {text}: {error}") from error


class StaleLease:
    """Whether nobody has renewed the Lease for `age` seconds; looks again at most every LOOK_AGAIN seconds.

    Once it was not so it stays not so, and `why` says what was seen. Raises ClusterError when the Lease cannot be read.
    """

    def __init__(self, api: KubeApi, clock: Clock, settings: Settings, age: float) -> None:
        self._api = api
        self._clock = clock
        self._namespace = settings.lease.namespace or own_namespace(None)
        self._name = settings.lease.name
        self._age = age
        self._look_at = clock.monotonic()
        self.why: str | None = None

    def __call__(self) -> bool:
        if self.why is None and self._clock.monotonic() >= self._look_at:
            self.why = self._look()
            self._look_at = self._clock.monotonic() + LOOK_AGAIN
        return self.why is None

    def _look(self) -> str | None:
        lease = read_lease(self._api, self._namespace, self._name)
        subject = f"Lease {self._namespace}/{self._name}"
        if lease is None:
            return (
                f"there is no {subject}, so nobody knows whether a daemon runs. Check BALLAST_LEASE__NAMESPACE and "
                "BALLAST_LEASE__NAME; without a Lease, stop the daemon and run `ballast release`."
            )
        if lease.renew_time is None:
            return f"{subject} does not say when it was renewed. Stop the daemon and run `ballast release`."
        since = self._clock.wall() - lease.renew_time.timestamp()
        return None if since >= self._age else f"{subject} was renewed {since:.0f} s ago."
