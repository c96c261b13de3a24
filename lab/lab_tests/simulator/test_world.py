import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast_lab.simulator import SCENES, EmbeddedCluster, World
from ballast_lab.simulator.kube.kinds import KINDS, NODE, POD
from ballast_lab.simulator.kube.store import Store
from ballast_lab.simulator.population import populate
from lab_tests.simulator.client import Client
from tests.properties import examples
from tests.worlds.clock import FakeClock


def contents(world: World) -> list[bytes]:
    store = Store(world.seed)
    populate(world, store)
    return [stored.raw for kind in KINDS for stored in store.all(kind)]


def test_the_same_seed_is_the_same_world_byte_for_byte() -> None:
    one, two, other = (World(20, seed=seed, clock=FakeClock()) for seed in (7, 7, 8))
    assert contents(one) == contents(two)
    assert contents(World(20, seed=7, clock=FakeClock())) != contents(other)
    times = one.start + np.arange(0.0, 600.0, 15.0)
    for resource in ("cpu", "memory", "disk", "receive", "transmit"):
        assert np.array_equal(one.ratio(resource, times), two.ratio(resource, times))


@given(st.lists(st.floats(-86_400.0, 86_400.0), min_size=1, max_size=5))
@examples(25)
def test_the_past_is_the_same_asked_alone_or_together(offsets: list[float]) -> None:
    world = World(5, seed=2, clock=FakeClock())
    contents(world)
    times = [world.start + offset for offset in offsets]
    together = world.ratio("cpu", times)
    for column, time in enumerate(times):
        assert np.array_equal(world.ratio("cpu", [time])[:, 0], together[:, column])
    assert ((together >= 0) & (together <= 1)).all()


def test_nodes_differ_and_breathe_unless_it_is_calm() -> None:
    breathing, calm = World(50, clock=FakeClock()), World(50, clock=FakeClock(), scene="calm")
    for world in (breathing, calm):
        contents(world)
    times = breathing.start + np.arange(0.0, 1800.0, 15.0)
    moving, still = breathing.ratio("cpu", times), calm.ratio("cpu", times)
    assert 0.3 < moving.mean() < 0.8
    assert moving.mean(axis=1).std() > 0.05
    assert (moving.std(axis=1) > 0.01).all()
    assert (still == still[:, :1]).all()
    assert still[:, 0].std() > 0.05


@pytest.mark.parametrize("nodes", [1, 2, 7, 60])
def test_pods_are_placed_where_they_fit(nodes: int) -> None:
    world = World(nodes, clock=FakeClock())
    store = Store()
    populate(world, store)
    pods = store.all(POD)
    assert len(pods) == len(world.members) == 15 * nodes
    allocatable = [stored.read()["status"]["allocatable"] for stored in store.all(NODE)]
    for row, amounts in enumerate(allocatable):
        assert world.allocated[row, 0] <= float(amounts["cpu"].removesuffix("m")) / 1000
    assert int(world.allocated[:, 2].sum()) == len(pods)


def test_realistic_objects_have_the_size_of_real_ones() -> None:
    world = World(5, clock=FakeClock(), pods=50, realistic=True)
    store = Store()
    populate(world, store)
    assert 5_000 < np.mean([len(stored.raw) for stored in store.all(POD)]) < 9_000
    assert 5_000 < np.mean([len(stored.raw) for stored in store.all(NODE)]) < 9_000
    assert store.all(POD)[0].read()["metadata"]["managedFields"]


def test_moved_pods_change_the_future_and_not_the_past() -> None:
    clock = FakeClock()
    world = World(3, clock=clock)
    contents(world)
    times = world.start + np.arange(-60.0, 60.0, 15.0)
    before = world.ratio("cpu", times)
    (row, profile) = next((m.node, m.profile) for m in world.members.values())
    world.usage.move(world.start, row, profile, -1)
    after = world.ratio("cpu", times)
    past = times < world.start
    assert np.allclose(after[:, past], before[:, past], atol=1e-4)
    assert (after[row, ~past] < before[row, ~past]).all()


def test_faults_come_with_the_scene() -> None:
    for scene in SCENES:
        cluster = EmbeddedCluster(World(20, clock=FakeClock(), scene=scene))
        kinds = {fault["fault"] for fault in cluster.faults.active()}
        assert kinds == (set() if scene in ("calm", "power", "hotspot") else {"node_dark", "exporter_nan"})


def test_an_invalid_world_is_refused() -> None:
    with pytest.raises(ValueError, match="none of breathing, calm, burst"):
        World(scene="stormy")
    with pytest.raises(ValueError, match="at least one node"):
        World(0)


def test_a_burst_arrives_after_half_a_minute(eventually) -> None:  # type: ignore[no-untyped-def]
    clock = FakeClock()
    clock.speed = 300.0
    with EmbeddedCluster(World(6, clock=clock, scene="burst")) as cluster:
        eventually(lambda: sum(pod.labels.get("app") == "rush" for pod in cluster.store.all(POD)) == 6)


def test_exporters_count_what_prometheus_shows(client: Client, cluster: EmbeddedCluster, clock: FakeClock) -> None:
    def busy() -> float:
        lines = client.get("/metrics/node/node-002").text.splitlines()
        values = [float(line.split()[1]) for line in lines if 'cpu="0",mode="user"' in line or "system" in line[:60]]
        return sum(values[:2])

    first = busy()
    clock.advance(60)
    rate = (busy() - first) / 60
    assert rate == pytest.approx(cluster.world.ratio("cpu", [clock.wall()])[2, 0], abs=1e-3)
    assert "node_network_speed_bytes" in client.get("/metrics/node/node-002").text
    assert client.get("/metrics/node/nowhere").code == 404
    cluster.faults.exporter_nan("node-002")
    samples = [line for line in client.get("/metrics/node/node-002").text.splitlines() if not line.startswith("#")]
    assert all(line.endswith(" NaN") for line in samples)


def test_metrics_server_and_power_feed_speak_their_formats(client: Client, cluster: EmbeddedCluster) -> None:
    node = client.get("/apis/metrics.k8s.io/v1beta1/nodes/node-001").json
    assert node["kind"] == "NodeMetrics"
    assert node["usage"]["cpu"].endswith("n")
    assert node["usage"]["memory"].endswith("Ki")
    pods = client.get("/apis/metrics.k8s.io/v1beta1/pods").json
    assert len(pods["items"]) == len(cluster.world.members)
    namespace = pods["items"][0]["metadata"]["namespace"]
    narrowed = client.get(f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods").json["items"]
    assert {item["metadata"]["namespace"] for item in narrowed} == {namespace}
    assert client.get("/apis/metrics.k8s.io/v1beta1/nodes/nowhere").code == 404
    feed = client.get("/power").json
    assert feed["watts"] > 0
    assert feed["time"].endswith("Z")
    shown = client.prometheus("simulated_power_watts").json["data"]["result"][0]["value"][1]
    assert float(shown) == feed["watts"]


def test_no_uid_comes_twice(cluster: EmbeddedCluster) -> None:
    """What is created later has none of the first objects: caches know objects by it."""
    known = {stored.uid for kind in KINDS for stored in cluster.store.all(kind)}
    assert not known & {cluster.store.new_uid() for _ in range(len(known))}
