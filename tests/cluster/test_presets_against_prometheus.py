"""What the presets ask gives the truth on a real Prometheus, for exporters whose numbers are known."""

import math
import subprocess
import time
from collections import ChainMap, defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from ballast.base.metrics import Metrics
from ballast.jobs.telemetry_cycle import TelemetryCycle, rules_of
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import PublishedKeys
from ballast.settings import Settings, load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.pod_usage import Homes, decode
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.harness.prometheus import Prometheus, prometheus
from ballast_lab.harness.tools import Tools
from ballast_lab.rehearse.ballast_run import Labels
from ballast_lab.rehearse.played import PlayedClock
from tests.unit.daemon.test_decisions import ExtenderWorld
from tests.worlds.clock import FakeClock
from tests.worlds.planning import a_layout, standing_of

CORES, MEMORY, LINK = 4, 16e9, 1.25e9
PODS = 110.0
SPAN, STEP = 1200, 15
LAST = SPAN - 2 * STEP
TRUTH: Mapping[str, tuple[float, ...]] = {
    "cpu": (0.2, 0.5, 0.9),
    "memory": (0.3, 0.4, 0.7),
    "disk": (0.1, 0.2, 0.3),
    "network": (0.05, 0.1, 0.2),
    "pods": (0.1, 0.5, 0.9),
    "gpu": (0.25, 0.5, 0.75),
    "psi-cpu": (0.01, 0.02, 0.03),
    "psi-memory": (0.02, 0.03, 0.04),
    "psi-io": (0.1, 0.2, 0.3),
}
ACTIVE_CACHE = (0.0, 0.3, 0.1)
"""Page cache of each node that is active, as a share of its memory."""
THROTTLED: tuple[tuple[tuple[float, float, float], ...], ...] = (
    (),
    ((0.1, 9.0, 0.1), (0.2, 10.0, 0.2)),
    ((0.8, 3.0, 0.3),),
)
"""Of the containers of each node: throttled seconds and periods a second, and the share of time that these are."""
NODES = [
    Node(
        name=f"node-{index}",
        addresses=(("InternalIP", f"10.0.0.{index}"),),
        capacity={"cpu": float(CORES), "memory": MEMORY},
        allocatable={"pods": PODS},
    )
    for index in range(3)
]

YOUNG = {"10.0.0.8": 45.0, "10.0.0.9": 105.0, "10.0.0.10": 45.0}
"""Addresses of nodes that joined this many seconds before the last reading: two inside the range of `rate`."""
FLAPPING = "10.0.0.7"
"""Of a node that answers for 45 s and is silent for 30 s."""
WITHOUT_CLOCK = ("10.0.0.1", "10.0.0.2", "10.0.0.10")
"""Nodes whose `node_time_seconds` is not stored."""
ONLY_REST = "10.0.0.2"
"""A node of which modes at rest are stored alone."""

STARVED = {"10.0.0.20": (0.1, 0.88, 0.0), "10.0.0.21": (0.05, 0.0, 0.93), "10.0.0.22": (0.3, 0.4, 0.1)}
"""Addresses of nodes by the shares of their time that are used, stolen, and waiting for disks."""


def _drawn_world(number: int) -> Mapping[str, tuple[float, float, float]]:
    """Ten nodes like STARVED, of which the first two seem idle: time of one is stolen, the other waits."""
    dice = np.random.default_rng(number)
    lost, busy = dice.uniform(0.3, 0.9, 2), dice.uniform(0.3, 0.7, 8)
    shares = [(0.1 * (1 - lost[0]), lost[0], 0.0), (0.05, 0.0, lost[1]), *((load, 0.0, 0.01) for load in busy)]
    return {f"10.1.{number}.{row}": (float(a), float(b), float(c)) for row, (a, b, c) in enumerate(shares)}


USES: Mapping[tuple[str, str], tuple[tuple[float, float], ...]] = {
    ("steady", "1"): ((0.0, 0.5),),
    ("risen", "1"): ((0.0, 0.1), (LAST - 150.0, 2.1)),
    ("young", "1"): ((LAST - 690.0, 0.8),),
    ("restarted", "old"): ((0.0, 1.0), (LAST - 690.0, math.nan)),
    ("restarted", "new"): ((LAST - 690.0, 0.3),),
}
"""Of the containers of pods, by their identity: from which second on they use so many cores; NaN: they have ended."""

WORLDS = [_drawn_world(number) for number in range(20)]

Samples = Iterator[tuple[str, dict[str, str], float]]


@pytest.fixture(scope="module")
def past(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus that already scraped for twenty minutes, and when it began."""
    folder = tmp_path_factory.mktemp("presets")
    start = math.floor(time.time()) - SPAN
    written = folder / "past.om"
    written.write_text(_open_metrics(start))
    command = [tools.prometheus / "promtool", "tsdb", "create-blocks-from", "openmetrics", written, folder / "tsdb"]
    subprocess.run(command, check=True, capture_output=True)
    with prometheus(tools, folder, []) as server:
        yield server, start


@pytest.mark.parametrize(
    ("preset", "resources"),
    [
        ("node-exporter", "cpu,memory,disk,network"),
        ("kubelet", "cpu,memory,pods"),
        ("windows-exporter", "cpu,memory,disk,network"),
        ("dcgm", "gpu"),
        ("psi", "psi-cpu,psi-memory,psi-io"),
        ("windows-exporter,dcgm,psi,kubelet", "cpu,memory,gpu,psi-io"),
    ],
)
def test_every_preset_gives_the_truth(past: tuple[Prometheus, float], preset: str, resources: str) -> None:
    server, start = past
    settings = load(
        {
            "BALLAST_PROMETHEUS__URL": server.url,
            "BALLAST_PROMETHEUS__PRESET": preset,
            "BALLAST_TELEMETRY__RESOURCES": resources,
        }
    )
    source, names = PrometheusSource(settings, Metrics()), NodeNames(NODES)
    at = start + LAST
    readings = [source.read(at, names), *source.backfill(at - 600, at - 30, 30, names)]
    source.close()
    for reading in readings:
        assert not reading.problems
        assert not reading.differing
        for resource in resources.split(","):
            assert reading.samples[resource].values.tolist() == pytest.approx(TRUTH[resource], abs=1e-9)
            assert reading.samples[resource].times.tolist() == [reading.at] * 3


@pytest.mark.parametrize("preset", ["node-exporter", "kubelet"])
def test_memory_is_told_in_the_measure_of_metrics_server_too(past: tuple[Prometheus, float], preset: str) -> None:
    server, start = past
    environment = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_PROMETHEUS__PRESET": preset}
    source = PrometheusSource(load(environment | {"BALLAST_TELEMETRY__RESOURCES": "memory"}), Metrics())
    reading = source.read(start + LAST, NodeNames(NODES))
    source.close()
    assert reading.samples["memory"].values.tolist() == pytest.approx(TRUTH["memory"])
    assert reading.working_set is not None
    cache = (0.0, 0.0, 0.0) if preset == "kubelet" else ACTIVE_CACHE
    expected = [used + more for used, more in zip(TRUTH["memory"], cache, strict=True)]
    assert reading.working_set.values.tolist() == pytest.approx(expected)


def test_pods_tell_what_they_use_now_and_over_the_hour_as_long_as_they_are_there(
    past: tuple[Prometheus, float],
) -> None:
    server, start = past
    source = PrometheusSource(load({"BALLAST_PROMETHEUS__URL": server.url}), Metrics())
    running = [Pod(name=pod, namespace="app", node="node-0") for pod in ("steady", "risen", "young", "restarted")]
    usage = decode(source.ask_pods(start + LAST, hour=True), Homes(NODES, running))
    source.close()
    assert not usage.problems
    now, hour = ({pod: kinds["cpu"] for pod, kinds in by.items()} for by in (usage.by_pod(), usage.over_the_hour()))
    assert now == pytest.approx({"app/steady": 0.5, "app/risen": 2.1, "app/young": 0.8, "app/restarted": 0.3})
    assert hour["app/risen"] < 1.5, "its rise is two minutes old"
    del hour["app/risen"]
    assert hour == pytest.approx({"app/steady": 0.5, "app/young": 0.8, "app/restarted": 0.3})
    assert {kinds["memory"] for kinds in usage.over_the_hour().values()} == {1e9}


@pytest.mark.parametrize("preset", ["node-exporter", "kube-prometheus"])
def test_what_is_stolen_is_no_capacity_and_starved_nodes_are_told(past: tuple[Prometheus, float], preset: str) -> None:
    server, start = past
    nodes = [Node(name=f"node-{address}", addresses=(("InternalIP", address),)) for address in STARVED]
    settings = load(
        {
            "BALLAST_PROMETHEUS__URL": server.url,
            "BALLAST_PROMETHEUS__PRESET": preset,
            "BALLAST_TELEMETRY__RESOURCES": "cpu",
        }
    )
    source = PrometheusSource(settings, Metrics())
    reading = source.read(start + LAST, NodeNames(nodes))
    source.close()
    loads = [used / (1 - stolen) for used, stolen, _ in STARVED.values()]
    assert reading.samples["cpu"].values.tolist() == pytest.approx(loads, abs=1e-9)
    assert reading.starved is not None
    shares = [max(stolen, waiting) for _, stolen, waiting in STARVED.values()]
    assert reading.starved.values.tolist() == pytest.approx(shares, abs=1e-9)


@pytest.mark.parametrize("preset", ["node-exporter", "kube-prometheus"])
def test_no_starved_node_of_many_worlds_is_low_best_or_a_target(past: tuple[Prometheus, float], preset: str) -> None:
    server, start = past
    settings = load(
        {
            "BALLAST_PROMETHEUS__URL": server.url,
            "BALLAST_PROMETHEUS__PRESET": preset,
            "BALLAST_TELEMETRY__RESOURCES": "cpu",
        }
    )
    for world in WORLDS:
        names = [f"node-{address}" for address in world]
        snapshot, carried, best = _decided(settings, start + LAST, world)
        assert snapshot.known.all()
        assert [snapshot.starved(row) for row in range(10)] == [True] * 2 + [False] * 8
        assert all((carried[name].score, carried[name].load) == (None, "unknown") for name in names[:2])
        assert best in names[2:]
        trusted = snapshot.trusted
        layout = a_layout(trusted.nodes, [], load=np.repeat(trusted.primary.mean.T, 2, axis=1))
        assert standing_of(layout).targets.tolist() == [False] * 2 + [True] * 8
        without, as_before, same = _decided(settings, start + LAST, dict(list(world.items())[2:]))
        assert without.trusted is without
        assert same == best
        assert as_before == {name: carried[name] for name in names[2:]}


def _decided(
    settings: Settings, end: float, world: Mapping[str, object]
) -> tuple[Snapshot, Mapping[str, PublishedKeys], str]:
    """The last of five cycles over these nodes, what they carry then, and the one that the extender gives most."""
    nodes = [
        Node(f"node-{address}", addresses=(("InternalIP", address),), allocatable={"cpu": 4.0, "memory": MEMORY})
        for address in world
    ]
    source, clock, played = PrometheusSource(settings, Metrics()), FakeClock(wall=end - 120), PlayedClock()
    cycle = TelemetryCycle(source, None, rules_of(settings), clock=clock, metrics=Metrics())
    labels = Labels(settings, played)
    for _ in range(5):
        snapshot = cycle.cycle(NodeNames(nodes))
        played.now = clock.wall()
        labels.publish(snapshot.trusted, Freeze(0.2, 3600.0))
        clock.advance(30.0)
    source.close()
    extender = ExtenderWorld()
    extender.clock.advance(snapshot.time - extender.clock.wall())
    extender.observe(snapshot.trusted)
    return snapshot, labels.carried, extender.chosen("pod", [node.name for node in nodes])


@pytest.mark.parametrize("address", [*YOUNG, FLAPPING])
@pytest.mark.parametrize(
    ("preset", "port"), [("node-exporter", 9100), ("windows-exporter", 9182)], ids=["linux", "windows"]
)
def test_a_node_that_just_joined_or_flaps_shows_its_own_load(
    past: tuple[Prometheus, float], preset: str, port: int, address: str
) -> None:
    server, start = past
    environment = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_PROMETHEUS__PRESET": preset}
    source = PrometheusSource(load(environment | {"BALLAST_TELEMETRY__RESOURCES": "cpu"}), Metrics())
    names = NodeNames([Node(name="young", addresses=(("InternalIP", address),), capacity={"cpu": float(CORES)})])
    shown = [source.read(start + LAST - before, names).samples["cpu"].values.tolist() for before in (0, 15)]
    source.close()
    assert shown == [pytest.approx([TRUTH["cpu"][1]], abs=1e-9)] * 2, f"{address}:{port}"


def _open_metrics(start: float) -> str:
    families: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for passed in range(0, SPAN, STEP):
        for node in range(len(NODES)):
            _add(families, start + passed, _scrape(node, float(passed), f"10.0.0.{node}"))
        _add(families, start + passed, _containers(float(passed)))
        for address, age in YOUNG.items():
            if passed >= LAST - age:
                _add(families, start + passed, _processors(1, passed + age - LAST + 40.0, address))
        for address, (used, stolen, waiting) in ChainMap(STARVED, *WORLDS).items():
            instance = {"instance": f"{address}:9100", "job": "node-exporter"}
            shares = {"idle": 1 - used - stolen - waiting, "iowait": waiting, "steal": stolen, "user": used}
            modes = [
                ("node_cpu_seconds_total", {**instance, "cpu": "0", "mode": mode}, share * passed)
                for mode, share in shares.items()
            ]
            rule = [("instance:node_cpu:ratio", instance, used), ("node_memory_MemTotal_bytes", instance, MEMORY)]
            _add(families, start + passed, iter([*modes, *rule]))
        if passed % 75 < 45:
            _add(families, start + passed, _processors(1, float(passed), FLAPPING))
    return _lines(families)


def _lines(families: Mapping[str, Mapping[str, list[str]]]) -> str:
    lines = []
    for metric, found in sorted(families.items()):
        kind = "counter" if metric.endswith("_total") else "gauge"
        lines += [f"# TYPE {metric.removesuffix('_total')} {kind}", *(line for each in found.values() for line in each)]
    return "\n".join([*lines, "# EOF", ""])


def _add(families: dict[str, dict[str, list[str]]], at: float, samples: Samples) -> None:
    for metric, labels, value in samples:
        shown = ",".join(f'{name}="{text}"' for name, text in labels.items())
        series = f"{metric}{{{shown}}}"
        families[metric][series].append(f"{series} {value!r} {at}")


def _processors(node: int, passed: float, address: str) -> Samples:
    """What node and Windows exporters count of a machine that has run for `passed` seconds."""
    busy = TRUTH["cpu"][node]
    linux = {"instance": f"{address}:9100", "job": "node-exporter"}
    windows = {"instance": f"{address}:9182", "job": "windows"}
    left = 0.99 * busy
    shares = {"idle": 0.98 - left, "iowait": 0.01, "steal": 0.01, "user": 0.7 * left, "system": 0.3 * left}
    shares |= dict.fromkeys(("nice", "irq", "softirq"), 0.0)
    for cpu in range(CORES):
        for mode, share in shares.items():
            if address == ONLY_REST and mode not in ("idle", "iowait", "steal"):
                continue
            yield "node_cpu_seconds_total", {**linux, "cpu": str(cpu), "mode": mode}, share * passed
        for mode, share in (("idle", 1 - busy), ("user", 0.6 * busy), ("privileged", 0.4 * busy), ("dpc", 0.1 * busy)):
            yield "windows_cpu_time_total", {**windows, "core": f"0,{cpu}", "mode": mode}, share * passed
    yield "node_memory_MemTotal_bytes", linux, MEMORY
    yield "windows_memory_available_bytes", windows, MEMORY * (1 - TRUTH["memory"][node])
    if address not in WITHOUT_CLOCK:
        yield "node_time_seconds", linux, 1.7e9 + passed


def _containers(passed: float) -> Samples:
    """What cadvisor counts of the containers of USES that are there."""
    for (pod, identity), uses in USES.items():
        ends = [*(begin for begin, _ in uses[1:]), passed]
        if passed < uses[0][0] or (math.isnan(uses[-1][1]) and passed >= uses[-1][0]):
            continue
        spans = zip(uses, ends, strict=True)
        used = sum(cores * (min(end, passed) - begin) for (begin, cores), end in spans if begin < passed)
        labels = {"instance": "10.0.0.0:10250", "job": "cadvisor", "namespace": "app", "pod": pod, "container": "app"}
        yield "container_cpu_usage_seconds_total", {**labels, "id": f"/{pod}/{identity}"}, used
        yield "container_memory_working_set_bytes", {**labels, "id": f"/{pod}/{identity}"}, 1e9


def _scrape(node: int, passed: float, address: str) -> Samples:
    """All exporters of one node, `passed` seconds after they started."""
    truth = {name: values[node] for name, values in TRUTH.items()}
    bytes_sent = truth["network"] * LINK * passed
    linux = {"instance": f"{address}:9100", "job": "node-exporter"}
    windows = {"instance": f"{address}:9182", "job": "windows"}
    yield from _processors(node, passed, address)
    # The second node's files are in ZFS' cache; the third one's is at its floor.
    cache, floor = ((0.0, 0.0), (5e9, 5e8), (4e8, 5e8))[node]
    yield "node_memory_MemAvailable_bytes", linux, MEMORY * (1 - truth["memory"]) - max(0.0, cache - floor)
    if cache:
        yield "node_zfs_arc_size", linux, cache
        yield "node_zfs_arc_c_min", linux, floor
    # Of what is available half is free, of the rest some page cache is active: the working set has it.
    yield "node_memory_MemFree_bytes", linux, 0.5 * MEMORY * (1 - truth["memory"])
    yield "node_memory_Inactive_file_bytes", linux, (0.5 * (1 - truth["memory"]) - ACTIVE_CACHE[node]) * MEMORY
    yield "node_disk_io_time_seconds_total", {**linux, "device": "sda"}, truth["disk"] * passed
    yield "node_network_receive_bytes_total", {**linux, "device": "eth0"}, bytes_sent
    yield "node_network_transmit_bytes_total", {**linux, "device": "eth0"}, 0.5 * bytes_sent
    yield "node_network_speed_bytes", {**linux, "device": "eth0"}, LINK
    awake = math.prod(1 - share for _, _, share in THROTTLED[node])
    pressure = {**truth, "psi-cpu": 1 - awake * (1 - truth["psi-cpu"])}
    for name in ("cpu", "memory", "io"):
        yield f"node_pressure_{name}_waiting_seconds_total", linux, pressure[f"psi-{name}"] * passed
    for index, (seconds, periods, _) in enumerate(THROTTLED[node]):
        pod = {"namespace": "shop", "pod": f"web-{index}", "container": "app", "id": f"/kubepods/{index}"}
        cadvisor = {"instance": f"{address}:10250", "job": "cadvisor", **pod}
        yield "container_cpu_cfs_throttled_seconds_total", cadvisor, seconds * passed
        yield "container_cpu_cfs_throttled_periods_total", cadvisor, periods * passed
    kubelet = {"instance": f"{address}:10250", "job": "kubelet", "node": f"node-{node}"}
    yield "node_cpu_usage_seconds_total", kubelet, truth["cpu"] * CORES * passed
    yield "node_memory_working_set_bytes", kubelet, truth["memory"] * MEMORY
    yield "kubelet_running_pods", kubelet, truth["pods"] * PODS
    yield "windows_memory_physical_total_bytes", windows, MEMORY
    yield "windows_logical_disk_idle_seconds_total", {**windows, "volume": "C:"}, (1 - truth["disk"]) * passed
    yield "windows_net_bytes_received_total", {**windows, "nic": "Intel"}, bytes_sent
    yield "windows_net_bytes_sent_total", {**windows, "nic": "Intel"}, 0.1 * bytes_sent
    yield "windows_net_current_bandwidth_bytes", {**windows, "nic": "Intel"}, LINK
    for gpu, off in enumerate((-0.1, 0.1)):
        labels = {"gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}", "Hostname": f"node-{node}", "pod": f"train-{gpu}"}
        value = 100 * (truth["gpu"] + off)
        yield "DCGM_FI_DEV_GPU_UTIL", {**labels, "instance": f"10.244.0.{node}:9400"}, value


def test_a_scrape_job_whose_pod_runs_elsewhere_is_left_out_and_named(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    start = math.floor(time.time()) - SPAN
    genuine = {"job": "node-exporter", "namespace": "monitoring"}
    running = [Pod(name=f"exporter-{node}", namespace="monitoring", node=f"node-{node}") for node in range(3)]
    running.append(Pod(name="evil", namespace="tenant-a", node="node-2"))
    forged = {"job": "tenant-a/evil/0", "namespace": "tenant-a", "pod": "evil"}
    families: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for passed in range(0, SPAN, STEP):
        for node, used in enumerate(TRUTH["memory"]):
            own = {**genuine, "pod": f"exporter-{node}"}
            for labels, share in ((own, used), *([(forged, 0.99)] if node == 1 else [])):
                of = {**labels, "instance": f"10.0.0.{node}:9100"}
                amounts = (("MemTotal", MEMORY), ("MemAvailable", MEMORY * (1 - share)))
                series = [(f"node_memory_{name}_bytes", of, amount) for name, amount in amounts]
                _add(families, start + passed, iter(series))
    (folder / "past.om").write_text(_lines(families))
    command = [tools.prometheus / "promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "past.om"]
    subprocess.run([*command, folder / "tsdb"], check=True, capture_output=True)
    with prometheus(tools, folder, []) as server:
        environment = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_TELEMETRY__RESOURCES": "memory"}
        source, names = PrometheusSource(load(environment), Metrics(), lambda: running), NodeNames(NODES)
        readings = [source.read(start + LAST - before, names) for before in (60, 30, 0)]
        told = source.several_jobs
        source.close()
        assert readings[-1].samples["memory"].values.tolist() == pytest.approx(TRUTH["memory"], abs=1e-9)
        assert told is not None
        assert "tenant-a/evil/0" in told.text
        assert told.fix == ("BALLAST_PROMETHEUS__MATCHERS='job!=\"tenant-a/evil/0\"'",)
        mended = PrometheusSource(
            load({**environment, "BALLAST_PROMETHEUS__MATCHERS": 'job!="tenant-a/evil/0"'}), Metrics()
        )
        reading = mended.read(start + LAST, names)
        assert reading.samples["memory"].values.tolist() == pytest.approx(TRUTH["memory"], abs=1e-9)
        assert mended.several_jobs is None
        mended.close()
