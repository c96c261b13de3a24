import json
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.serving import watcher_format
from tests.unit.serving.gojay import parse_float
from tests.worlds.board import LENGTHS, TIME, snapshot

NAN = float("nan")
loads = st.one_of(st.floats(0, 1), st.floats(0, 30), st.sampled_from([0.0, 5e-324, 1e-12, 1e-7, 1 / 3, 1.0]))
maybe = st.one_of(st.just(NAN), loads)


def parse(body: bytes) -> dict[str, Any]:
    """Refuses the bare NaN and Infinity that Python's reader would let pass."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(body, parse_constant=refuse)


def written(**options: Any) -> bytes:
    taken = options.pop("taken")
    return watcher_format.document(taken, taken.primary, source="Prometheus", fetched=TIME + 1.7, **options).whole()


def test_the_document_is_byte_for_byte_what_trimaran_reads() -> None:
    taken = snapshot([[0.5], [0.25]], [[0.125], [0.0625]], share=[[0.5], [1.0]])
    assert written(taken=taken) == (
        b'{"timestamp":1700000001,"window":{"duration":"15m","start":1699999100,"end":1700000000},"source":"Prometheus",'
        b'"data":{"NodeMetricsMap":{"node-0":{"metrics":['
        b'{"name":"instance:node_cpu:ratio","type":"CPU","operator":"AVG","rollup":"15m","value":25.0},'
        b'{"name":"instance:node_cpu:ratio","type":"CPU","operator":"STD","rollup":"15m","value":6.25},'
        b'{"name":"instance:node_memory_utilisation:ratio","type":"Memory","operator":"AVG","rollup":"15m","value":25.0},'
        b'{"name":"instance:node_memory_utilisation:ratio","type":"Memory","operator":"STD","rollup":"15m","value":6.25}],'
        b'"tags":{},"metadata":{"dataCenter":""},"age":12}}}}'
    )


def test_cpu_comes_before_memory_whatever_the_order_of_the_resources() -> None:
    taken = snapshot([[0.1], [0.2]], resources=("memory", "cpu"))
    metrics = parse(written(taken=taken))["data"]["NodeMetricsMap"]["node-0"]["metrics"]
    assert [(m["type"], m["operator"]) for m in metrics] == [
        ("CPU", "AVG"),
        ("CPU", "STD"),
        ("Memory", "AVG"),
        ("Memory", "STD"),
    ]
    assert metrics[0]["value"] == pytest.approx(20)


def test_a_node_that_lacks_cpu_or_memory_is_absent_where_both_are_watched() -> None:
    nodes = parse(written(taken=snapshot([[0.1, NAN, NAN, 0.3], [NAN, 0.2, NAN, 0.4]])))["data"]["NodeMetricsMap"]
    assert {name: [m["type"] for m in node["metrics"]] for name, node in nodes.items()} == {
        "node-3": ["CPU", "CPU", "Memory", "Memory"]
    }
    nodes = parse(written(taken=snapshot([[0.1, NAN]], resources=("cpu",))))["data"]["NodeMetricsMap"]
    assert {name: [m["type"] for m in node["metrics"]] for name, node in nodes.items()} == {"node-0": ["CPU", "CPU"]}


def test_a_node_known_only_by_other_resources_is_absent() -> None:
    taken = snapshot([[NAN], [NAN], [0.5]], resources=("cpu", "memory", "disk"))
    assert parse(written(taken=taken, everything=True))["data"]["NodeMetricsMap"] == {}


def test_everything_adds_p95_and_other_resources_under_types_of_their_own() -> None:
    taken = snapshot([[0.1]] * 5, resources=("cpu", "memory", "disk", "network", "gpu"))
    plain = parse(written(taken=taken))["data"]["NodeMetricsMap"]["node-0"]["metrics"]
    metrics = parse(written(taken=taken, everything=True))["data"]["NodeMetricsMap"]["node-0"]["metrics"]
    assert {m["type"] for m in plain} == {"CPU", "Memory"}
    kinds = ["CPU", "Memory", "Storage", "Bandwidth", "GPU"]
    assert [(m["type"], m["operator"]) for m in metrics] == [
        pair for kind in kinds for pair in ((kind, "AVG"), (kind, "STD"), (f"{kind}P95", "P95"))
    ]


def test_values_that_cannot_be_numbers_are_left_out_not_sent() -> None:
    everywhere = [[True] * 5] * 2
    taken = snapshot(
        [[math.inf, 0.1, -0.1, 1e300, 0.5], [NAN, 0.2, NAN, NAN, 0.2]],
        [[0.1, math.inf, 0.1, 0.1, 0.1], [NAN, 0.1, 0.1, 0.1, 0.1]],
        known=everywhere,
    )
    nodes = parse(written(taken=taken))["data"]["NodeMetricsMap"]
    assert {name: [m["type"] for m in node["metrics"]] for name, node in nodes.items()} == {
        "node-4": ["CPU"] * 2 + ["Memory"] * 2
    }


def test_no_nodes_and_no_cpu_or_memory_are_no_nodes() -> None:
    for taken in (snapshot([[], []]), snapshot([[0.5]], resources=("gpu",))):
        assert parse(written(taken=taken, everything=True))["data"] == {"NodeMetricsMap": {}}


def test_times_are_integers_and_the_timestamp_is_never_before_the_end() -> None:
    taken = snapshot([[0.1], [0.1]], time=TIME + 0.9)
    for name, seconds in LENGTHS.items():
        body = parse(watcher_format.document(taken, taken.windows[name], source="x", fetched=TIME - 50).whole())
        assert body["window"] == {"duration": name, "start": int(TIME - seconds), "end": int(TIME)}
        assert body["timestamp"] == int(TIME)


@given(st.lists(st.floats(0, 1e11), min_size=1, max_size=8))
def test_decimals_arrive_bit_exact_in_trimaran(values: list[float]) -> None:
    for value, text in zip(values, watcher_format.decimals(np.array(values)), strict=True):
        assert re.fullmatch(r"\d+(\.\d+)?", text), text
        assert len(text.replace(".", "").strip("0")) <= 15
        assert parse_float(text) == float(text)
        assert abs(Decimal(text) - Decimal(value)) <= max(Decimal("5.1e-9"), Decimal(value) * Decimal("1e-14"))


@given(st.lists(st.tuples(maybe, maybe, st.floats(0, 1), st.floats(0.01, 1)), min_size=1, max_size=6), st.booleans())
def test_any_snapshot_survives_the_wire(rows: list[tuple[float, float, float, float]], everything: bool) -> None:
    cpu, memory, std, share = (list(column) for column in zip(*rows, strict=True))
    taken = snapshot([cpu, memory], [std, std], share=[share, share])
    nodes = parse(written(taken=taken, everything=everything))["data"]["NodeMetricsMap"]
    assert list(nodes) == [node.name for node, known in zip(taken.nodes, taken.known, strict=True) if known]
    for name, node in nodes.items():
        row = taken.rows[name]
        for metric in node["metrics"]:
            if metric["operator"] == "AVG":
                load = cpu[row] if metric["type"] == "CPU" else memory[row]
                assert metric["value"] == pytest.approx(load * share[row] * 100, abs=1e-8, rel=1e-13)
            assert parse_float(f"{Decimal(str(metric['value'])):f}") == metric["value"]


def test_names_are_json_whatever_they_hold() -> None:
    taken = snapshot([[0.1], [0.1]], names=['we"ird\\näme'])
    assert list(parse(written(taken=taken))["data"]["NodeMetricsMap"]) == ['we"ird\\näme']


def test_one_host_is_the_same_fragment_in_the_same_frame() -> None:
    taken = snapshot([[0.1, 0.2], [0.3, 0.4]])
    made = watcher_format.document(taken, taken.primary, source="Prometheus", fetched=TIME)
    host, whole = parse(made.host("node-1") or b""), parse(made.whole())
    assert host["data"]["NodeMetricsMap"] == {"node-1": whole["data"]["NodeMetricsMap"]["node-1"]}
    assert host["window"] == whole["window"]
    assert made.host("nobody") is None
