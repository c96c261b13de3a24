"""Where evicted pods land on a stock scheduler, by the taint, and by the extender: a real control plane for each."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ballast_lab.bench.rows import Row
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.landing import left
from ballast_lab.harness.rebalancing import Size
from ballast_lab.harness.tools import Tools

FULL = Size(nodes=10, apps=60, replicas=4, moves=5, window=6, interval=1, cpu=False)
QUICK = {"size": FULL}
WAYS = ("stock", "taint", "extender")


def measure(size: Size = FULL) -> list[Row]:
    pods = size.apps * size.replicas
    row: Row = {
        "what": "`LANDING=taint`, σ of memory left after a plan",
        "at": f"real kube-scheduler without extender, {size.nodes} kwok nodes, {pods:,} pods, {size.moves} moved",
        "reach": "≤ half of the way between stock landing and the extender's",
        "measured": "",
    }
    try:
        tools = Tools.find()
    except RuntimeError as error:
        return [{**row, "measured": f"not measured: {error}"}]
    found = {way: _left(tools, size, way) for way in WAYS}
    met = found["taint"] <= (found["stock"] + found["extender"]) / 2
    measured = ", ".join(f"{way} {share:.3f}" for way, share in found.items())
    return [{**row, "measured": measured, "verdict": "met" if met else "missed"}]


def _left(tools: Tools, size: Size, way: str) -> float:
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as folder:
        plane = ControlPlane(tools, Path(folder))
        try:
            given = {"POD_NAMESPACE": "default"}
            return left(plane, Path(folder), size, way, kubeconfig=plane.kubeconfig("admin"), given=given).real
        finally:
            plane.stop()


if __name__ == "__main__":
    for row in measure():
        print(row)
