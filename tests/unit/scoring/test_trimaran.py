"""Every vector of Trimaran's own tests that scores something, through the files and keys a user gives."""

from typing import Any

import numpy as np
import pytest

from ballast.base.errors import UsageError
from ballast.model.sample import Floats
from ballast.scoring import load_variation, low_risk, peaks, target_load
from ballast.scoring.demand import demand
from ballast.scoring.strategy import strategy
from tests.unit.scoring.worlds import (
    a_fleet,
    a_pod,
    by_node,
    from_vector,
    node_from_vector,
    scored,
    vectors,
    watcher_from_vector,
)

Json = dict[str, Any]


@pytest.mark.parametrize(("inputs", "expected"), vectors("GetResourceRequested"))
def test_what_a_pod_requests(inputs: Json, expected: Json) -> None:
    found = demand(a_pod(from_vector(inputs["pod"])).shape).requested
    assert found == {"cpu": expected["cpu_m"], "memory": expected["memory_b"]}


@pytest.mark.parametrize(("inputs", "expected"), vectors("GetResourceLimits"))
def test_what_a_pod_is_limited_to_or_requests_if_that_is_more(inputs: Json, expected: Json) -> None:
    found = demand(a_pod(from_vector(inputs["pod"])).shape)
    assert found.limited == {
        "cpu": max(expected["cpu_m"], found.requested["cpu"]),
        "memory": max(expected["memory_b"], found.requested["memory"]),
    }


@pytest.mark.parametrize(("inputs", "expected"), vectors("CreateResourceStats"))
def test_which_entries_of_the_watcher_count(inputs: Json, expected: Json) -> None:
    node = {"allocatable": inputs["node"]["allocatable"]}
    fleet = a_fleet([node_from_vector("n", node)], (), watcher_from_vector({"n": inputs["metrics"]}))
    name = inputs["resource"]
    load = getattr(fleet, name)
    assert load.known.tolist() == [expected["valid"]]
    if expected["valid"]:
        capacity = fleet.allocatable(name) * (1.0 if name == "cpu" else 2.0**-20)
        used = (load.mean * capacity / 100).tolist(), (load.std * capacity / 100).tolist()
        assert (capacity.tolist(), *used) == ([expected["Capacity"]], [expected["UsedAvg"]], [expected["UsedStdev"]])


@pytest.mark.parametrize(("inputs", "expected"), vectors("GetNodeRequestsAndLimits"))
def test_what_a_node_is_asked_for(inputs: Json, expected: Json) -> None:
    placed = []
    for index, each in enumerate(inputs["pods_on_node"]):
        document = from_vector({**each, "name": f"p{index}"})
        document["spec"]["nodeName"] = "n"
        placed.append(document)
    fleet = a_fleet([node_from_vector("n", inputs["node"])], placed)
    asked = demand(a_pod(from_vector(inputs["pod"])).shape)
    for name, key in (("cpu", "cpu_m"), ("memory", "memory_b")):
        capacity = fleet.allocatable(name)
        assert capacity.tolist() == [expected["node_capacity"][key]]
        before, limited = fleet.placed.requested(name), fleet.placed.limited(name)
        assert np.minimum(before, capacity).tolist() == [expected["node_request_minus_pod"][key]]
        assert limited.tolist() == [expected["node_limit_minus_pod"][key]]
        assert np.minimum(before + asked.requested[name], capacity).tolist() == [expected["node_request"][key]]
        assert (limited + asked.limited[name]).tolist() == [expected["node_limit"][key]]


@pytest.mark.parametrize(("inputs", "expected"), vectors("LoadVariationRiskBalancing.Score"))
def test_load_variation(inputs: Json, expected: Json) -> None:
    args = inputs["args"]
    keys = {
        "safe_variance_margin": args["safeVarianceMargin"],
        "safe_variance_sensitivity": args["safeVarianceSensitivity"],
    }
    assert _scores("load-variation", inputs, **keys) == expected


def test_load_variation_takes_the_arguments_upstream_takes() -> None:
    [case] = vectors("LoadVariationRiskBalancing.New")
    for args in case.values[0]["args"]:
        strategy("load-variation", {_snake(name): value for name, value in args.items()})


@pytest.mark.parametrize(("inputs", "expected"), vectors("TargetLoadPacking.Score"))
def test_target_load(inputs: Json, expected: Json) -> None:
    assert _scores("target-load", inputs, **_packing(inputs["args"])) == expected


@pytest.mark.parametrize(("inputs", "expected"), vectors("TLP formula"))
def test_target_load_by_its_proposal(inputs: Json, expected: Json) -> None:
    assert target_load.target_load(np.array(inputs["predicted"], float), inputs["target"]).tolist() == expected


@pytest.mark.parametrize(("inputs", "expected"), vectors("LowRiskOverCommitment.Score"))
def test_low_risk(inputs: Json, expected: Json) -> None:
    assert _scores("low-risk", inputs) == expected


@pytest.mark.parametrize(("inputs", "expected"), vectors("computeRisk"))
def test_the_risk_of_a_resource(inputs: Json, expected: float) -> None:
    unit = "cpu_m" if inputs["resource"] == "cpu" else "memory_b"
    node = node_from_vector("n", inputs["node"])
    fleet = a_fleet([node], (), watcher_from_vector({"n": inputs["metrics"]}))
    load = getattr(fleet, inputs["resource"])
    amounts = {key: np.array([each[unit]]) for key, each in inputs["node_requests_and_limits"].items()}
    capacity = amounts["node_capacity"]
    mu, sigma = load_variation.mu_sigma(capacity, 0.0, load.mean * capacity / 100, load.std * capacity / 100)
    sigma = sigma * np.sqrt(inputs["args"]["smoothingWindowSize"])
    loaded = low_risk.load_risk(mu, sigma, amounts["node_request_minus_pod"], amounts["node_limit_minus_pod"], capacity)
    limits = low_risk.limit_risk(amounts["node_request"], amounts["node_limit"], capacity)
    assert low_risk.total_risk(inputs["args"]["riskLimitWeight"], limits, loaded).tolist() == [expected]


@pytest.mark.parametrize(("inputs", "expected"), vectors("MatchMoments"))
def test_which_moments_a_beta_distribution_has(inputs: Json, expected: bool) -> None:
    deviation = np.sqrt(max(inputs["m2"] - inputs["m1"] ** 2, 0.0))
    assert low_risk.moments(_one(inputs["m1"]), _one(deviation))[2].tolist() == [expected]


@pytest.mark.parametrize(("inputs", "expected"), vectors("NewBetaDistribution"))
def test_the_moments_lead_back_to_the_distribution(inputs: Json, expected: Json | None) -> None:
    if expected is None:
        assert low_risk.below(_one(0.5), _one(inputs["alpha"]), _one(inputs["beta"])).tolist() == [0.0]
        return
    deviation = np.sqrt(expected["m2"] - expected["m1"] ** 2)
    alpha, beta, fits = low_risk.moments(_one(expected["m1"]), _one(deviation))
    assert fits.all()
    assert (alpha[0], beta[0]) == pytest.approx((inputs["alpha"], inputs["beta"]))


@pytest.mark.parametrize(("inputs", "expected"), vectors("DistributionFunction"))
def test_the_probability_of_a_value_up_to_x(inputs: Json, expected: float) -> None:
    found = low_risk.below(_one(inputs["x"]), _one(inputs["alpha"]), _one(inputs["beta"]))
    assert found.tolist() == [pytest.approx(expected, abs=1e-12)]


@pytest.mark.parametrize(("inputs", "expected"), vectors("Peaks.Score (raw)"))
def test_peaks_raw(inputs: Json, expected: Json) -> None:
    pod = from_vector({"containers": [{"requests": {"cpu_m": inputs["pod_cpu_request_m"]}}]})
    fleet = a_fleet(
        [node_from_vector("node-1", inputs["node"])], (), watcher_from_vector(inputs["watcher"]["NodeMetricsMap"])
    )
    found = scored(fleet, pod, "peaks", node_power_model=inputs["node_power_model"], unknown="upstream")
    assert found.raw.tolist() == [pytest.approx(expected["node-1"], rel=1e-14)]


@pytest.mark.parametrize(("inputs", "expected"), vectors("Peaks.NormalizeScore"))
def test_peaks_normalised(inputs: Json, expected: list[int]) -> None:
    raw = np.array(inputs["scores"], float)
    assert peaks.normalised(raw, np.ones(len(raw), bool)).tolist() == expected


@pytest.mark.parametrize(("inputs", "expected"), vectors("getPowerModel"))
def test_a_node_without_a_power_model_costs_nothing_upstream_and_is_the_worst_here(
    inputs: Json, expected: Json
) -> None:
    assert set(expected.values()) == {0}
    nodes = [*inputs["map_has"], inputs["node"]]
    amounts = {"allocatable": {"cpu_m": 1000, "memory_b": 1024}}
    metrics = [{"type": "CPU", "operator": "AVG", "value": 20}]
    fleet = a_fleet(
        [node_from_vector(n, amounts) for n in nodes], (), watcher_from_vector(dict.fromkeys(nodes, metrics))
    )
    model = {name: {"k0": 400, "k1": -90, "k2": -0.07} for name in inputs["map_has"]}
    pod = from_vector({"containers": [{"requests": {"cpu_m": 100}}]})
    upstream = scored(fleet, pod, "peaks", node_power_model=model, unknown="upstream")
    ours = scored(fleet, pod, "peaks", node_power_model=model)
    assert by_node(fleet, upstream) == {"node-1": 0, "node-2": 100}
    assert by_node(fleet, ours) == {"node-1": 100, "node-2": 0}
    assert ours.unknown.tolist() == [False, True]


@pytest.mark.parametrize(
    "model",
    [case.values[0]["file"] for case in vectors("initNodePowerModels")]
    + [case.values[0]["args"] for case in vectors("New")]
    + [{"node-1": {"k0": 1, "k9": 2}}, {"node-1": {"k1": "many"}}, {}],
)
def test_a_power_model_that_cannot_be_used_is_refused(model: object) -> None:
    with pytest.raises(UsageError, match=r"node_power_model cannot be .*k0"):
        strategy("peaks", {"node_power_model": model})


@pytest.mark.parametrize(("inputs", "expected"), vectors("SetDefaults_*"))
def test_defaults(inputs: Json, expected: Json) -> None:
    given = {
        _snake(name): value for name, value in inputs.items() if name not in ("watcherAddress", "metricProvider_type")
    }
    if "targetUtilization" in expected:
        given["default_requests"] = {"cpu": given.pop("default_requests_cpu", "1000m")}
        found = strategy("target-load", given)
        assert found == target_load.TargetLoad(
            expected["targetUtilization"],
            int(expected["defaultRequests_cpu"].removesuffix("m")),
            float(expected["defaultRequestsMultiplier"]),
        )
    elif "safeVarianceMargin" in expected:
        found = strategy("load-variation", given)
        assert found == load_variation.LoadVariation(
            expected["safeVarianceMargin"], expected["safeVarianceSensitivity"]
        )
    else:
        weights = expected["riskLimitWeights"]
        found = strategy("low-risk", given)
        assert found == low_risk.LowRisk(expected["smoothingWindowSize"], weights["cpu"], weights["memory"])


@pytest.mark.parametrize(("inputs", "expected"), vectors("cluster placement"))
def test_pods_of_the_integration_tests_go_where_upstream_puts_them(inputs: Json, expected: Json) -> None:
    nodes = [node_from_vector(name, each) for name, each in inputs["nodes"].items()]
    watcher = watcher_from_vector(inputs["metrics"], window=inputs.get("window", {}))
    placed = []
    for index, each in enumerate(inputs.get("existing_pods", ())):
        document = from_vector({"name": f"old-{index}", "containers": [_resources(each)]})
        document["spec"]["nodeName"] = each["node"]
        placed.append(document)
    name, keys = _integration(inputs)
    for each in inputs["pods"]:
        fleet = a_fleet(nodes, placed, watcher)
        document = from_vector({"name": each["name"], "containers": [_resources(each)]})
        points = by_node(fleet, scored(fleet, document, name, **keys))
        free = fleet.allocatable("cpu") - fleet.placed.reserved("cpu")
        asked = demand(a_pod(document).shape).reserved["cpu"]
        room = {node.name for node, left in zip(fleet.nodes, free.tolist(), strict=True) if left >= asked}
        chosen = max(sorted(room), key=points.__getitem__)
        assert chosen == expected[each["name"]]
        document["spec"]["nodeName"] = chosen
        placed.append(document)


def _integration(inputs: Json) -> tuple[str, Json]:
    args = inputs.get("args", {})
    if "power" in inputs:
        model = {name: dict(zip(("k0", "k1", "k2"), each, strict=True)) for name, each in inputs["power"].items()}
        return "peaks", {"node_power_model": model}
    if "targetUtilization" in args:
        return "target-load", _packing(args)
    if "riskLimitWeights" in args:
        keys = {"smoothing_window_size": args["smoothingWindowSize"], "risk_limit_weights": args["riskLimitWeights"]}
        return "low-risk", keys
    return "load-variation", {_snake(name): value for name, value in args.items()}


def _resources(each: Json) -> Json:
    if "request" in each:
        return {"requests": each["request"], "limits": each["limit"]}
    return {"requests": {"cpu_m": each["cpu_request_m"], "memory_b": each.get("memory_b", 0)}}


def _packing(args: Json) -> Json:
    return {
        "target_utilization": args["targetUtilization"],
        "default_requests_multiplier": args["defaultRequestsMultiplier"],
        "default_requests": {"cpu": f"{args['defaultRequests_cpu_m']}m"},
    }


def _scores(name: str, inputs: Json, **keys: Any) -> dict[str, int]:
    nodes = [node_from_vector(inputs["node"]["name"], inputs["node"])]
    fleet = a_fleet(
        nodes, (), watcher_from_vector(inputs["watcher"]["NodeMetricsMap"], window=inputs.get("window", {}))
    )
    return by_node(fleet, scored(fleet, from_vector(inputs["pod"]), name, **keys))


def _one(value: float) -> Floats:
    return np.array([value], float)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
