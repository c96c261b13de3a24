"""A stock kube-scheduler reads the score labels through the printed profile."""

import random
import statistics
from collections import Counter
from collections.abc import Mapping

import pytest
import yaml

from ballast.publishing.scheduler_profiles import labels_profile
from ballast.scoring.load_variation import label_score
from ballast.windows.band import label_of
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.objects import PODS, add_nodes, node, placements, pod, set_labels, sweep
from ballast_lab.harness.scheduler import STOCK, plugin_scores, scheduler
from ballast_lab.harness.waiting import eventually

LABEL = "ballast.dev/score"
OURS = "ballast-labels"


def _scored(scores: Mapping[str, int]) -> list[dict[str, object]]:
    return [node(name, labels={LABEL: str(score)}) for name, score in scores.items()]


def _schedule(cluster: ControlPlane, *pods: dict[str, object]) -> dict[str, str]:
    names = [cluster.api.post(PODS, each)["metadata"]["name"] for each in pods]
    return placements(cluster.api, names)


def test_pods_go_where_the_label_says_there_is_room_and_follow_it_when_it_moves(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, [*_scored({"two": 2, "nine": 9, "five": 5, "zero": 0, "seven": 7}), node("unlabelled")])
    with scheduler(cluster, labels_profile("ballast.dev", OURS)):
        first = _schedule(cluster, *(pod(f"first-{i}", cpu="10m", memory="1Mi", scheduler=OURS) for i in range(10)))
        assert set(first.values()) == {"nine"}

        set_labels(cluster.api, "five", {LABEL: "10"})

        def next_goes_to_five(names: list[int] = []) -> bool:  # noqa: B006  the scheduler's own watch has to see the label
            names.append(0)
            probe = pod(f"probe-{len(names)}", cpu="10m", memory="1Mi", scheduler=OURS)
            return set(_schedule(cluster, probe).values()) == {"five"}

        eventually("a pod follows the label", next_goes_to_five)


def test_the_weights_are_those_printed_and_the_default_plugins_stay(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, _scored({"best": 8, "half": 4, "none": 0}))
    with scheduler(cluster, labels_profile("ballast.dev", OURS), verbosity=10) as process:
        _schedule(cluster, pod("one", scheduler=OURS))
        scores = eventually("the scores are in the log", lambda: plugin_scores(process, "one"))
    affinity = {where: score for (plugin, where), score in scores.items() if plugin == "NodeAffinity"}
    assert affinity == {"best": 100, "half": 50, "none": 0}
    assert 66 < scores["NodeResourcesFit", "best"] <= 100
    assert 0 < scores["NodeResourcesBalancedAllocation", "best"] <= 100
    assert scores["TaintToleration", "best"] == 300


def test_a_preference_of_the_pod_itself_with_weight_50_still_wins(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, _scored({"best": 10, "good": 8, "wanted": 0}))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["wanted"]}]}
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": term}]}
    }
    with scheduler(cluster, labels_profile("ballast.dev", OURS)):
        placed = _schedule(cluster, pod("choosy", scheduler=OURS, affinity=affinity), pod("easy", scheduler=OURS))
    assert placed == {"choosy": "wanted", "easy": "best"}


def test_another_prefix_is_read_instead(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, [node("a", labels={LABEL: "9"}), node("b", labels={"example.org/score": "9"})])
    with scheduler(cluster, labels_profile("example.org", "default-scheduler")):
        assert _schedule(cluster, pod("one")) == {"one": "b"}


def _weights(affinity: int, fit: int) -> str:
    document = yaml.safe_load(labels_profile("ballast.dev", "default-scheduler"))
    document["profiles"][0]["plugins"]["score"]["enabled"] = [
        {"name": "NodeAffinity", "weight": affinity},
        {"name": "NodeResourcesFit", "weight": fit},
    ]
    return yaml.safe_dump(document)


NODES, PODS_IN_BURST, CORES, REQUEST = 25, 150, 16, 0.5
PROFILES = {
    "stock": STOCK,
    "labels 1, fit 1 (printed)": labels_profile("ballast.dev", "default-scheduler"),
    "labels 2, fit 1": _weights(2, 1),
    "labels 4, fit 1": _weights(4, 1),
}


def test_labels_herd_and_the_printed_profile_herds_least(
    cluster: ControlPlane, record_property: pytest.FixtureRequest
) -> None:
    """A burst while the labels stand still. Only directions: tie-breaking of the scheduler is random."""
    dice = random.Random(7)
    load = {f"n{i}": dice.random() * 0.7 for i in range(NODES)}
    busiest, spread = {}, {}
    for name, configuration in PROFILES.items():
        sweep(cluster.api)
        add_nodes(
            cluster.api,
            [
                node(each, cpu=str(CORES), labels={LABEL: str(label_of(float(label_score(used))))})
                for each, used in load.items()
            ],
        )
        with scheduler(cluster, configuration):
            placed = _schedule(cluster, *(pod(f"p{i}", cpu="500m", memory="1Gi") for i in range(PODS_IN_BURST)))
        count = Counter(placed.values())
        busiest[name] = max(count.values())
        spread[name] = statistics.pstdev(used + count[each] * REQUEST / CORES for each, used in load.items())
        print(f"{name}: busiest {busiest[name]}, sd of real load {spread[name]:.4f}")
    print(f"fair {PODS_IN_BURST / NODES:g}, sd before {statistics.pstdev(load.values()):.4f}")

    stock, printed, stronger, strongest = PROFILES
    assert busiest[stock] < busiest[printed] < busiest[stronger] <= busiest[strongest]
    assert spread[printed] < spread[stock]
    assert spread[printed] < spread[strongest]
