"""How much memory the container needs at most: the sum of what each part of the daemon may hold."""

from dataclasses import dataclass

from ballast.base.answer_budget import IN_FLIGHT
from ballast.base.body_budget import BodyBudget
from ballast.base.freed_memory import KEEP, MIB
from ballast.cluster.listing import LARGEST_OBJECT
from ballast.cluster.objects.decoding import POOL_BYTES
from ballast.cluster.objects.object_budget import IN_ALL
from ballast.planning.process import MEMORY, MEMORY_PER_NODE, MEMORY_PER_POD
from ballast.serving.bounded_protocol import MAX_CONNECTIONS, MAX_HEADER_BYTES, MAX_UNSENT
from ballast.serving.fleet_history import BOUND
from ballast.settings import Mode, Settings

DOCUMENTED = (5_000, 30_000)
"""Nodes and pods that the chart's defaults are for."""

PROCESS = 96 * MIB
"""The interpreter, its modules and threads: measured, 75 MB to 90 MB."""

PER_NODE = 8 * 2**10
"""Bytes of a node, measured with 5,000 nodes."""

PER_RESOURCE = 8 * 2**10
"""Bytes of one measured resource of a node, in three windows with its series."""

PER_POD = 1280
"""Bytes of a pod: its promised 1.2 kB."""

HISTORY = 288
"""Bytes of a node's last day for each resource and for its score."""

STEP = 64 * MIB
"""Limits are written in multiples of this."""


@dataclass(frozen=True)
class Share:
    """Bytes that one part may hold, and why."""

    what: str
    size: int


def shares(settings: Settings, nodes: int, pods: int) -> list[Share]:
    """What may be held at the same time, the largest cluster's objects included."""
    resources = len(settings.telemetry.resources)
    parts = [
        Share("the process itself", PROCESS),
        Share(f"{nodes:,} nodes with {resources} resources", nodes * (PER_NODE + resources * PER_RESOURCE)),
        Share("their last day, for the page", min(BOUND, nodes * HISTORY * (resources + 1))),
        Share(f"{pods:,} pods", pods * PER_POD),
        Share("objects above the ordinary size, and shared values", IN_ALL + POOL_BYTES),
        Share("a page of a list", LARGEST_OBJECT),
        Share("telemetry answers in flight", IN_FLIGHT),
        Share("request bodies in flight", BodyBudget.LARGE + BodyBudget.RESERVED),
        Share("headers of requests in flight", MAX_CONNECTIONS * MAX_HEADER_BYTES),
        Share("answers that clients have not taken", MAX_UNSENT),
        Share("freed memory that is kept for the next answer", KEEP),
    ]
    if settings.eviction.mode is not Mode.OFF or settings.batch.mode is not Mode.OFF:
        parts.append(Share("the planning process", MEMORY + MEMORY_PER_POD * pods + MEMORY_PER_NODE * nodes))
    return parts


def limit(parts: list[Share]) -> int:
    """The memory limit that follows: MiB, in whole steps."""
    return -(-sum(share.size for share in parts) // STEP) * (STEP // MIB)
