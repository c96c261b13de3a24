"""What happens in a world of its own accord."""

from __future__ import annotations

import asyncio

from ballast.simulator import objects
from ballast.simulator.faults import Faults
from ballast.simulator.kube.kinds import DEPLOYMENT
from ballast.simulator.kube.resources import ObjectApi
from ballast.simulator.objects import WorkloadSpec
from ballast.simulator.world import World

DARK_AFTER = 60.0
BURST_AFTER = 30.0
FEWEST_NODES = 5


def trouble(world: World, faults: Faults) -> None:
    """A node goes dark and an exporter sends NaN; not in the calm scene and that of power, nor in worlds too small."""
    if world.scene not in ("calm", "power") and len(world.node_names) >= FEWEST_NODES:
        faults.node_dark(world.dark_node, after=DARK_AFTER)
        faults.exporter_nan(world.nan_node)


def begin(world: World, resources: ObjectApi, loop: asyncio.AbstractEventLoop) -> None:
    """In the burst scene, a deployment of one pod a node arrives after half a minute of the clock."""
    if world.scene == "burst":
        loop.call_later(BURST_AFTER / world.clock.speed, _burst, world, resources)


def _burst(world: World, resources: ObjectApi) -> None:
    rush = WorkloadSpec("Deployment", "shop", "rush", len(world.node_names), 250, 256)
    document = objects.controller(rush, "Deployment", rush.name, "", resources.now())
    document["metadata"] = {"name": rush.name, "labels": rush.labels}
    resources.create(DEPLOYMENT, rush.namespace, document)
