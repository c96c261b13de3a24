"""Whether evictions do what their plan says: a real scheduler, load that follows the pods, the stock way beside it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ballast_lab.bench.rows import Row
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.rebalancing import Size, compare
from ballast_lab.harness.tools import Tools

FULL = Size(nodes=50, apps=300, replicas=5, moves=15, window=60, interval=5)
SMALL = Size(nodes=10, apps=60, replicas=4, moves=6, window=6, interval=1, cpu=False)
QUICK = {"size": SMALL}


def measure(size: Size = FULL) -> list[Row]:
    pods = size.apps * size.replicas
    at = f"real kube-scheduler + extender, {size.nodes} kwok nodes, {pods:,} pods, {size.moves} moved"
    row: Row = {"what": "rebalance, effect", "at": at, "reach": "σ left within 10 % of predicted", "measured": ""}
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{**row, "measured": f"not measured: {error}"}]
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        plane = ControlPlane(tools, Path(folder))
        try:
            found = compare(
                plane, Path(folder), size, kubeconfig=plane.kubeconfig("admin"), given={"POD_NAMESPACE": "default"}
            )
        finally:
            plane.stop()
    off = max(abs(found.measured[name] / found.predicted[name] - 1) for name in found.predicted)
    landed = f"{found.on_target} of {found.evicted} on their target"
    measured = (
        f"predicted {_shares(found.predicted)}; measured {_shares(found.measured)}; by where pods are "
        f"{_shares(found.real)}; {landed}; the same plan's pods landing by the stock scheduler {_shares(found.stock)}"
    )
    return [{**row, "measured": measured, "verdict": "met" if off <= 0.1 else f"{off:.0%} off"}]


def _shares(left: Mapping[str, float]) -> str:
    return " and ".join(f"{share:.3f} {name}" for name, share in left.items() if math.isfinite(share))


if __name__ == "__main__":
    for row in measure():
        print(row)
