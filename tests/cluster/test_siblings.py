"""Replicas that are apart stay apart: Ballast moves pods of drawn worlds, and a stock scheduler lands them."""

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import DEPLOYMENTS, deployment, is_ready
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.rebalancing import GIB, Size, settings, settle
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually
from ballast_lab.harness.work import Work

NODES, MEMORY, USED = 5, 64.0, 2.0
"""Nodes of a world, and GiB: of a node, and what a replica uses."""

HIGH, TARGET_HIGH = 0.8, 0.75
BATCH = int(os.environ.get("SIBLING_WORLDS", "16"))
FIRST = int(os.environ.get("SIBLING_FIRST", "1"))
SIZE = Size(nodes=BATCH * NODES, apps=BATCH, replicas=0, moves=4 * BATCH, window=5, interval=1, cpu=False)
HOSTNAME = "kubernetes.io/hostname"


@dataclass
class SiblingWorld:
    """Nodes of its own, one Deployment, and on each node a pod without owner that uses most of what is used there."""

    number: int
    replicas: int
    preference: str
    loads: list[float]
    pods: Counter[str] = field(default_factory=Counter)

    @classmethod
    def draw(cls, number: int, dice: random.Random) -> "SiblingWorld":
        loads = [dice.choice((0.3, 0.3, 0.4)) for _ in range(NODES)]
        return cls(number, dice.randint(2, 20), dice.choice(("none", "anti-affinity", "spread")), loads)

    @property
    def name(self) -> str:
        return f"web-{self.number}"

    @property
    def nodes(self) -> list[str]:
        return [f"w{self.number}-{row}" for row in range(NODES)]

    def load_of(self, row: int) -> float:
        return self.loads[row] + self.pods[self.nodes[row]] * USED / MEMORY

    def deployment(self) -> Json:
        selector: Json = {"matchLabels": {"app": self.name}}
        more: Json = {"nodeSelector": {"world": str(self.number)}}
        if self.preference == "anti-affinity":
            term = {"labelSelector": selector, "topologyKey": HOSTNAME}
            weighed = [{"weight": 100, "podAffinityTerm": term}]
            more["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighed}}
        elif self.preference == "spread":
            spread = {"maxSkew": 1, "topologyKey": HOSTNAME, "labelSelector": selector}
            more["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]
        return deployment(self.name, self.replicas, cpu="50m", memory="64Mi", **more)

    def fill(self, row: int, app: str) -> Json:
        made = pod(f"fill-{self.number}-{row}", cpu="50m", memory="64Mi", nodeName=self.nodes[row])
        return {**made, "metadata": {**made["metadata"], "labels": {"app": app}}}

    def move(self, source: str, target: str) -> str:
        """Follows a move; what is wrong with it, "" if nothing."""
        had = self.pods[source]
        free = [
            name
            for row, name in enumerate(self.nodes)
            if name != source and self.pods[name] < had and self.load_of(row) + USED / MEMORY <= TARGET_HIGH
        ]
        self.pods[source] -= 1
        self.pods[target] += 1
        stacked = self.pods[target] > had
        return f"{self}: {source} to {target}, while {free} had room" if stacked and free else ""


@pytest.mark.nightly
@pytest.mark.parametrize("planner", ["relieve", "rebalance"])
def test_no_move_stacks_replicas_while_another_node_has_room(quiet: ControlPlane, tmp_path: Path, planner: str) -> None:
    """SIBLING_WORLDS is how many at once, SIBLING_FIRST the first seed."""
    cluster, api = quiet, quiet.api
    seed = f"{planner} {FIRST}"
    dice = random.Random(seed)
    worlds = [SiblingWorld.draw(number, dice) for number in range(BATCH)]
    names = add_nodes(
        api,
        [
            node(name, memory=f"{MEMORY:g}Gi", labels={"world": str(world.number)})
            for world in worlds
            for name in world.nodes
        ],
    )
    uses = {world.name: (0.0, USED * GIB) for world in worlds}
    with scheduler(cluster, STOCK):
        for world in worlds:
            api.post(DEPLOYMENTS, world.deployment())
        for world in worlds:
            world.pods = _placed(api, world)
    for world in worlds:
        hot = max(range(NODES), key=lambda row, world=world: (world.pods[world.nodes[row]], world.loads[row]))
        world.loads[hot] = 0.88 - world.pods[world.nodes[hot]] * USED / MEMORY
        for row, load in enumerate(world.loads):
            app = f"fill-{world.number}-{row}"
            uses[app] = (0.0, load * MEMORY * GIB)
            api.post(PODS, world.fill(row, app))
    before = {world.number: world.pods.copy() for world in worlds}
    with (
        Work(api, names, (8.0, MEMORY * GIB), uses, every=0.5) as work,
        prometheus(cluster.tools, tmp_path, work.targets(), interval="1s") as server,
    ):
        settle(server, SIZE)
        told = {
            **settings(SIZE, "on"),
            "POD_NAMESPACE": "default",
            "BALLAST_PROMETHEUS__URL": server.url,
            "BALLAST_EVICTION__PLANNERS": planner,
            "BALLAST_EVICTION__CONFIRMATIONS": "1",
            "BALLAST_EVICTION__RATE": f"{6 * BATCH}/1h",
            "BALLAST_EVICTION__HIGH": f"{HIGH:g}",
            "BALLAST_EVICTION__TARGET_HIGH": f"{TARGET_HIGH:g}",
        }
        with (
            Daemon(cluster, "moves", cluster.admin_kubeconfig, told) as daemon,
            scheduler(cluster, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True),
        ):
            moves, after = _moved(api, daemon, worlds)
    wrong = []
    for world in worlds:
        own = [move for move in moves if move["pod"].startswith(f"default/{world.name}-")]
        found = [world.move(move["from"], move["landed_on"]) for move in own]
        told = [f"{move['from']} to {move['to']}, landed on {move['landed_on']} at {move['time']:.1f}" for move in own]
        wrong += [(fault, before[world.number], told) for fault in found if fault]
        assert +world.pods == after[world.number], "the moves tell the whole story"
    moved = [world for world in worlds if world.pods != before[world.number]]
    print(f"{planner}: {len(moves)} moves in {len(moved)} of {len(worlds)} worlds; {len(wrong)} wrong: {wrong}")
    assert not wrong
    assert len(moved) >= len(worlds) // 3, "few worlds had anything to move"


def _placed(api: Api, world: SiblingWorld) -> Counter[str]:
    """{node: replicas}, once all are Ready and none is ending."""

    def found() -> Counter[str] | None:
        pods = api.items(f"{PODS}?labelSelector=app={world.name}")
        ready = all("deletionTimestamp" not in each["metadata"] and is_ready(each) for each in pods)
        return Counter(each["spec"]["nodeName"] for each in pods) if ready and len(pods) == world.replicas else None

    return eventually(f"{world.replicas} pods of {world.name} are Ready", found, every=0.3)


def _moved(api: Api, daemon: Daemon, worlds: list[SiblingWorld]) -> tuple[list[Json], dict[int, Counter[str]]]:
    """The evictions in their order once the rate is used up or nothing is left to do, and the replicas then."""
    known: dict[str, Json] = {}
    polls_without = 0

    def quiet() -> bool:
        """Whether all evictions have ended, and none is new."""
        rows = daemon.get("/api/v1/evictions").json()["recent"]
        rows = [row for row in reversed(rows) if row["status"] not in ("refused", "failed")]
        fresh = [row for row in rows if row["uid"] not in known]
        known.update({row["uid"]: row for row in rows})
        return bool(known) and not fresh and all(row["status"] == "ready" for row in known.values())

    def settled() -> dict[int, Counter[str]] | None:
        nonlocal polls_without
        polls_without = polls_without + 1 if quiet() else 0
        if polls_without < 6:
            return None
        after = {world.number: _placed(api, world) for world in worlds}
        return after if quiet() else None

    after = eventually("no more moves", settled, every=1.0)
    assert after is not None
    return list(known.values()), after
