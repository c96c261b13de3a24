"""The four strategies of Trimaran against a reading of upstream's code, one node at a time, in plain numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betainc

from ballast.cli.metrics_file import metrics
from ballast.model.load_limits import quantity
from ballast.scoring import low_risk
from tests.properties import examples
from tests.unit.scoring.worlds import NOW, a_fleet, load, node, pod, scored, vectors

Json = Mapping[str, Any]
LETTERS = "abcd"
MODEL = {name: {"k0": 400.0, "k1": -90.0 - row, "k2": -0.07} for row, name in enumerate(LETTERS)}


def round_(value: float) -> int:
    return math.floor(abs(value) + 0.5) * (1 if value >= 0 else -1)


def clip(value: float) -> float:
    return max(min(value, 1.0), 0.0)


def whole(name: str, text: object) -> int:
    number = quantity(str(text))
    return round(number * 1000) if name == "cpu" else round(number)


def sums(document: Json, part: str, name: str) -> int:
    return sum(whole(name, each["resources"].get(part, {}).get(name, 0)) for each in document["spec"]["containers"])


def asked(document: Json, name: str) -> tuple[int, int]:
    """(request, limit at least the request), once a limit has filled a missing request."""
    request = sum(
        whole(name, each["resources"].get("requests", {}).get(name, each["resources"].get("limits", {}).get(name, 0)))
        for each in document["spec"]["containers"]
    )
    return request, max(sums(document, "limits", name), request)


def load_variation(entries: Json, amounts: Json, arriving: Json, margin: float, sensitivity: float) -> int:
    found = {}
    for name, unit in (("cpu", 1.0), ("memory", 1 / 1024 / 1024)):
        if name in entries or f"{name}_std" in entries:
            capacity = whole(name, amounts[name]) * unit
            request = asked(arriving, name)[0] * unit
            average = min(max(entries.get(name, 0.0) * capacity / 100, 0.0), capacity)
            deviation = min(max(entries.get(f"{name}_std", 0.0) * capacity / 100, 0.0), capacity)
            mu, sigma = clip((average + request) / capacity), clip(deviation / capacity)
            sigma = clip(math.pow(sigma, 1 / sensitivity) * margin)
            found[name] = (1 - (mu + sigma) / 2) * 100
    if len(found) == 2:
        return round_(min(found.values()))
    return round_(max(found.values(), default=0.0))


def target_load(entries: Json, amounts: Json, arriving: Json, target: float) -> int:
    if "cpu" not in entries:
        return 0
    total = 0
    for each in arriving["spec"]["containers"]:
        limits, requests = each["resources"].get("limits", {}), each["resources"].get("requests", {})
        if "cpu" in limits:
            total += whole("cpu", limits["cpu"])
        elif "cpu" in requests:
            total += round_(whole("cpu", requests["cpu"]) * 1.5)
        else:
            total += 1000
    capacity = float(whole("cpu", amounts["cpu"]))
    predicted = 100 * ((entries["cpu"] / 100) * capacity + float(total)) / capacity
    if predicted > target:
        return 0 if predicted > 100 else round_(target * (100 - predicted) / (100 - target))
    return round_((100 - target) * predicted / target + target)


def risk(
    name: str, entries: Json, amounts: Json, placed: Sequence[Json], arriving: Json, window: int, w: float
) -> float:
    capacity = whole(name, amounts[name])
    before = [asked(each, name) for each in placed]
    request_minus, limit_minus = (sum(each[part] for each in before) for part in (0, 1))
    request = min(request_minus + asked(arriving, name)[0], capacity)
    limit = limit_minus + asked(arriving, name)[1]
    request_minus = min(request_minus, capacity)
    limit_risk = (limit - capacity) / (limit - request) if limit > capacity else 0.0
    load_risk = 0.0
    if name in entries or f"{name}_std" in entries:
        unit = 1.0 if name == "cpu" else 1 / 1024 / 1024
        mu = clip(entries.get(name, 0.0) * (capacity * unit) / 100 / (capacity * unit))
        sigma = clip(entries.get(f"{name}_std", 0.0) * (capacity * unit) / 100 / (capacity * unit)) * math.sqrt(window)
        sigma = min(sigma, math.sqrt((mu * (1 - mu) if 0 < mu < 1 else 0.0) * 0.99))
        threshold = clip(request_minus / capacity)
        fitted = None
        if mu == 0 or (sigma == 0 and mu <= threshold):
            within = 1.0
        elif sigma == 0:
            within = 0.0
        else:
            variance = sigma * sigma + mu * mu - mu * mu
            if variance <= 0 or variance >= mu * (1 - mu):
                within = 0.0
            else:
                total = mu * (1 - mu) / variance - 1
                fitted = (mu * total, (1 - mu) * total)
                within = float(betainc(*fitted, threshold))
        if limit_minus < capacity and request_minus <= limit_minus:
            share = limit_minus / capacity
            if share == 0:
                within = 1.0
            elif fitted is not None:
                bound = float(betainc(*fitted, share))
                if bound > 0:
                    within = clip(within / bound)
        load_risk = 1 - within
    return clip(w * limit_risk + (1 - w) * load_risk)


def low_risk_score(entries: Json, amounts: Json, placed: Sequence[Json], arriving: Json, window: int, w: float) -> int:
    if not entries or not any(asked(arriving, name)[1] for name in ("cpu", "memory")):
        return 0
    risks = [risk(name, entries, amounts, placed, arriving, window, w) for name in ("cpu", "memory")]
    return round_((1 - max(risks)) * 100)


def peaks(entries: Mapping[str, Json], amounts: Mapping[str, Json], arriving: Json) -> dict[str, int]:
    raw = {}
    for name, capacity in ((name, float(whole("cpu", each["cpu"]))) for name, each in amounts.items()):
        raw[name] = 0
        if "cpu" in entries.get(name, {}):
            now = entries[name]["cpu"]
            then = 100 * ((now / 100) * capacity + float(asked(arriving, "cpu")[0])) / capacity
            if then <= 100:
                k1, k2 = MODEL[name]["k1"], MODEL[name]["k2"]
                raw[name] = int(k1 * (math.exp(k2 * then) - math.exp(k2 * now)) * math.pow(10, 15))
    least, most = min(raw.values()), max(raw.values())
    if least == most == 0:
        return raw
    if least == most:
        return dict.fromkeys(raw, 100)
    return {name: 100 - int(100.0 * float(each - least) / float(most - least)) for name, each in raw.items()}


cpu = st.integers(0, 9_000).map(lambda value: f"{value}m")
memory = st.integers(0, 2**34).map(str)
resources = st.fixed_dictionaries({}, optional={"cpu": cpu, "memory": memory})
containers = st.lists(st.fixed_dictionaries({"requests": resources, "limits": resources}), min_size=1, max_size=2)
percent = st.one_of(st.floats(0, 110), st.integers(0, 100).map(float))
entries_ = st.fixed_dictionaries(
    {}, optional={"cpu": percent, "cpu_std": percent, "memory": percent, "memory_std": percent}
)
size = st.fixed_dictionaries(
    {"cpu": st.integers(1, 64_000).map(lambda value: f"{value}m"), "memory": st.integers(1, 2**36).map(str)}
)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[Any], Any]:
    names = LETTERS[: draw(st.integers(1, 4))]
    allocatable, capacity = ({name: draw(size) for name in names} for _ in range(2))
    entries = {name: draw(entries_) for name in names}
    placed = [
        pod(*draw(containers), name=f"p{i}", on=draw(st.sampled_from(names))) for i in range(draw(st.integers(0, 3)))
    ]
    return allocatable, capacity, entries, placed, pod(*draw(containers))


@examples(120)
@given(
    given=fleets(),
    margin=st.sampled_from([1.0, 0.5, 2.0]),
    sensitivity=st.sampled_from([1.0, 2.0]),
    target=st.sampled_from([40, 70, 100]),
    window=st.integers(1, 9),
    weight=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
)
def test_every_node_scores_as_upstream_would(
    given: Any, margin: float, sensitivity: float, target: int, window: int, weight: float
) -> None:
    allocatable, capacity, entries, placed, arriving = given
    fleet = a_fleet([node(name, allocatable[name], capacity[name]) for name in allocatable], placed, load(**entries))
    on = {name: [each for each in placed if each["spec"]["nodeName"] == name] for name in allocatable}
    found = {
        "load-variation": scored(
            fleet, arriving, "load-variation", safe_variance_margin=margin, safe_variance_sensitivity=sensitivity
        ),
        "target-load": scored(fleet, arriving, "target-load", target_utilization=target),
        "low-risk": scored(
            fleet,
            arriving,
            "low-risk",
            smoothing_window_size=window,
            risk_limit_weights={"cpu": weight, "memory": weight},
        ),
        "peaks": scored(fleet, arriving, "peaks", node_power_model=MODEL, unknown="upstream"),
    }
    expected = {
        "load-variation": [
            load_variation(entries[name], allocatable[name], arriving, margin, sensitivity) for name in allocatable
        ],
        "target-load": [target_load(entries[name], capacity[name], arriving, target) for name in allocatable],
        "low-risk": [
            low_risk_score(entries[name], allocatable[name], on[name], arriving, window, weight) for name in allocatable
        ],
        "peaks": list(peaks(entries, capacity, arriving).values()),
    }
    assert {name: scores.scores.tolist() for name, scores in found.items()} == expected


@pytest.mark.parametrize(("inputs", "expected"), vectors("GetMaxVariance"))
def test_the_largest_variance_of_a_mean(inputs: Json, expected: float) -> None:
    assert low_risk.largest_variance(np.array([float(inputs["m1"])])).tolist() == [expected]


@pytest.mark.parametrize(("inputs", "expected"), vectors("getAllMetrics") + vectors("GetNodeMetrics"))
def test_metrics_are_read_as_upstream_serves_them(inputs: Json, expected: Json) -> None:
    served = inputs["served"]["NodeMetricsMap"]
    document = {
        "timestamp": NOW,
        "data": {"NodeMetricsMap": {name: {"metrics": each} for name, each in served.items()}},
    }
    found = metrics(document).nodes.get("node-1")
    wanted = expected["metrics"] if "metrics" in expected else expected["node-1"]
    if wanted is None:
        assert found is None
    else:
        assert [(each.kind, each.operator, each.percent) for each in found or ()] == [
            (each["type"], each["operator"], each["value"]) for each in wanted
        ]
