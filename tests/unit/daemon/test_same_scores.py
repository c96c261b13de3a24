"""The daemon's scores equal those of `ballast score`, for every strategy and each of its keys."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ballast.base.errors import UsageError
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot, Window
from ballast.scoring import crane
from ballast.scoring.fleet import Fleet
from ballast.scoring.scores import Scores
from ballast.scoring.strategy import NAMES, strategy
from tests.unit.daemon.test_strategies import ExtenderWorld
from tests.unit.scoring.worlds import NOW, a_fleet, load, node, pod

AMOUNTS = {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
GPU = "nvidia.com/gpu"
MEASURED = ("cpu", "memory", "network", "disk")
MEANS = {"a": (0.5, 0.25, 0.125, 0.5), "b": (0.125, 0.375, 0.5, 0.25), "c": (0.25, 0.25, 0.75, 0.125)}
DEVIATION = 0.0625
MODEL = {name: {"k0": 10, "k1": 5, "k2": 0.03 + 0.01 * row} for row, name in enumerate(MEANS)}
STAMP = datetime.fromtimestamp(NOW - 20 + 8 * 3600, UTC).strftime(crane.STAMP)
POLICY = {
    "spec": {
        "syncPolicy": [{"name": "cpu_usage_avg_5m", "period": "5m"}],
        "priority": [{"name": "cpu_usage_avg_5m", "weight": 1}],
        "hotValue": [{"timeRange": "5m", "count": 5}],
    }
}
PROFILES = [{"requests": {"cpu": "3", "memory": "1Gi"}, "weight": 2}, {"requests": {"memory": "9Gi"}}]

NEEDED: dict[str, dict[str, Any]] = {"peaks": {"node_power_model": MODEL}, "dynamic": {"policy": crane.DEFAULT_POLICY}}
"""Keys without which a strategy cannot be made."""

CHANGED: dict[str, dict[str, Any]] = {
    "load-variation": {
        "safe_variance_margin": 3,
        "safe_variance_sensitivity": 2,
        "resources": {"cpu": 1, "memory": 0.5},
        "node_weights": {"a": {"cpu": 0.5}, "kubernetes.io/hostname": {"memory": 2}},
    },
    "target-load": {"target_utilization": 70, "default_requests": {"cpu": "5"}, "default_requests_multiplier": 3},
    "low-risk": {"smoothing_window_size": 9, "risk_limit_weights": {"cpu": 0.125, "memory": 1}},
    "peaks": {"node_power_model": {**MODEL, "b": {"k0": 1, "k1": 9, "k2": 0.125}}, "unknown": "upstream"},
    "least-allocated": {"resources": {"cpu": 3, GPU: 5}},
    "most-allocated": {"resources": {"cpu": 3, GPU: 5}},
    "requested-to-capacity": {"resources": {"memory": 4, "cpu": 1}, "shape": [[0, 10], [50, 0]], "scale": 10},
    "balanced": {"resources": {"cpu": 1, "memory": 1, "ephemeral-storage": 1}},
    "dynamic": {"policy": POLICY, "timezone": "UTC"},
    "dominant-residual": {
        "lambda": 0.5,
        "g": "linear",
        "c": 5,
        "profiles": PROFILES,
        "resources": ["cpu", GPU],
        "weigh_by": "volume",
        "devices": False,
    },
    "load-aware": {},
    "blend": {"weights": {"target-load": 1, "least-allocated": 2, "low-risk": 1}},
}
"""Values that are not the defaults, by strategy and key."""


def nodes() -> list[Any]:
    annotations = {name: f"{cpu:.5f},{STAMP}" for name, (cpu, *_) in MEANS.items()}
    metrics = crane.parse_policy(crane.DEFAULT_POLICY).periods
    return [
        node(name, {**AMOUNTS, **({GPU: "4"} if name != "b" else {})}, annotations=dict.fromkeys(metrics, annotation))
        for name, annotation in annotations.items()
    ]


def there() -> list[Any]:
    """Pods of an hour ago, one bound after the window on each of two nodes, and the one to place."""

    def at(seconds: float) -> str:
        return datetime.fromtimestamp(NOW + seconds, UTC).isoformat().replace("+00:00", "Z")

    old, late = at(-3600), at(5)
    found = [
        pod({"requests": {"cpu": "2", "memory": "8Gi"}, "limits": {"cpu": "20"}}, name="p0", on="a", scheduled=old),
        pod({"cpu": "1", "memory": "16Gi", GPU: "1"}, name="p1", on="a", scheduled=old),
        pod({"cpu": "4", "ephemeral-storage": "10Gi"}, name="p2", on="b", scheduled=old),
        pod({"cpu": "1", "memory": "1Gi"}, name="p3", on="c", scheduled=late),
        pod({}, {"cpu": "1"}, name="p4", on="b", scheduled=late),
        pod({"requests": {"cpu": "1", "memory": "2Gi", GPU: "1"}, "limits": {"memory": "4Gi"}}, name="new"),
    ]
    return [{**each, "metadata": {**each["metadata"], "namespace": "default", "uid": name_of(each)}} for each in found]


def name_of(document: Any) -> str:
    return str(document["metadata"]["name"])


def offline(name: str, keys: dict[str, Any], only: Sequence[str] = ()) -> tuple[Fleet, Scores]:
    """As `ballast score` has them."""
    watcher = load(
        **{
            name: {
                key: 100 * value
                for resource, mean in zip(MEASURED, means, strict=True)
                for key, value in ((resource, mean), (f"{resource}_std", DEVIATION))
            }
            for name, means in MEANS.items()
        }
    )
    rows = {name_of(each): each for each in nodes()}
    fleet = a_fleet([rows[each] for each in only or rows], there(), watcher)
    return fleet, strategy(name, keys).score(fleet, arriving(fleet.pods))


def arriving(pods: Sequence[Pod]) -> Pod:
    return next(each for each in pods if each.name == "new")


def taken(of: Sequence[Node], lower: float = 1.0) -> Snapshot:
    """What the daemon measured of these nodes; `lower` scales the means."""
    means = np.array(list(MEANS.values())).T * lower
    window = Window(
        "15m",
        900.0,
        means,
        np.full_like(means, DEVIATION),
        means,
        np.full_like(means, 60),
        np.ones_like(means),
        np.ones_like(means, bool),
    )
    everywhere = np.ones(len(of), bool)
    return Snapshot(
        float(NOW),
        tuple(of),
        MEASURED,
        {"15m": window},
        np.full_like(means, NOW - 5),
        np.ones_like(means),
        NodeStates.of(everywhere),
    )


def world(name: str, keys: dict[str, Any], fleet: Fleet, *earlier: Snapshot) -> ExtenderWorld:
    environment = {"BALLAST_EXTENDER__STRATEGY": name, "BALLAST_SCORING__KEYS": json.dumps({**NEEDED, name: keys})}
    first, *others = [*earlier, taken(fleet.nodes)]
    found = ExtenderWorld(first, fleet.pods, environment)
    for each in others:
        found.service.scores_of("default", "new")
        found.service.observe(each)
    return found


CASES = [
    pytest.param(name, NEEDED.get(name, {}) | keys | {"in_flight": mode}, id=f"{name}-{key or 'defaults'}-{mode}")
    for name in NAMES
    for key, keys in {"": {}, **{key: {key: value} for key, value in CHANGED.get(name, {}).items()}}.items()
    for mode in ("off", "full")
]


@pytest.mark.parametrize(("name", "keys"), CASES)
def test_the_daemon_scores_as_ballast_score_does(name: str, keys: dict[str, Any]) -> None:
    fleet, expected = offline(name, keys)
    assert not expected.unknown.all(), "its worlds measure nothing that it reads"
    document = world(name, keys, fleet).service.scores_of("default", "new")
    assert document is not None
    found = document.strategies[0]
    wanted = expected.document(name, list(MEANS))
    assert found.scores == wanted.scores
    assert list(found.raw.values()) == pytest.approx(list(wanted.raw.values()), abs=1e-6)


@pytest.mark.parametrize(("name", "keys"), CASES)
def test_it_also_does_for_some_of_the_nodes(name: str, keys: dict[str, Any]) -> None:
    if name == "dominant-residual":
        keys = keys | {"weigh_by": "count"}  # volumes are shares of the whole cluster
    fleet, _ = offline(name, keys)
    _, expected = offline(name, keys, ["c", "a"])
    service = world(name, keys, fleet).service
    state = service._state
    assert state is not None
    rows = np.array([2, 0])
    found = service._strategy(name, state).score(state.model.fleet.at(rows), arriving(fleet.pods))
    # A blend looks at the pods of the whole cluster too, of which the nodes that are named have only some.
    learns = name == "blend" or (keys.get("in_flight") == "full" and name == "load-variation")
    if learns or name == "load-aware":
        # What a pod is expected to use is learned from the whole cluster, so only the load's own scores agree.
        term = "cpu" if name == "load-variation" else "load-variation"
        if term in found.terms:
            whole = strategy(name, keys).score(fleet, arriving(fleet.pods)).terms[term]
            assert found.terms[term] == pytest.approx(whole[rows])
        return
    assert found.exact == pytest.approx(expected.exact, abs=1e-6)


def test_profiles_are_weighed_by_their_share_of_the_whole_cluster_whichever_nodes_are_asked_about() -> None:
    name, keys = "dominant-residual", {"weigh_by": "volume"}
    fleet, expected = offline(name, keys)
    assert not expected.unknown.all(), "its worlds measure nothing that it reads"
    service = world(name, keys, fleet).service
    state = service._state
    assert state is not None
    rows = np.array([2, 0])
    found = service._strategy(name, state).score(state.model.fleet.at(rows), arriving(fleet.pods))
    assert np.argsort(found.exact).tolist() == np.argsort(-np.asarray(expected.raw)[rows]).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_snapshot_before_is_left(name: str) -> None:
    keys = NEEDED.get(name, {}) | {"in_flight": "full"}
    fleet, expected = offline(name, keys)
    assert not expected.unknown.all(), "its worlds measure nothing that it reads"
    service = world(name, keys, fleet, taken(fleet.nodes, 0.5)).service
    document = service.scores_of("default", "new")
    assert document is not None
    assert document.strategies[0].scores == expected.document(name, list(MEANS)).scores


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_is_listed_with_its_keys(name: str) -> None:
    assert name in CHANGED, (
        f"Add {name!r} to CHANGED in tests/unit/daemon/test_same_scores.py, with a value that is not the default for "
        "each of its keys, or {} if it has none. If it has required keys, add them to NEEDED, too."
    )


def test_every_key_of_every_strategy_is_among_them() -> None:
    for name in CHANGED:
        with pytest.raises(Exception, match="Its keys are") as refused:
            strategy(name, NEEDED.get(name, {}) | {"zzzz": 1})
        listed = str(refused.value).partition("Its keys are ")[2].rstrip(".").split(", ")
        assert set(listed) == {*CHANGED[name], "in_flight"}


@pytest.mark.parametrize("name", NAMES)
def test_every_strategy_has_the_key_in_flight_and_checks_it(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        strategy(name, NEEDED.get(name, {}) | {"in_flight": "some"})
    assert str(refused.value) == f'{name}: in_flight cannot be "some"; choose one of off, upstream, full.'
