"""What `/livez` and `/readyz` check.

Stale data never makes a replica unready: it would take the page away when it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ballast.cluster.cache import Cache
from ballast.cluster.lease import Elector
from ballast.serving.board import Check
from ballast.settings import Mode

if TYPE_CHECKING:
    from ballast.runtime.daemon import Daemon


def leadership(daemon: Daemon) -> str:
    """Who leads, and what keeps this replica from it."""
    if daemon.elector.is_leader():
        return "this replica leads"
    holder = daemon.elector.holder() if isinstance(daemon.elector, Elector) else ""
    problem = lease_problem(daemon)
    told = f"{holder or 'nobody yet'} holds the Lease"
    if isinstance(daemon.elector, Elector) and holder == daemon.elector.identity:
        told = "this replica held the Lease until its renewals failed"
    return f"standing by: {told}" + (f"; {problem}" if problem else "")


def lease_problem(daemon: Daemon) -> str | None:
    """Why the Lease can be neither acquired nor renewed now."""
    return daemon.elector.problem if isinstance(daemon.elector, Elector) else None


def alive(daemon: Daemon) -> list[Check]:
    """Whether the loops beat, and no thread they rely on has ended."""
    overdue = daemon.jobs.overdue()
    parts = {
        "lease": daemon.elector,
        "role": daemon.role,
        "saving": daemon.saving,
        "events": daemon.events,
        "switches": daemon.switches,
        "watches": daemon.cache,
        "workload watches": daemon.workloads,
    }
    dead = [name for name, part in parts.items() if not part.alive]
    return [
        Check(
            "jobs", not overdue, ", ".join(f"{name} has not beaten for {age:.0f} s" for name, age in overdue.items())
        ),
        Check("threads", not dead, f"{', '.join(dead)} ended unexpectedly" if dead else ""),
    ]


def ready(daemon: Daemon) -> list[Check]:
    """Whether it can serve: the caches are synced and a first cycle ended, even a failed one.

    Pods that may not be read cost the extender its knowledge, and nothing else: they are waited for only while they are
    being listed.
    """
    cache = daemon.cache
    snapshot = daemon.board.snapshot
    age = "" if snapshot is None else f"windows end {daemon.clock.wall() - snapshot.time:.0f} s ago"
    return [
        Check("nodes", cache.listed("nodes"), cache.problem("nodes") or _heard(cache, "nodes")),
        Check(
            "pods", cache.listed("pods") or bool(cache.problem("pods")), cache.problem("pods") or _heard(cache, "pods")
        ),
        Check("first-cycle", bool(daemon.board.cycles), "" if daemon.board.cycles else "no cycle has ended yet"),
        Check("data", True, age or "nothing measured yet"),
        Check("publishing", True, paused(daemon, "publishing") or daemon.settings.publishing.mode.value),
        Check("eviction", True, _mode(daemon, "eviction", daemon.settings.eviction.mode)),
        Check("lease", True, leadership(daemon)),
    ]


def paused(daemon: Daemon, part: str) -> str | None:
    """Why a part is; None where it is not, or where no part ever writes, so that nobody looks at the switches."""
    return daemon.switches.paused(part) if daemon.acting else None


def _mode(daemon: Daemon, part: str, mode: Mode) -> str:
    """Why a part is paused, else its mode."""
    return mode.value if mode is Mode.OFF else daemon.switches.paused(part) or mode.value


def _heard(cache: Cache, kind: str) -> str:
    return f"last heard of {cache.age(kind):.0f} s ago"
