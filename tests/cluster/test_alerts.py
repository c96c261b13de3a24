"""Each alert of the chart, judged by promtool: it fires when it should, and is silent otherwise."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast.runtime.daemon import Daemon
from ballast_lab.harness.release import CHART
from ballast_lab.harness.tools import Tools
from ballast_lab.simulator.kube import kinds, openapi, server, store
from ballast_lab.simulator.kube.kinds import Kind
from tests.worlds.daemons import Rig, get, rig

RULES = CHART / "rules" / "alerts.yaml"


def test_the_alerts_fire_when_they_should_and_are_silent_otherwise(tools: Tools, tmp_path: Path) -> None:
    rules = tmp_path / "rules_test.yaml"
    rules.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": [case for _, _, case in ALERTS]}))
    command = [str(tools.prometheus / "promtool"), "test", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


OPTIONAL = (
    Kind("karpenter.sh", "v1", "NodeClaim", "nodeclaims", namespaced=False),
    Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects"),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False),
    Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    Kind("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers"),
)
"""What a cluster may lack."""

PRESENT = {"none": (), **{kind.plural: (kind,) for kind in OPTIONAL}, "all": OPTIONAL}


def serve(present: tuple[Kind, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters made from now on serve these optional kinds and no other."""
    usual = tuple(kind for kind in kinds.KINDS if kind.plural not in {other.plural for other in OPTIONAL})
    served = (*usual, *present)
    for module in (kinds, store, openapi):
        monkeypatch.setattr(module, "KINDS", served)
    by_path = {(kind.group, kind.version, kind.plural): kind for kind in served}
    for module in (kinds, server):
        monkeypatch.setattr(module, "BY_PATH", by_path)


@pytest.mark.parametrize(
    ("mode", "present"), [("dry-run", "none"), ("dry-run", "all"), *(("on", present) for present in PRESENT)]
)
def test_no_alert_fires_in_a_healthy_week_with_and_without_optional_kinds(
    mode: str, present: str, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two replicas of everything that is on by default, without Karpenter, KEDA, device claims and VPA, with each and
    with all: what they export in ten minutes, stretched to a week."""
    serve(PRESENT[present], monkeypatch)
    with rig(tmp_path, nodes=20) as calm:
        replicas = [calm.daemon(leads=number == 0, **PARTS, **EVICTION[mode]) for number in range(2)]
        begin = [_cycles(calm, daemon, 10) and _exported(daemon) for daemon in replicas]
        end = [_cycles(calm, daemon, 20) and _exported(daemon) for daemon in replicas]
    series = {
        f'{name[:-1]}{"," if "{" in name and not name.endswith("{}") else ""}namespace="b",pod="{number}"}}': _line(
            name, before.get(name, value), value
        )
        for number, (before, after) in enumerate(zip(begin, end, strict=True))
        for name, value in after.items()
    }
    assert len(series) > 100
    series[MODES % mode] = f"1x{7 * 86_400 // STEP}"
    firing = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1w]))'
    case = {
        "interval": f"{STEP // 60}m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": "1w", "exp_samples": []}],
    }
    rules = tmp_path / "week.yaml"
    every = f"{STEP // 60}m"
    rules.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": every, "tests": [case]}))
    command = [str(tools.prometheus / "promtool"), "test", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


PARTS = {"PUBLISHING__MODE": "on", "BATCH__MODE": "dry-run"}
EVICTION = {
    "dry-run": {"EVICTION__MODE": "dry-run"},
    "on": {"EVICTION__MODE": "on", "EVICTION__PLANNERS": "relieve,redistribute"},
}
"""Nothing is hot and nothing waits there; what rebalance brings is measured by other tests."""

STEP = 240
"""Seconds between two samples of the week."""


def _cycles(calm: Rig, daemon: Daemon, times: int) -> bool:
    for _ in range(times):
        calm.advance()
        for job in ("telemetry", "publishing", "eviction", "batch"):
            daemon.scheduler.run(job)
    return True


def _exported(daemon: Daemon) -> dict[str, float]:
    """{series: value} of Ballast's own; a series without labels ends in `{}`."""
    lines = [line for line in get(daemon, "/metrics").text.splitlines() if line.startswith("ballast_")]
    pairs = (line.rpartition(" ")[::2] for line in lines)
    return {name if name.endswith("}") else f"{name}{{}}": float(value) for name, value in pairs}


def _line(name: str, before: float, after: float) -> str:
    """A week of a series: a counter goes on as it went in twenty cycles, a gauge stays."""
    counts = name.partition("{")[0].endswith(("_total", "_count", "_sum", "_bucket"))
    growth = max(0.0, after - before) / (20 * 30.0) * STEP if counts else 0.0
    return f"{after:.6f}+{growth:.6f}x{7 * 86_400 // STEP}"


def test_each_alert_is_tried_firing_and_silent() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    known = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert {(name, fires) for name, fires, _ in ALERTS} == {(name, fires) for name in known for fires in (True, False)}


def _alert(name: str, series: Mapping[str, str], at: str, *, fires: bool | int) -> tuple[str, bool, dict[str, Any]]:
    """One case of promtool; `fires` may be the number of alerts that fire."""
    firing = f'count by (alertname) (ALERTS{{alertname="{name}",alertstate="firing"}})'
    expected = [{"labels": f'{{alertname="{name}"}}', "value": int(fires)}] if fires else []
    case = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": at, "exp_samples": expected}],
    }
    return name, bool(fires), case


HEALTHY = {"ballast_snapshot_age_seconds": "15x10", "FeedAvailable": "1x10", 'state="known"': "100x10"}
"""Where a gauge other than 0 is health, the ten minutes after the fault."""
SLOW = {"BallastEvictionsWithoutEffect"}
"""Alerts that count six hours: they stay until those are over."""


def _over(case: Mapping[str, Any]) -> dict[str, Any]:
    """The same fault, ended: counters stand still, gauges are healthy for ten minutes, one replica leads."""
    inputs, leads = [], False
    for one in case["input_series"]:
        last = re.fullmatch(r"(.* )?(\d+|_)(?:\+(\d+))?x(\d+)", one["values"])
        assert last
        base, step, count = (int(last[group] or 0) if last[group] != "_" else 0 for group in (2, 3, 4))
        healthy = next((values for part, values in HEALTHY.items() if part in one["series"]), "0x10")
        if re.search("_(total|bucket){", one["series"]):
            healthy = f"{base + step * count}x10"
        elif one["series"].startswith(("ballast_leader", "ballast_settings_info")):
            healthy = "0x10" if leads and one["series"] == WAITS else "1x10"
            leads |= "leader" in one["series"]
        inputs.append({"series": one["series"], "values": f"{one['values']} {healthy}"})
    if not leads:
        inputs.append({"series": LEADS, "values": f"_x{count} 1x10"})
    samples = sum(int(part.rpartition("x")[2]) + 1 for part in inputs[0]["values"].split())
    check = {**case["promql_expr_test"][0], "eval_time": f"{samples - 1}m", "exp_samples": []}
    return {**case, "input_series": inputs, "promql_expr_test": [check]}


def test_each_alert_is_silent_ten_minutes_after_its_fault_ended(tools: Tools, tmp_path: Path) -> None:
    rules = tmp_path / "over.yaml"
    cases = [_over(case) for name, fires, case in ALERTS if fires and name not in SLOW]
    assert len(cases) >= 25
    rules.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": cases}))
    command = [str(tools.prometheus / "promtool"), "test", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _condition(name: str, kind: str, at: str) -> list[tuple[str, bool, dict[str, Any]]]:
    """An alert that a condition raises."""
    return [_alert(name, {CONDITION % kind: f"{value}x80"}, at, fires=bool(value)) for value in (1, 0)]


LEADS = 'ballast_leader{namespace="b",pod="one"}'
WAITS = 'ballast_leader{namespace="b",pod="two"}'
ELSEWHERE = 'ballast_leader{cluster="other",namespace="b",pod="one"}'
MODES = 'ballast_settings_info{namespace="b",part="eviction",mode="%s"}'
NODES = 'ballast_nodes{namespace="b",state="%s"}'
CYCLES = 'ballast_cycles_total{namespace="b",cycle="telemetry",result="%s"}'
WRITES = 'ballast_writes_total{namespace="b",kind="node",result="%s"}'
SECONDS = 'ballast_extender_seconds_bucket{namespace="b",verb="prioritize",le="%s"}'
NEUTRAL = 'ballast_extender_neutral_total{namespace="b",reason="unknown"}'
ASKED = 'ballast_extender_requests_total{namespace="b",verb="prioritize",result="%s"}'
AGE = 'ballast_snapshot_age_seconds{namespace="b",pod="one"}'
OTHER_AGE = 'ballast_snapshot_age_seconds{namespace="b",pod="two"}'
RESTARTS = 'ballast_watch_restarts_total{namespace="b",kind="nodes",reason="%s"}'

REJECTED = 'ballast_samples_rejected_total{namespace="b",reason="stale"}'
FROZEN = 'ballast_frozen{namespace="b"}'
CONDITION = 'ballast_condition{namespace="b",type="%s"}'
UNMET = 'ballast_power_unmet_replicas{namespace="b",policy="site-a"}'
EFFECTS = 'ballast_eviction_effects_total{namespace="b",planner="relieve",result="without-effect"}'

ALERTS = [
    _alert("BallastNoLeader", {LEADS: "0x20", WAITS: "0x20", MODES % "dry-run": "1x20"}, "10m", fires=True),
    _alert("BallastNoLeader", {LEADS: "1x20", WAITS: "0x20", MODES % "dry-run": "1x20"}, "10m", fires=False),
    _alert("BallastNoLeader", {LEADS: "0x20", MODES % "off": "1x20"}, "10m", fires=False),
    _alert("BallastTwoLeaders", {LEADS: "1x20", WAITS: "1x20"}, "10m", fires=True),
    _alert("BallastStaleData", {AGE: "600x20", OTHER_AGE: "600x20"}, "10m", fires=True),
    _alert("BallastStaleData", {AGE: "600x20", OTHER_AGE: "20x20"}, "10m", fires=False),
    _alert("BallastFrozen", {FROZEN: "1x20"}, "10m", fires=True),
    _alert("BallastFrozen", {FROZEN: "0x20"}, "10m", fires=False),
    _alert("BallastWatchFailing", {RESTARTS % "forbidden": "0+2x30"}, "20m", fires=True),
    _alert("BallastWatchFailing", {RESTARTS % "ended": "0+4x30"}, "20m", fires=False),
    _alert("BallastWatchFailing", {RESTARTS % "absent": "0+4x30"}, "20m", fires=False),
    _alert("BallastSamplesRejected", {REJECTED: "0+3x40"}, "30m", fires=True),
    _alert("BallastSamplesRejected", {REJECTED: "3x40"}, "30m", fires=False),
    _alert("BallastDown", {FROZEN: "0x20"}, "10m", fires=True),
    _alert("BallastPowerFeedSilent", {CONDITION % "FeedAvailable": "0x20"}, "10m", fires=True),
    _alert("BallastPowerFeedSilent", {CONDITION % "FeedAvailable": "1x20"}, "10m", fires=False),
    _alert("BallastPowerFeedSilent", {LEADS: "1x20"}, "10m", fires=False),
    _alert("BallastPowerNotMet", {UNMET: "3x60"}, "40m", fires=True),
    _alert("BallastPowerNotMet", {UNMET: "0x60"}, "40m", fires=False),
    _alert("BallastEvictionsHalted", {CONDITION % "EvictionsHalted": "1x30"}, "20m", fires=True),
    _alert("BallastEvictionsHalted", {CONDITION % "EvictionsHalted": "0x30"}, "20m", fires=False),
    _alert("BallastEvictionsWithoutEffect", {EFFECTS: "0x10 1x10 3x20"}, "30m", fires=True),
    _alert("BallastEvictionsWithoutEffect", {EFFECTS: "0x40"}, "30m", fires=False),
    *_condition("BallastPowerCannotAct", "Degraded", "15m"),
    *_condition("BallastPowerContended", "Contended", "10m"),
    *_condition("BallastPowerWaitsForBaseline", "Rebaselined", "10m"),
    *_condition("BallastPowerOverBudget", "OverBudget", "15m"),
    *_condition("BallastPlanningFailing", "PlanningFailing", "20m"),
    *_condition("BallastPlannerStopped", "PlannerStopped", "10m"),
    *(
        _alert("BallastRateUsedUp", {CONDITION % "RateUsedUp": f"{holds}x80", MODES % mode: "1x80"}, "70m", fires=fires)
        for holds, mode, fires in ((1, "on", True), (0, "on", False), (1, "dry-run", False))
    ),
    *_condition("BallastPodsGated", "BatchGatesHeld", "10m"),
    *_condition("BallastBatchGivenUp", "BatchGivenUp", "10m"),
    *_condition("BallastStateNotSaved", "StateNotSaved", "10m"),
    *_condition("BallastSeriesDiffer", "SeriesDiffer", "20m"),
    *_condition("BallastObjectsTooLarge", "ObjectsTooLarge", "20m"),
    _alert("BallastTwoLeaders", {LEADS: "1x20", WAITS: "0x20"}, "10m", fires=False),
    _alert("BallastTwoLeaders", {LEADS: "1x20", ELSEWHERE: "1x20"}, "10m", fires=False),
    _alert("BallastDown", {LEADS: "1x20"}, "10m", fires=False),
    _alert("BallastDown", {LEADS: "1x5 _x40", ELSEWHERE: "1x60"}, "30m", fires=1),
    _alert("BallastDown", {LEADS: "1x5 _x40", ELSEWHERE: "1x5 _x40"}, "30m", fires=2),
    _alert("BallastNoLeader", {LEADS: "0x20", ELSEWHERE: "1x20", MODES % "on": "1x20"}, "10m", fires=1),
    _alert("BallastNodesUnknown", {NODES % "known": "90x40", NODES % "silent": "10x40"}, "30m", fires=True),
    _alert("BallastNodesUnknown", {NODES % "known": "99x40", NODES % "silent": "1x40"}, "30m", fires=False),
    _alert("BallastSamplesRejected", {REJECTED: "0+4x60", NODES % "known": "4999x60"}, "50m", fires=False),
    _alert("BallastSamplesRejected", {REJECTED: "0+4000x60", NODES % "known": "4000x60"}, "50m", fires=True),
    _alert("BallastCyclesFailing", {CYCLES % "failed": "0+1x40"}, "30m", fires=True),
    _alert("BallastCyclesFailing", {CYCLES % "ok": "0+1x40"}, "30m", fires=False),
    _alert("BallastWritesFailing", {WRITES % "failed": "0+1x40"}, "30m", fires=True),
    _alert("BallastWritesFailing", {WRITES % "done": "0+1x40"}, "30m", fires=False),
    _alert(
        "BallastExtenderSlow",
        {SECONDS % "0.1": "0+1x40", SECONDS % "1": "0+1x40", SECONDS % "+Inf": "0+1x40"},
        "30m",
        fires=False,
    ),
    _alert(
        "BallastExtenderSlow",
        {SECONDS % "0.1": "0+1x40", SECONDS % "1": "0+90x40", SECONDS % "+Inf": "0+90x40"},
        "30m",
        fires=True,
    ),
    _alert("BallastExtenderNeutral", {NEUTRAL: "0+8x60", ASKED % "neutral": "0+10x60"}, "40m", fires=True),
    _alert("BallastExtenderNeutral", {NEUTRAL: "0+1x60", ASKED % "answered": "0+10x60"}, "40m", fires=False),
    _alert("BallastExtenderRefuses", {ASKED % "refused": "0+1x60"}, "40m", fires=True),
    _alert("BallastExtenderRefuses", {ASKED % "answered": "0+1x60"}, "40m", fires=False),
]
