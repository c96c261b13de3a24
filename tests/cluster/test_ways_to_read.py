"""The ways to read scores that need no extender's profile of their own, each against real binaries."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from ballast.publishing.scheduler_profiles import bin_packing_profile, extender_profile, trimaran_profile
from ballast.scoring.strategy import NAMES
from ballast_lab.harness.api import Json
from ballast_lab.harness.chart import Installed, install, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, node, placements, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.scheduler import STOCK, plugin_scores, scheduler
from ballast_lab.harness.waiting import HUNG, eventually
from tests.unit.serving.gojay import parse_float

LOADS = {"n0": 0.2, "n1": 0.4, "n2": 0.6}
POLICY = {
    "apiVersion": "scheduler.policy.crane.io/v1alpha1",
    "kind": "DynamicSchedulerPolicy",
    "spec": {
        "syncPolicy": [{"name": f"{of}_usage_avg_5m", "period": "3m"} for of in ("cpu", "mem")],
        "priority": [{"name": f"{of}_usage_avg_5m", "weight": 0.5} for of in ("cpu", "mem")],
        "hotValue": [{"timeRange": "5m", "count": 5}, {"timeRange": "1m", "count": 2}],
    },
}
CRANE = {
    "admissionPolicy": {"enabled": True},
    "settings": {"prometheus": {"url": "http://127.0.0.1:9090"}, "publishing": {"mode": "on", "crane": True}},
}


@pytest.fixture
def craned(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with publishing and crane on, and its admission policy."""
    yield install(cluster, CRANE)
    uninstall(cluster, CRANE)


@contextmanager
def ballast(cluster: ControlPlane, installed: Installed, folder: Path, **settings: str) -> Iterator[Daemon]:
    """A daemon that knows LOADS of cpu and memory, under the account and the rights of the chart."""
    with Machines(LOADS) as machines:
        for name, load in LOADS.items():
            machines[name].cpu = machines[name].memory = load
        with prometheus(cluster.tools, folder, machines.targets()) as server:
            given = {**installed.settings, **FAST, "POD_NAMESPACE": installed.namespace, **settings}
            given |= {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_LEASE__ENABLED": "false"}
            kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
            with Daemon(cluster, "ways", kubeconfig, given) as daemon:
                eventually("Ballast knows every node", lambda: _known(daemon), every=0.5)
                yield daemon


def _known(daemon: Daemon) -> bool:
    values = {name: value for name, _, value in daemon.samples()}
    values["ballast_nodes"] = sum(value for name, _, value in daemon.samples() if name == "ballast_nodes")
    wanted = {"ballast_nodes": len(LOADS), "ballast_nodes_unknown": 0, "ballast_frozen": 0}
    return all(values.get(name) == value for name, value in wanted.items())


def test_the_bin_packing_profile_fills_one_node_after_the_other(cluster: ControlPlane) -> None:
    add_nodes(cluster.api, [node(f"n{number}", cpu="8", memory="32Gi") for number in range(6)])
    names = [f"p{number:02d}" for number in range(20)]
    with scheduler(cluster, bin_packing_profile("default-scheduler")):
        for name in names:
            cluster.api.post(PODS, pod(name, cpu="1", memory="1Gi"))
        placed = Counter(placements(cluster.api, names).values())
    assert sorted(placed.values()) == [4, 8, 8], "20 pods of 1 core fit on 3 nodes of 8; the others stay empty"


def test_crane_s_annotations_on_the_real_api_server(cluster: ControlPlane, craned: Installed, tmp_path: Path) -> None:
    add_nodes(cluster.api, [node(name) for name in LOADS])
    cluster.api.patch("/api/v1/nodes/n0", {"metadata": {"annotations": {"team": "blue", "cpu_usage_active": "0.1,x"}}})
    policy = tmp_path / "policy.yaml"
    policy.write_text(yaml.safe_dump(POLICY))
    crane = {"BALLAST_PUBLISHING__CRANE": "true", "BALLAST_PUBLISHING__CRANE_POLICY_FILE": str(policy)}
    before = cluster.audit.here()
    names = [f"p{number}" for number in range(5)]
    with ballast(cluster, craned, tmp_path, **crane, BALLAST_PUBLISHING__CRANE_TIMEZONE="UTC") as daemon:
        first = eventually("every node is annotated", lambda: _annotated(cluster), every=0.5)
        for name, load in LOADS.items():
            for key in ("cpu_usage_avg_5m", "mem_usage_avg_5m"):
                number, stamp = first[name][key].split(",")
                assert re.fullmatch(r"\d+\.\d{5}", number)
                assert datetime.now(UTC) - _time(stamp) < timedelta(minutes=2)
            assert float(first[name]["mem_usage_avg_5m"].split(",")[0]) == pytest.approx(load, abs=0.001)
            assert first[name]["node_hot_value"].startswith("0,")
        with scheduler(cluster, STOCK):
            for name in names:
                cluster.api.post(PODS, pod(name, cpu="100m", nodeSelector={"kubernetes.io/hostname": "n1"}))
            placements(cluster.api, names)
        eventually("bindings make n1 hot", lambda: _hot(cluster, "n1") >= 1 + 2)
        assert daemon.stop() == 0
    calls = [call for call in cluster.audit.calls(user=craned.user, since=before) if call.resource == "nodes"]
    patches = [call for call in calls if call.verb == "patch"]
    assert not [call for call in calls if call.forbidden]
    touched = {key for call in patches for key in call.request["metadata"].get("annotations", {})}
    assert touched == {"cpu_usage_avg_5m", "mem_usage_avg_5m", "node_hot_value", "ballast.dev/window"}
    assert len([call for call in patches if "node_hot_value" in str(call.request)]) <= len(LOADS) + 4

    _release(cluster.account_kubeconfig(craned.namespace, craned.account), crane)
    carried = cluster.api.get("/api/v1/nodes/n0")["metadata"]["annotations"]
    assert {"team", "cpu_usage_active"} <= carried.keys()
    assert not {"cpu_usage_avg_5m", "mem_usage_avg_5m", "node_hot_value"} & carried.keys()


def _annotated(cluster: ControlPlane) -> dict[str, dict[str, str]]:
    found = {
        each["metadata"]["name"]: each["metadata"].get("annotations", {}) for each in cluster.api.items("/api/v1/nodes")
    }
    assert all("node_hot_value" in each and "cpu_usage_avg_5m" in each for each in found.values()), found
    return found


def _hot(cluster: ControlPlane, name: str) -> int:
    """5 bindings within 5 minutes make a point, and 2 within one; Ballast's own pods may be there too."""
    return int(_annotated(cluster)[name]["node_hot_value"].split(",")[0])


def _time(stamp: str) -> datetime:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _release(kubeconfig: Path, settings: Mapping[str, str]) -> None:
    environment = {"PATH": os.environ["PATH"], "BALLAST_CLUSTER__KUBECONFIG": str(kubeconfig), **settings}
    subprocess.run([sys.executable, "-m", "ballast", "release", "publishing"], env=environment, check=True)


def test_a_scheduler_may_ask_for_any_strategy(cluster: ControlPlane, craned: Installed, tmp_path: Path) -> None:
    add_nodes(cluster.api, [node(name) for name in LOADS])
    model = {name: {"k0": 100, "k1": 20 + 5 * row, "k2": 0.01} for row, name in enumerate(LOADS)}
    keys = {"BALLAST_SCORING__KEYS": json.dumps({"peaks": {"node_power_model": model}})}
    with ballast(cluster, craned, tmp_path, **keys, BALLAST_PUBLISHING__CRANE="true") as daemon:
        eventually("crane's annotations are there", lambda: _annotated(cluster), every=0.5)
        eventually("Ballast has seen them", lambda: _decides(daemon, "dynamic"), every=0.5)
        for strategy in NAMES:
            document = yaml.safe_load(extender_profile(daemon.url, "default-scheduler"))
            document["extenders"][0]["prioritizeVerb"] = f"prioritize?profile={strategy}"
            eventually(f"{strategy} decides", partial(_decides, daemon, strategy))
            done = _decisions(daemon)
            names = [f"{strategy}-{number}" for number in range(4)]
            with scheduler(cluster, yaml.safe_dump(document), patient=True):
                for name in names:
                    cluster.api.post(PODS, pod(name, cpu="100m", memory="64Mi"))
                placements(cluster.api, names)
            eventually(f"the decisions of {strategy} came true", partial(_came_true, daemon, done + len(names)))


def _came_true(daemon: Daemon, count: int) -> bool:
    return _decisions(daemon) >= count


def _decides(daemon: Daemon, strategy: str) -> bool:
    asking: Any = {"metadata": {"name": "asks", "namespace": "default", "uid": ""}, "spec": {"containers": [{}]}}
    with requests.Session() as session:
        session.trust_env = False
        address = f"{daemon.url}/scheduler/prioritize?profile={strategy}"
        answer = session.post(address, json={"Pod": asking, "NodeNames": list(LOADS)}, timeout=HUNG)
    assert answer.status_code == 200, answer.text
    return "x-ballast-neutral" not in answer.headers


def _decisions(daemon: Daemon) -> int:
    """Those that came true."""
    return sum(
        int(value)
        for name, labels, value in daemon.samples()
        if name == "ballast_extender_decisions_total" and labels["outcome"] == "confirmed"
    )


def test_trimaran_s_own_scheduler_reads_the_watcher_and_scores_as_ballast_does(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    add_nodes(cluster.api, [node(name) for name in LOADS])
    profile = "ballast-trimaran"
    with ballast(cluster, installed, tmp_path) as daemon:
        configuration = trimaran_profile(daemon.url, profile)
        watched = daemon.get("/watcher").text
        binary = cluster.tools.trimaran / "trimaran"
        with scheduler(cluster, configuration, verbosity=10, binary=binary) as process:
            asking = cluster.api.post(PODS, pod("p", cpu="1", memory="2Gi", scheduler=profile))
            placed = placements(cluster.api, ["p"])
            found = plugin_scores(process, "p")
    assert placed == {"p": "n0"}, "the least loaded of equal nodes"
    expected = _scored(cluster, asking, watched, tmp_path)
    theirs = {node: score for (plugin, node), score in found.items() if plugin == "LoadVariationRiskBalancing"}
    assert set(theirs) == set(expected) == set(LOADS)
    for name, score in expected.items():
        assert theirs[name] == pytest.approx(score, abs=1), "the load moved on by less than a percent"
    assert theirs["n0"] > theirs["n1"] > theirs["n2"]


def _scored(cluster: ControlPlane, asking: Json, watched: str, folder: Path) -> dict[str, int]:
    """By `ballast score`, from files."""
    nodes = [{"apiVersion": "v1", "kind": "Node", **each} for each in cluster.api.items("/api/v1/nodes")]
    files = {"cluster": json.dumps({"kind": "List", "items": nodes}), "metrics": watched, "pod": json.dumps(asking)}
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    options = [part for name in files for part in (f"--{name}", str(folder / f"{name}.json"))]
    command = [sys.executable, "-m", "ballast", "score", *options, "--strategy", "load-variation", "-o", "json"]
    scores: dict[str, int] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["scores"]
    return scores


def test_what_trimaran_reads(cluster: ControlPlane, installed: Installed, tmp_path: Path) -> None:
    add_nodes(cluster.api, [node(name) for name in LOADS])
    with ballast(cluster, installed, tmp_path) as daemon:
        found = _watched(daemon)
        alone = daemon.get("/watcher?host=n1")
    assert alone.status_code == 200
    assert set(found) == set(LOADS)
    for name, load in LOADS.items():
        assert found[name]["Memory", "AVG"] == pytest.approx(100 * load, abs=0.1)
        assert 0 <= found[name]["CPU", "AVG"] <= 100
        assert found[name]["CPU", "STD"] >= 0 <= found[name]["Memory", "STD"]


def _watched(daemon: Daemon) -> dict[str, dict[tuple[str, str], float]]:
    """{node: {(type, operator): percent}}."""
    body = daemon.get("/watcher").content
    document = json.loads(body, parse_float=parse_float, parse_int=parse_float)
    assert document["window"]["duration"] == "10s"
    hosts = document["data"]["NodeMetricsMap"]
    return {
        name: {(each["type"], each["operator"]): each["value"] for each in hosts[name]["metrics"]} for name in hosts
    }
