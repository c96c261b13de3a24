"""A counter that goes back, cores that are summed up and modes that are missing make no node look idle."""

import math
import time
from collections import defaultdict

import numpy as np
import pytest

from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.harness.prometheus import import_past, prometheus
from ballast_lab.harness.tools import Tools

SPAN, STEP = 600, 15
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
DRAWN = 500
KINDS = ("sound", "back", "summed", "missing", "turns", "machine restarts", "exporter restarts", "back and missing")


class _Drawn:
    """One node: its counters by core and mode, and the truth."""

    def __init__(self, index: int, dice: np.random.Generator) -> None:
        self.kind = KINDS[index % len(KINDS)]
        self.address = f"10.9.{index // 250}.{index % 250}"
        cores = int(dice.choice([1, 2, 4, 8, 24]))
        small = dice.uniform(0.0, 0.03, (cores, 4))
        waits, stolen = (dice.uniform(0.0, dice.choice([0.02, 0.3]), cores) for _ in range(2))
        user, system = dice.uniform(0.0, 0.35, (2, cores))
        nice, irq, softirq, _ = small.T
        self.shares = np.stack([user, nice, system, 0 * user, waits, irq, softirq, stolen], axis=1)
        self.shares /= np.maximum(1.0, self.shares.sum(axis=1))[:, None]
        self.shares[:, 3] = np.maximum(0.0, 1 - self.shares.sum(axis=1))
        self.before = dice.choice([0.0, 50.0, 1e5, 1e6]) * self.shares
        self.clock, self.dice = bool(dice.random() < 0.7), dice
        mean = self.shares.mean(axis=0)
        self.truth = float(1 - (mean[3] + mean[4]) / (1 - mean[7]))
        self.stored = [True] * len(MODES)
        if "missing" in self.kind:
            for mode in dice.choice(len(MODES), int(dice.integers(1, 4)), replace=False).tolist():
                self.stored[mode] = False
        if not self.stored[0] and not (self.stored[4] and self.stored[7]):
            # Nothing tells whether modes at rest are missing where no time of work is stored.
            self.stored[4] = self.stored[7] = True
        self.steps = [
            (int(dice.integers(cores)), int(dice.integers(8)), float(10 ** dice.uniform(-2, 6)), dice.uniform(470, 560))
            for _ in range(int(dice.integers(1, 4)) if "back" in self.kind else 0)
        ]
        self.steps.sort(key=lambda step: step[-1])
        self.restart = float(dice.uniform(470, 550))

    def samples(self, passed: float) -> list[tuple[str, dict[str, str], float]]:
        labels = {"instance": f"{self.address}:9100", "job": "node-exporter"}
        if self.kind == "exporter restarts" and self.restart <= passed < self.restart + 30:
            return []
        grown = passed
        counted = self.before
        if self.kind == "machine restarts" and passed >= self.restart:
            if passed < self.restart + 60:
                return []
            counted, grown = 0 * self.before, passed - self.restart - 50
        if self.kind == "turns" and int(passed / STEP) % 2:
            counted = self.before * 1.01 + 3.0
        values = counted + grown * self.shares
        for core, mode, back, at in self.steps:
            if passed >= at:
                # It falls, to 0 at most, and counts on from there.
                since = (passed - at) * self.shares[core, mode]
                values[core, mode] = max(0.0, values[core, mode] - since - back) + since
        found = [("node_time_seconds", labels, 1.7e9 + passed)] if self.clock else []
        found.append(("node_memory_MemTotal_bytes", labels, 16e9))
        rows = [("", values.sum(axis=0))] if self.kind == "summed" else [(str(c), v) for c, v in enumerate(values)]
        for core, row in rows:
            for mode, value, stored in zip(MODES, row.tolist(), self.stored, strict=True):
                if stored:
                    of = {**labels, **({"cpu": core} if core else {}), "mode": mode}
                    found.append(("node_cpu_seconds_total", of, value))
        return found


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_load_of_drawn_counters_is_right_or_unknown(
    tools: Tools, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("impossible")
    start = math.floor(time.time()) - SPAN
    drawn = [_Drawn(index, np.random.default_rng([seed, index])) for index in range(DRAWN)]
    series: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for passed in range(0, SPAN, STEP):
        for one in drawn:
            for metric, labels, value in one.samples(float(passed)):
                name = ",".join(f'{key}="{text}"' for key, text in labels.items())
                series[metric][name].append(f"{metric}{{{name}}} {value!r} {start + passed}")
    lines = []
    for metric, found in sorted(series.items()):
        kind = "counter" if metric.endswith("_total") else "gauge"
        lines += [f"# TYPE {metric.removesuffix('_total')} {kind}", *(line for of in found.values() for line in of)]
    import_past(tools, folder, lines)
    names = NodeNames([Node(name=one.address, addresses=(("InternalIP", one.address),)) for one in drawn])
    with prometheus(tools, folder, []) as server:
        environment = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_TELEMETRY__RESOURCES": "cpu"}
        source = PrometheusSource(load(environment), Metrics())
        readings = [source.read(start + SPAN - 30.0 - before, names) for before in (60, 30, 0)]
        source.close()
    by_name = {one.address: one for one in drawn}
    wrong, known = [], defaultdict(set)
    for reading in readings:
        samples = reading.samples["cpu"]
        for row, value in zip(samples.rows.tolist(), samples.values.tolist(), strict=True):
            one = by_name[names.nodes[row].name]
            known[one.kind].add(one.address)
            if abs(value - one.truth) > 0.05:
                wrong.append((one.kind, one.address, value, one.truth))
        unknown = set(by_name) - {names.nodes[row].name for row in samples.rows.tolist()}
        assert set(reading.impossible) <= unknown
        assert sum(by_name[name].kind == "summed" for name in reading.impossible) > DRAWN / len(KINDS) / 2
    assert not wrong
    for kind in ("sound", "exporter restarts"):
        assert known[kind] == {one.address for one in drawn if one.kind == kind}
