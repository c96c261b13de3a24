"""The faults and events that belong to the scene of a world."""

from __future__ import annotations

import asyncio

from ballast_lab.simulator import objects
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.kube.kinds import DEPLOYMENT
from ballast_lab.simulator.kube.resources import ObjectApi
from ballast_lab.simulator.objects import GeneratedWorkload
from ballast_lab.simulator.world import World

DARK_AFTER = 60.0
BURST_AFTER = 30.0
"""Both in seconds of the world's clock."""

FEWEST_NODES = 5
"""Smaller worlds have no faults."""


def inject_faults(world: World, faults: Faults) -> None:
    """In the scenes breathing and burst, one node goes dark after a minute and another exporter sends NaN."""
    if world.scene not in ("calm", "power", "hotspot") and len(world.node_names) >= FEWEST_NODES:
        faults.node_dark(world.dark_node, after=DARK_AFTER)
        faults.exporter_nan(world.nan_node)


def schedule_events(world: World, resources: ObjectApi, loop: asyncio.AbstractEventLoop) -> None:
    """In the scene burst, a deployment of one pod per node arrives after half a minute of the clock."""
    if world.scene == "burst":
        loop.call_later(BURST_AFTER / world.clock.speed, _burst, world, resources)


def _burst(world: World, resources: ObjectApi) -> None:
    deploy(resources, GeneratedWorkload("Deployment", "shop", "rush", len(world.node_names), 250, 256))


def deploy(resources: ObjectApi, workload: GeneratedWorkload) -> None:
    """Creates a deployment."""
    document = objects.controller(workload, "Deployment", workload.name, "", resources.now())
    document["metadata"] = {"name": workload.name, "labels": workload.labels}
    resources.create(DEPLOYMENT, workload.namespace, document)
