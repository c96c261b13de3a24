"""Whatever series the jobs of tenants tell of nodes, no node's numbers change: they stay right, or are unknown."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest

from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.harness.prometheus import import_past, prometheus
from ballast_lab.harness.tools import Tools

SPAN, STEP = 720, 15
WORLDS, JOBS, COUNT = 140, 5, 6
MEMORY = 16e9
ODD = ["", "a b", 'say "no"', "line\nend", "back\\slash", "naïve 🙂", "{x=~'.*'}", "a" * 200, "$1", "1e9"]

Sample = tuple[str, dict[str, str], float]


class _Exporters:
    """The genuine exporters of one world. Some stop, after each has been read once."""

    def __init__(self, world: int, dice: np.random.Generator, *, pods: bool) -> None:
        self.truth = dice.uniform(0.05, 0.95, COUNT)
        self.stopped = set(dice.choice(COUNT, int(dice.integers(0, 2)), replace=False).tolist())
        self.world, self.pods = str(world), pods

    def samples(self, passed: float) -> Iterator[Sample]:
        for row, truth in enumerate(self.truth.tolist()):
            if row in self.stopped and passed > SPAN / 3:
                continue
            pod = {"pod": f"ne-{row}"} if self.pods else {}
            labels = {"instance": f"10.9.0.{row}:9100", "job": "node-exporter", "namespace": "monitoring", **pod}
            yield from _node({**labels, "world": self.world}, truth, passed)


class _Tenant:
    """One job that tells of nodes which are not its own."""

    def __init__(self, world: int, number: int, dice: np.random.Generator, *, enforced: bool) -> None:
        self.world = str(world)
        place = int(dice.integers(COUNT))
        # The operator of Prometheus may let tenants write any label, or enforce namespace and pod.
        own: dict[str, str] = {
            "namespace": "tenant" if enforced else str(dice.choice(["tenant", "monitoring"])),
            "job": str(dice.choice([f"evil-{number}", "node-exporter"])),
            "pod": str(dice.choice([f"evil-{place}", "gone"] if enforced else [f"evil-{place}", "gone", ""])),
            "note": ODD[int(dice.integers(len(ODD)))],
            "more": str(number),
        }
        kept = 1.0 if enforced else 0.9
        self.labels = {key: value for key, value in own.items() if value and dice.random() < kept}
        if self.labels.get("pod", "gone") == "gone" and self.labels.get("namespace") == "monitoring":
            # With the exporters' job it would be all that is known of one without a label of its pod: a copy; with a
            # pod that nobody shows, an exporter that has just come, for LEFTOVER seconds.
            self.labels["job"] = f"evil-{number}"
        rows = dice.choice(COUNT, int(dice.choice([1, 2, COUNT])), replace=False).tolist()
        called = [
            "10.9.0.{0}:9100",
            "10.9.0.{0}:9999",
            "n{0}",
            "N{0}:9100",
            "n{0}.evil.example:9100",
            "n{0}.",
            "vm-{0}",
        ]
        form = str(dice.choice(called))
        self.instances = [form.format(row) for row in rows]
        self.kind = str(dice.choice(["low", "high", "nan", "percent", "negative", "infinite"]))
        self.from_, self.until = dice.choice([0, 200, 400]), dice.choice([SPAN / 2, SPAN, SPAN])
        self.shift = float(dice.choice([-7.0, 0.0, 1.0, 7.0, 40.0]))

    def samples(self, passed: float) -> Iterator[Sample]:
        if not self.from_ <= passed < self.until:
            return
        share = {"low": 0.01, "high": 0.99, "nan": math.nan, "percent": 40.0, "negative": -3.0, "infinite": math.inf}
        for instance in self.instances:
            yield from _node({**self.labels, "instance": instance, "world": self.world}, share[self.kind], passed)


def _node(labels: dict[str, str], share: float, passed: float) -> Iterator[Sample]:
    yield "node_memory_MemTotal_bytes", labels, MEMORY
    yield "node_memory_MemAvailable_bytes", labels, MEMORY * (1 - share)
    for mode, part in (("user", share), ("idle", 1 - share)):
        yield "node_cpu_seconds_total", {**labels, "cpu": "0", "mode": mode}, 1e6 + part * passed


@pytest.mark.parametrize(
    ("pods", "enforced", "least"),
    [(True, True, 0.75), (True, False, 0.3), (False, False, 0.1)],
    ids=["pods enforced", "pods told", "no label of pods"],
)
@pytest.mark.parametrize("seed", [0])
def test_no_job_of_a_tenant_changes_a_number(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, seed: int, pods: bool, enforced: bool, least: float
) -> None:
    folder = tmp_path_factory.mktemp("tenants")
    start = math.floor(time.time()) - SPAN - 60
    worlds = [_Exporters(world, np.random.default_rng([seed, world]), pods=pods) for world in range(WORLDS)]
    tenants = [
        _Tenant(world, number, np.random.default_rng([seed, world, number + 1]), enforced=enforced)
        for world in range(WORLDS)
        for number in range(JOBS)
    ]
    series: dict[str, dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    for passed in range(0, SPAN, STEP):
        for teller in (*worlds, *tenants):
            shift = teller.shift if isinstance(teller, _Tenant) else 0.0
            for metric, labels, value in teller.samples(float(passed)):
                name = ",".join(f'{key}="{_quoted(text)}"' for key, text in sorted(labels.items()))
                series[metric][name].setdefault(start + passed + shift, value)
    lines = []
    for metric, found in sorted(series.items()):
        kind = "counter" if metric.endswith("_total") else "gauge"
        lines.append(f"# TYPE {metric.removesuffix('_total')} {kind}")
        lines += [
            f"{metric}{{{name}}} {value!r} {at}" for name, of in found.items() for at, value in sorted(of.items())
        ]
    import_past(tools, folder, lines)
    nodes = [Node(name=f"n{row}", addresses=(("InternalIP", f"10.9.0.{row}"),)) for row in range(COUNT)]
    shown = [Pod(namespace="monitoring", name=f"ne-{row}", node=f"n{row}") for row in range(COUNT)]
    shown += [
        Pod(namespace=space, name=f"evil-{row}", node=f"n{row}")
        for row in range(COUNT)
        for space in ("tenant", "monitoring")
    ]
    wrong, left_out, known = [], [], 0
    with prometheus(tools, folder, []) as server:
        for world in worlds:
            environment = {
                "BALLAST_PROMETHEUS__URL": server.url,
                "BALLAST_TELEMETRY__RESOURCES": "cpu,memory",
                "BALLAST_PROMETHEUS__MATCHERS": f'world="{world.world}"',
            }
            source, names = PrometheusSource(load(environment), Metrics(), lambda: shown), NodeNames(nodes)
            for passed in (180, 300, 450, 690):
                reading = source.read(start + float(passed), names)
                for resource, samples in reading.samples.items():
                    for row, value in zip(samples.rows.tolist(), samples.values.tolist(), strict=True):
                        if f"n{row}" not in reading.doubtful:
                            known += 1
                            if abs(value - world.truth[row]) > 0.05:
                                wrong.append((world.world, passed, resource, row, value, float(world.truth[row])))
                left_out += [
                    each for each in source.left_out if "node-exporter" in each or "monitoring" in each or "ne-" in each
                ]
            source.close()
    assert not wrong
    assert not left_out
    assert known > least * WORLDS * COUNT * 4 * 2


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
