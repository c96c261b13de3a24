"""The demo's scene `hotspot`: the extender is asked, evictions are on, and the spread of the load falls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ballast.model.snapshot import Snapshot
from ballast_lab.simulator import EmbeddedCluster

ENVIRONMENT = {
    "BALLAST_TELEMETRY__RESOURCES": "cpu,memory",
    "BALLAST_WINDOWS__LENGTHS": "30s",
    "BALLAST_WINDOWS__MIN_SAMPLES": "2",
    "BALLAST_EVICTION__MODE": "on",
    "BALLAST_EVICTION__INTERVAL": "5s",
    "BALLAST_EVICTION__CONFIRMATIONS": "1",
    "BALLAST_EVICTION__MAX_MOVES": "0.4%",
    "BALLAST_EVICTION__LIMIT_TOTAL": "0",
    "BALLAST_EVICTION__LIMIT_NODE": "4",
    "BALLAST_EVICTION__LIMIT_NAMESPACE": "0",
    "BALLAST_EVICTION__LIMIT_WORKLOAD": "50%",
    "BALLAST_EVICTION__PRICE": "20",
    "BALLAST_EVICTION__WORKLOAD_WINDOW": "15s",
    "BALLAST_EVICTION__MAX_UNAVAILABLE": "25%",
    "BALLAST_EVICTION__RATE": "0",
    "BALLAST_EVICTION__COOLDOWN": "15s",
    "BALLAST_EVICTION__QUIET_AFTER_SCALE": "0s",
}
"""Settings that suit two minutes; in a cluster the defaults are slower."""

ARRIVAL = ("shop", "storefront", 4)
"""A deployment that starts with the scene: for its pods the scheduler asks the extender before the first plan."""


@dataclass
class SpreadChange:
    """Standard deviation of the load between nodes, by resource, in the first snapshot and in the latest."""

    before: dict[str, float] = field(default_factory=dict)
    after: dict[str, float] = field(default_factory=dict)

    def see(self, snapshot: Snapshot | None) -> None:
        """Takes a new snapshot into account."""
        if snapshot is None:
            return
        self.after = {resource: value for (_, resource), value in snapshot.spread().items()}
        self.before = self.before or self.after

    def document(self) -> dict[str, dict[str, float]]:
        """As in the JSON summary."""
        return {"before": self.before, "after": self.after}


def words(spread: Mapping[str, Mapping[str, float]]) -> str:
    """`spread: cpu 0.183 -> 0.071 (-61 %), memory …`."""
    before, after = spread["before"], spread["after"]
    return f"spread: {', '.join(_change(name, before[name], after.get(name)) for name in before) or 'unknown'}"


def _change(name: str, before: float, after: float | None) -> str:
    if after is None:  # A fault of the demo's own may take every sample.
        return f"{name} {before:.3f} -> unknown"
    percent = f" ({100 * (after / before - 1):+.0f} %)" if before else ""
    return f"{name} {before:.3f} -> {after:.3f}{percent}"


def steer(cluster: EmbeddedCluster, url: str, say: Callable[[str], None]) -> None:
    """Lets the scheduler ask the daemon at `url`, and gives it something to ask for."""
    cluster.ask_extender(f"{url.rstrip('/')}/scheduler")
    namespace, name, replicas = ARRIVAL
    cluster.deploy(namespace, name, replicas)
    say(f"cluster    {namespace}/{name} arrives; its {replicas} pods go where the extender says")
