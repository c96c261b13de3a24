"""Real Prometheus servers that die, leave gaps, give histograms or half an answer, or know 15,000 nodes."""

import json
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import Prometheus, prometheus
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually
from ballast_lab.simulator import World
from tests.worlds.daemons import LOAD, SCORE, Rig, condition, rig, snapshot, watcher

NODES = [f"n{number:02d}" for number in range(20)]
LOADS = {name: 0.05 + 0.045 * number for number, name in enumerate(NODES)}
OUTAGE = 20
"""Cycles: five minutes at a reading every 15 s."""
SCRAPES = 30
BEGUN = 1_700_000_000
"""Unix time of the first cycle of a daemon within the test."""


@contextmanager
def fleet(cluster: ControlPlane) -> Iterator[Machines]:
    """Twenty nodes, which are older than what is scraped of their machines; of as many loads."""
    add_nodes(cluster.api, [node(name) for name in NODES])
    with Machines(NODES) as machines:
        for name, load in LOADS.items():
            machines[name].cpu = machines[name].memory = load
        yield machines


def daemon_of(cluster: ControlPlane, server: Prometheus, **settings: str) -> Daemon:
    url = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_METRICS__NODES": "all"}
    return Daemon(cluster, "live", cluster.admin_kubeconfig, {**FAST, **url, **settings})


def labels(cluster: ControlPlane) -> dict[str, dict[str, str]]:
    """Those of Ballast, by node."""
    nodes = [each["metadata"] for each in cluster.api.items("/api/v1/nodes")]
    return {
        each["name"]: {key: value for key, value in each["labels"].items() if key in (SCORE, LOAD)} for each in nodes
    }


def scores(cluster: ControlPlane) -> dict[str, str]:
    """Of the nodes that have one."""
    return {name: texts[SCORE] for name, texts in labels(cluster).items() if SCORE in texts}


def states(daemon: Daemon) -> dict[str, int]:
    return {of["state"]: int(value) for name, of, value in daemon.samples() if name == "ballast_nodes" and value}


def labelled(cluster: ControlPlane, daemon: Daemon) -> dict[str, dict[str, str]]:
    """The keys once all nodes are known and have a score."""
    eventually("every node is known", lambda: states(daemon) == {"known": len(NODES)})
    return eventually(
        "every node has a score",
        lambda: (now := labels(cluster)) and all(SCORE in texts for texts in now.values()) and now,
    )


def cycles(daemon: Daemon) -> float:
    return sum(
        value
        for name, of, value in daemon.samples()
        if name == "ballast_cycle_seconds_count" and of["cycle"] == "telemetry"
    )


def loads(daemon: Daemon, resource: str) -> dict[str, float]:
    return {
        of["node"]: value
        for name, of, value in daemon.samples()
        if name == "ballast_node_load_mean" and of["resource"] == resource
    }


def test_a_killed_prometheus_freezes_the_labels_and_its_gap_is_no_load(cluster: ControlPlane, tmp_path: Path) -> None:
    """A `kill -9`, twenty cycles without it, its log read again at the start: nothing is written, nothing improves."""
    with (
        fleet(cluster) as machines,
        prometheus(cluster.tools, tmp_path, machines.targets()) as server,
        daemon_of(cluster, server) as daemon,
    ):
        labelled(cluster, daemon)
        server.process.kill()
        frozen = eventually("labels are frozen", lambda: daemon.condition("PublishingFrozen"))
        assert "silent" in frozen
        before, here, since = labels(cluster), cluster.audit.here(), cycles(daemon)
        eventually("an outage of twenty cycles", lambda: cycles(daemon) >= since + OUTAGE)
        assert states(daemon) == {"silent": len(NODES)}
        assert "cannot be reached" in daemon.condition("TelemetryDegraded")
        assert daemon.get("/watcher").status_code != 200
        assert labels(cluster) == before
        writes = [call for call in cluster.audit.calls(since=here) if call.agent == "ballast"]
        assert not [call for call in writes if call.resource == "nodes" and call.verb == "patch"]

        server.process.start()
        eventually("labels are no longer frozen", lambda: not daemon.condition("PublishingFrozen"))
        assert labelled(cluster, daemon) == before
        scrapes = server.query("count_over_time(node_memory_MemTotal_bytes[60s])", time.time())
        assert max(scrapes.values()) <= 60 - OUTAGE, "the log has a gap"
        assert loads(daemon, "memory") == pytest.approx(LOADS, abs=1e-6), "what is missing counts as nothing"


def test_a_native_histogram_is_no_load_and_disturbs_no_other(cluster: ControlPlane, tmp_path: Path) -> None:
    """The server's own, scraped from itself, stands where the memory of one node should be."""
    histogram = 'prometheus_http_request_duration_seconds{handler="/metrics"}'
    others = '1 - node_memory_MemAvailable_bytes{instance!="n00"} / node_memory_MemTotal_bytes'
    memory = f'{others} or label_replace({histogram}, "instance", "n00", "", "")'
    resources = json.dumps(
        {"cpu": {}, "memory": {"query": memory, "freshness": "timestamp(node_memory_MemTotal_bytes)"}}
    )
    with fleet(cluster) as machines, prometheus(cluster.tools, tmp_path, machines.targets(), native=True) as server:
        series = eventually("a native histogram", lambda: server.series(histogram))
        assert all("histogram" in one for one in series)
        with daemon_of(cluster, server, BALLAST_TELEMETRY__RESOURCES=resources) as daemon:
            eventually("all others are known", lambda: states(daemon) == {"known": 19, "unmeasured": 1})
            assert daemon.node("n00")["missing"] == ["memory"]
            assert loads(daemon, "memory") == pytest.approx(_only(NODES[1:]), abs=1e-6)
            assert "ballast_samples_rejected_total" in {
                name for name, of, value in daemon.samples() if value and of.get("reason") == "unreadable"
            }


def _only(names: Sequence[str]) -> dict[str, float]:
    return {name: LOADS[name] for name in names}


def test_half_an_answer_with_a_warning_takes_only_the_nodes_that_are_missing(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """As a querier whose store is gone: a Prometheus that reads another one over the network answers with a warning."""
    (tmp_path / "other").mkdir()
    near = NODES[:16]
    with (
        fleet(cluster) as machines,
        prometheus(cluster.tools, tmp_path / "other", machines.targets()[16:]) as other,
        prometheus(cluster.tools, tmp_path, machines.targets()[:16], remote=[other.url]) as server,
        daemon_of(cluster, server, BALLAST_PUBLISHING__MAX_UNKNOWN="0.5") as daemon,
    ):
        before = labelled(cluster, daemon)
        assert not daemon.condition("PartialAnswers")
        other.process.kill()
        warning = eventually("a warning", lambda: daemon.condition("PartialAnswers"))
        assert "remote_read" in warning
        eventually("the others are silent", lambda: states(daemon) == {"known": 16, "silent": 4})
        eventually("they have no score", lambda: sorted(scores(cluster)) == near)
        assert scores(cluster) == {name: before[name][SCORE] for name in near}
        assert loads(daemon, "memory") == pytest.approx(_only(near), abs=1e-6)

        other.process.start()
        labelled(cluster, daemon)
        eventually("no warning is left", lambda: not daemon.condition("PartialAnswers"))
        assert loads(daemon, "memory") == pytest.approx(LOADS, abs=1e-6)


def test_five_minutes_without_prometheus_are_read_back(tools: Tools, tmp_path: Path) -> None:
    """The defaults, and a clock that is turned: after the outage the windows are those of a daemon that began late."""
    with rig(tmp_path) as one, _history(tools, tmp_path, one, past=1080, until=900) as server:
        one.faults.metrics_server_missing()
        daemon = one.settled(PROMETHEUS__URL=server.url)
        before = one.published()
        server.process.kill()
        seen = []
        for _ in range(10):
            one.cycle(daemon)
            seen.append((snapshot(daemon).states.counts["known"], condition(daemon, "PublishingFrozen") is not None))
            assert one.published() == before
        assert seen == [(10, False)] * 2 + [(0, True)] * 8, "samples are 100 s old in the third, MAX_AGE is 90 s"

        server.process.start()
        one.cycle(daemon, 2)
        assert condition(daemon, "PublishingFrozen") is None
        assert {name: keys[SCORE] for name, keys in one.published().items()} == {
            name: keys[SCORE] for name, keys in before.items()
        }
        late = one.daemon(leads=False, PROMETHEUS__URL=server.url)
        assert watcher(daemon) == watcher(late)
        assert snapshot(daemon).primary.mean == pytest.approx(snapshot(late).primary.mean, abs=1e-12)


def test_fifteen_thousand_nodes(tools: Tools, tmp_path: Path) -> None:
    """Each has its load, in a first cycle that reads the past and in those that follow. Not fast, on two busy cores."""
    with (
        rig(tmp_path, nodes=15_000, world=partial(World, pods=0)) as one,
        _history(tools, tmp_path, one, past=480, until=60) as server,
    ):
        one.faults.metrics_server_missing()
        daemon = one.daemon(
            PROMETHEUS__URL=server.url, PROMETHEUS__TIMEOUT="60s", WINDOWS__LENGTHS="5m", PUBLISHING__MODE="dry-run"
        )
        truth = list(_loads(one).values())
        for _ in range(2):
            known = snapshot(daemon)
            assert known.unknown == 0
            of_capacity = known.primary.mean * known.allocatable_share
            assert of_capacity[0] == pytest.approx(truth, abs=1e-9)
            assert of_capacity[1] == pytest.approx(truth, abs=1e-9)
            one.advance()
            told = one.watch(daemon)
        assert told == "know 15,000 of 15,000 nodes from prometheus, 0 unknown"
        assert len(watcher(daemon)) == 15_000


def _loads(one: Rig) -> dict[str, float]:
    """By address."""
    return {address: 0.1 + 0.8 * (row % 997) / 997 for row, address in enumerate(one.world.addresses)}


@contextmanager
def _history(tools: Tools, folder: Path, one: Rig, past: int, until: int) -> Iterator[Prometheus]:
    """A Prometheus that has scraped the exporters of all nodes from `past` s before BEGUN until `until` s after it."""
    text = folder / "history.om"
    with text.open("w") as lines:
        for line in _open_metrics(_loads(one), range(BEGUN - past, BEGUN + until, SCRAPES)):
            lines.write(line)
    promtool = str(tools.prometheus / "promtool")
    command = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(folder / "tsdb")]
    subprocess.run(command, check=True, capture_output=True)
    with prometheus(tools, folder, []) as server:
        yield server


def _open_metrics(loads: Mapping[str, float], times: Sequence[int]) -> Iterator[str]:
    """node_exporters whose cpu and memory have these loads, by address."""
    yield "# TYPE node_cpu_seconds counter\n"
    for address, load in loads.items():
        for mode, share in (("idle", 1 - load), ("user", load)):
            series = f'node_cpu_seconds_total{{instance="{address}:9100",cpu="0",mode="{mode}"}}'
            yield "".join(f"{series} {share * (at - times[0])!r} {at}\n" for at in times)
    yield "# TYPE node_time_seconds gauge\n"
    for address in loads:
        yield "".join(f'node_time_seconds{{instance="{address}:9100"}} {at} {at}\n' for at in times)
    for metric in ("MemAvailable", "MemTotal"):
        yield f"# TYPE node_memory_{metric}_bytes gauge\n"
        for address, load in loads.items():
            value = 1e9 if metric == "MemTotal" else 1e9 * (1 - load)
            series = f'node_memory_{metric}_bytes{{instance="{address}:9100"}}'
            yield "".join(f"{series} {value!r} {at}\n" for at in times)
    yield "# EOF\n"
