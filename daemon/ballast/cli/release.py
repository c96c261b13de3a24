"""`ballast release`: takes back everything Ballast wrote on nodes."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from ballast import log
from ballast.clock import SystemClock
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


def release(
    if_stale: Annotated[
        str | None,
        typer.Option(help="Only when the Lease has not been renewed for so long, such as 15m; otherwise do nothing."),
    ] = None,
) -> None:
    """Removes Ballast's labels, annotation and taint from all nodes.

    Stop the daemon first, or pause publishing: it would write them again.
    """
    settings = load()
    log.configure(settings.log.level, settings.log.format)
    clock, metrics = SystemClock(), Metrics()
    api = connect(settings.cluster, metrics)
    if if_stale is not None and (why := _in_use(api, settings, _age(if_stale), clock.wall())):
        typer.echo(f"Released nothing: {why}")
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
        leading=lambda: True,
    )
    outcomes = publishing.release(api, writer, nodes[0], Keys.of(settings.publishing.prefix))
    failed = [outcome for outcome in outcomes if outcome.result not in (Result.DONE, Result.GONE)]
    typer.echo(f"Released {len({o.write.target.name for o in outcomes}):,} of {len(nodes[0]):,} nodes.")
    if failed:
        raise BallastError(f"{len(failed):,} writes failed; the first: {failed[0].reason}. Run it again.")


def _age(text: str) -> float:
    try:
        return Duration(text)
    except ValueError as error:
        raise UsageError(f"--if-stale {text}: {error}") from error


def _in_use(api: KubeApi, settings: Settings, age: float, now: float) -> str | None:
    """Why the labels are to stay, None when nobody has renewed the Lease for `age` seconds."""
    namespace, name = settings.lease.namespace or own_namespace(None), settings.lease.name
    lease = read_lease(api, namespace, name)
    renewed = lease.renew_time.timestamp() if lease is not None and lease.renew_time is not None else None
    if renewed is None or now - renewed >= age:
        return None
    return f"Lease {namespace}/{name} was renewed {now - renewed:.0f} s ago."
