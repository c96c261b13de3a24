"""Whether a scheduler follows the labels is told from where 50 pods landed, in either case, in 20 of 20 worlds."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest

from ballast.doctor.following import NEWEST, Landing, judge, landings_of
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.sample import Floats
from ballast.model.shape import Shape
from ballast.windows.band import STEPS, label_of
from ballast_lab.simulator.kube.kinds import NODE
from ballast_lab.simulator.kube.patching import MERGE
from tests.unit.doctor.conftest import Patient

NOW = 10_000.0


@dataclass(frozen=True)
class Past:
    """[time][node] labels, one step a pod."""

    labels: list[Floats]

    def at(self, time: float) -> Floats:
        return self.labels[round(time - NOW) + len(self.labels)]


def world(
    seed: int, listens: float, *, count: int = NEWEST, nodes: int = 12, spread: float = 2.0, alike: float = 0.5
) -> list[Landing]:
    """Pods of a few workloads, placed as kube-scheduler does, the labels with weight `listens`.

    Load and requests of the nodes agree by `alike`; each pod raises the load of its node, and so lowers its label.
    """
    dice = np.random.default_rng(seed)
    total = np.tile([16.0, 64 * 2.0**30], (nodes, 1))
    full = dice.uniform(0.1, 0.6, nodes)
    load = np.clip(alike * full + (1 - alike) * dice.uniform(0.05, 0.9, nodes), 0, 1)
    fleet = [Node(f"n{i}", allocatable={"cpu": 16.0, "memory": 64 * 2.0**30, "pods": 110.0}) for i in range(nodes)]
    pods = [
        Pod("a", f"old-{i}", f"old-{i}", f"n{i}", "Running", Shape({"cpu": 16 * f, "memory": 64 * 2.0**30 * f}))
        for i, f in enumerate(full)
    ]
    taken = total * full[:, None]
    siblings = np.zeros((4, nodes))
    past: list[Floats] = []
    for number in range(count):
        label = np.array([label_of(100 * (1 - min(1.0, value))) for value in load], float)
        past.append(label)
        kind = int(dice.integers(4))
        asked = np.array([0.1 * (kind + 1), 0.25 * (4 - kind) * 2.0**30])
        share = (taken + asked) / total
        points = np.floor(100 * (1 - share)).mean(axis=1) + np.floor(100 * (1 - share.std(axis=1)))
        points += spread * 100 * (1 - siblings[kind] / max(siblings[kind].max(), 1))
        points += listens * 100 * label / label.max()
        row = int(dice.choice(np.flatnonzero(points == points.max())))
        taken[row] += asked
        siblings[kind, row] += 1
        load[row] += 0.02
        owner = Owner("ReplicaSet", f"w{kind}", f"w{kind}", controller=True)
        shape = Shape({"cpu": float(asked[0]), "memory": float(asked[1])})
        at = NOW - count + number
        pods.append(Pod("a", f"p{number}", f"p{number}", f"n{row}", "Running", shape, owner=owner, scheduled_at=at))
    assert STEPS == 24
    return landings_of(fleet, pods, Past(past), NOW)["default-scheduler"]


@pytest.mark.parametrize("spread", [0.0, 2.0])
@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_it_is_right_in_20_of_20_worlds_with_and_without_the_profile(spread: float, alike: float) -> None:
    with_it = [judge(world(seed, 1.0, spread=spread, alike=alike)).follows for seed in range(20)]
    without = [judge(world(seed, 0.0, spread=spread, alike=alike)).follows for seed in range(20)]
    assert with_it == [True] * 20
    assert without == [False] * 20


def test_a_share_has_its_interval_and_what_luck_would_give() -> None:
    result = judge(world(3, 3.0))
    assert 0 <= result.low <= result.share <= result.high <= 1
    assert 0 < result.chance < 1
    assert judge(world(3, 3.0, nodes=60)).low > judge(world(3, 0.0, nodes=60)).share


def test_few_pods_on_few_nodes_do_not_tell() -> None:
    verdicts = {judge(world(seed, 1.0, nodes=2, count=8)).follows for seed in range(10)}
    assert False not in verdicts


def landed(patient: Patient, follows: bool) -> None:
    """40 pods on the best of the nodes, or on any."""
    names = patient.cluster.world.node_names
    for index, name in enumerate(names):
        labels = {"metadata": {"labels": {"ballast.dev/score": str(4 * index)}}}
        patient.cluster.resources.patch(NODE, "", name, MERGE, labels)
    dice = np.random.default_rng(5)
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    for number in range(40):
        node = names[-1 - int(dice.integers(2))] if follows else names[int(dice.integers(len(names)))]
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
        status = {"phase": "Running", "conditions": [condition]}
        spec = {"nodeName": node, "schedulerName": "new", "containers": [container]}
        patient.create("Pod", f"p{number}", "default", spec=spec, status=status)


@pytest.mark.parametrize("follows", [True, False])
def test_the_check_asks_no_scheduler(patient: Patient, follows: bool) -> None:
    patient.cluster.faults.kube_forbidden("list", "configmaps")
    landed(patient, follows)
    report = patient.examine("scheduler-follows", PUBLISHING__MODE="on")
    finding = next(each for each in report.findings if each.subject == "new")
    assert finding.status == ("ok" if follows else "warn")
    assert isinstance(finding.share, float)
    assert finding.share > 0.9 if follows else finding.share < 0.6
    assert bool(finding.fix) != follows


def test_without_labels_nothing_is_said(patient: Patient) -> None:
    assert patient.only("scheduler-follows").status == "skipped"
    assert patient.only("scheduler-follows", PUBLISHING__MODE="on").status == "skipped"
