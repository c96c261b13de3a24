"""What every part of the daemon is given: the cluster as it is seen, and the one way to change it."""

from dataclasses import dataclass

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.cache import Cache
from ballast.cluster.client import KubeApi
from ballast.cluster.conditions import Conditions
from ballast.cluster.events import Events
from ballast.cluster.lease import Leadership
from ballast.cluster.ledger_book import LedgerBook
from ballast.cluster.state import StateStore
from ballast.cluster.switches import Switches
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.writer import Writer
from ballast.settings import Settings


@dataclass(frozen=True)
class Context:
    """Built once, before any part. Nothing in it knows a part."""

    settings: Settings
    clock: Clock
    """Time of samples and cycles, which a demo may speed up."""
    machine_clock: Clock
    """Time of the Lease, the watches and the write budget."""
    metrics: Metrics
    conditions: Conditions
    namespace: str
    """Ballast's own namespace."""
    api: KubeApi
    cache: Cache
    workloads: WorkloadCache
    switches: Switches
    leadership: Leadership
    events: Events
    writer: Writer
    state: StateStore
    ledger: LedgerBook

    @property
    def acting(self) -> bool:
        """Whether any part may write: a part is not `off`."""
        settings = self.settings
        parts = (settings.publishing, settings.power, settings.eviction, settings.batch)
        return any(part.mode != "off" for part in parts)

    def paused(self, part: str) -> str | None:
        """Why a part is paused; None where it is not, or where no part ever writes, so that nobody reads switches."""
        return self.switches.paused(part) if self.acting else None
