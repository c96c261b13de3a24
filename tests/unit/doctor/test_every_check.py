"""Every check finds a misconfiguration that was made for it, and says nothing of clusters that are well."""

import json
from collections.abc import Callable, Mapping

import msgspec
import pytest
import yaml

from ballast.answers.evictions import Plan
from ballast.answers.views import RefusalPrice
from ballast.doctor import power_meters
from ballast.doctor.checks import CHECKS
from ballast.publishing.scheduler_profiles import crane_profile, extender_profile, labels_profile, trimaran_profile
from tests.unit.doctor.conftest import Patient, wrong
from tests.unit.doctor.test_acting_checks import autoscaler, power, target
from tests.unit.doctor.test_cluster_checks import ago
from tests.unit.doctor.test_doctor import SEEDED
from tests.unit.doctor.test_pairing_checks import (
    BALANCE,
    CRANE,
    EXTENDER,
    LOAD,
    ON,
    SCORE,
    WATCHER,
    deployment,
    scheduler,
    scored,
    service,
)
from tests.unit.doctor.test_scheduler_follows import landed

Settings = Mapping[str, str]
Seed = Callable[[Patient], Settings]
EVICTING = {"EVICTION__MODE": "on"}


def hidden_times(_: Patient) -> Settings:
    rules = {"cpu": "instance:node_cpu:ratio", "memory": "instance:node_memory_utilisation:ratio"}
    hidden = {
        name: {"query": f"max by (instance) ({rule})", "freshness": "max by (instance) (timestamp(nobody_stores_this))"}
        for name, rule in rules.items()
    }
    return {"TELEMETRY__RESOURCES": json.dumps(hidden)}


def silent_api(patient: Patient) -> Settings:
    patient.cluster.faults.kube_reset()
    return {}


def missing_right(patient: Patient) -> Settings:
    patient.cluster.faults.kube_forbidden("watch", "nodes")
    return {}


def missing_right_to_evict(patient: Patient) -> Settings:
    patient.cluster.faults.kube_forbidden("create", "pods/eviction")
    return EVICTING


def keeping(patient: Patient) -> Settings:
    price = RefusalPrice(3, 0.75, "BALLAST_EVICTION__LOCAL_STORAGE=allow")
    plan = {"id": "1", "time": 1.0, "mode": "on", "kind": "relieve", "steps": [], "before": {}, "after": {},
            "refused": {}, "placed": [], "verdicts": [], "sentence": "",
            "prices": {"local-storage": price}}  # fmt: skip
    patient.plans = lambda: [msgspec.convert(msgspec.to_builtins(plan), Plan)]
    return EVICTING


def dead_leader(patient: Patient) -> Settings:
    patient.lease("ballast-0_aa", ago(3600))
    return {}


def other_ballast(patient: Patient) -> Settings:
    patient.lease("other-0_aa", ago(1), "default")
    return {}


def unwritten_labels(patient: Patient) -> Settings:
    scheduler(patient, labels_profile("ballast.dev", "by-labels"))
    return {}


def other_prefix(patient: Patient) -> Settings:
    scored(patient)
    scheduler(patient, labels_profile("load.example", "by-labels"))
    return ON


def wrong_extender(patient: Patient) -> Settings:
    service(patient, "ballast-extender")
    document = yaml.safe_load(extender_profile(EXTENDER, "by-extender"))
    document["extenders"][0]["urlPrefix"] = f"{EXTENDER}/"
    scheduler(patient, yaml.safe_dump(document))
    return {}


def wrong_watcher(patient: Patient) -> Settings:
    service(patient, "ballast")
    scheduler(patient, trimaran_profile("http://ballast.ballast:9090", "by-trimaran"))
    return {}


def unwritten_annotations(patient: Patient) -> Settings:
    scheduler(patient, crane_profile("by-crane", "UTC"))
    return ON


def balancing(patient: Patient) -> Settings:
    deployment(patient, "cluster-autoscaler", "kube-system", command=["./cluster-autoscaler", BALANCE])
    return ON


def silent_feed(patient: Patient) -> Settings:
    patient.cluster.faults.power_silent()
    return power(patient)


def unknown_consumption(patient: Patient) -> Settings:
    return power(patient, consumption={"url": "http://127.0.0.1:9/watts"})


@pytest.fixture(autouse=True)
def site_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated site has one meter."""
    monkeypatch.setattr(power_meters, "METERS", (power_meters.Meter("the site", "simulated_drawn_watts"),))


def nobody_to_scale(patient: Patient) -> Settings:
    return power(patient, "prod/nobody")


def two_autoscalers(patient: Patient) -> Settings:
    for name in ("one", "two"):
        autoscaler(patient, name, target(patient))
    return power(patient)


def strict_budget(patient: Patient) -> Settings:
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"a": "b"}}}
    patient.create("PodDisruptionBudget", "all", "default", spec=spec)
    return {}


def unsteered(_: Patient) -> Settings:
    return EVICTING


def nobody_listens(patient: Patient) -> Settings:
    landed(patient, follows=False)
    return ON


def open_extender(patient: Patient) -> Settings:
    patient.pod()
    return {}


MADE: Mapping[str, tuple[str, Seed]] = {
    "hidden times of samples": ("freshness", hidden_times),
    "an API server that resets": ("kubernetes-reachable", silent_api),
    "a right that lacks": ("rbac", missing_right),
    "a right that evictions lack": ("rbac", missing_right_to_evict),
    "a Lease that nobody renews": ("lease", dead_leader),
    "a Ballast in another namespace": ("second-ballast", other_ballast),
    "labels that nobody writes": ("pairing-labels", unwritten_labels),
    "labels of another prefix": ("pairing-labels", other_prefix),
    "an extender at a wrong path": ("pairing-extender", wrong_extender),
    "a watcher at a wrong port": ("pairing-trimaran", wrong_watcher),
    "annotations that nobody writes": ("pairing-crane", unwritten_annotations),
    "node groups that differ by score": ("autoscaler-labels", balancing),
    "labels that nobody reads": ("scheduler-follows", nobody_listens),
    "a feed that is silent": ("power-feed", silent_feed),
    "a consumption that nobody answers": ("power-consumption", unknown_consumption),
    "a policy without a meter": ("power-metered", power),
    "a target that is not there": ("power-targets", nobody_to_scale),
    "two autoscalers of one target": ("power-autoscalers", two_autoscalers),
    "a budget that allows nothing": ("budgets-unsatisfiable", strict_budget),
    "evictions that nobody steers": ("eviction-landing", unsteered),
    "a check that keeps hot pods": ("eviction-prices", keeping),
    "an extender that is open to all": ("extender-open", open_extender),
}


@pytest.mark.parametrize(("check", "seed"), [pytest.param(*each, id=name) for name, each in MADE.items()])
def test_what_was_made_wrong_is_found_among_all_checks(patient: Patient, check: str, seed: Seed) -> None:
    found = wrong(patient.examine(**seed(patient)))
    assert check in found, found
    assert found[check].fix
    assert found[check].message


def test_every_check_has_its_misconfiguration() -> None:
    made = [check for check, _ in MADE.values()] + [check for _, _, _, check, _ in SEEDED.values()]
    assert len(made) >= 25
    assert set(made) == set(CHECKS)


def as_installed(_: Patient) -> Settings:
    return {}


def running(patient: Patient) -> Settings:
    patient.pod()
    patient.lease("ballast-0_aa", ago(1))
    policy = {"ports": [{"port": "http"}], "from": [{"podSelector": {}}]}
    patient.create("NetworkPolicy", "ballast", spec={"podSelector": {}, "ingress": [policy]})
    scored(patient)
    scheduler(patient, labels_profile("ballast.dev", "by-labels"))
    return ON


def evicting(patient: Patient) -> Settings:
    service(patient, "ballast-extender")
    scheduler(patient, extender_profile(EXTENDER, "by-extender"))
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    patient.create("PodDisruptionBudget", "some", "default", spec=spec)
    return EVICTING


def following_power(patient: Patient) -> Settings:
    feed = {"url": patient.cluster.power_url, "jsonPath": "$.watts", "timePath": "$.time"}
    autoscaler(patient, "one", target(patient))
    return power(patient, consumption=feed)


def beside_others(patient: Patient) -> Settings:
    patient.cluster.faults.prometheus_labels({"instance": "{node}.prod.example.com:9100", "cluster": "prod"})
    scored(patient)
    service(patient, "ballast")
    scheduler(patient, trimaran_profile(WATCHER, "by-trimaran"), "one")
    scheduler(patient, crane_profile("by-crane", "UTC"), "two")
    deployment(patient, "cluster-autoscaler", "kube-system", args=[BALANCE, SCORE, LOAD])
    return CRANE


@pytest.mark.parametrize("well", [as_installed, running, evicting, following_power, beside_others])
def test_nothing_is_found_in_a_cluster_that_is_well(patient: Patient, well: Seed) -> None:
    assert not wrong(patient.examine(**well(patient)))
