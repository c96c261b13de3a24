"""Files that are no text, or nested without end, get a sentence."""

from pathlib import Path
from typing import Any

import pytest

from ballast.base.errors import BadFile
from ballast.cli.files import ClusterFile, cluster, pod, read_document
from ballast.cli.metrics_file import metrics

DEEP = 100_000
REPEATED = b"\n".join(
    [b"a0: &a0 [x, x]", *(b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9))]
)
"""A few hundred bytes that stand for 86 million values."""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": "ä"}'.encode("latin-1"), "is not UTF-8"),
        (b'[{"metadata": {"name": "\xff\xfe"}}]', "is not UTF-8"),
        ("a: ä".encode("latin-1"), "JSON nor YAML|is not UTF-8"),
        (b"[" * DEEP, "nested too deeply|truncated"),
        (b"[" * DEEP + b"]" * DEEP, "nested too deeply"),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested too deeply"),
        (b"a: " + b"[" * 5000 + b"]" * 5000, "nested too deeply"),
        (b"kind: List\nitems: &a [{kind: List, items: *a}]", "[*]a stands within &a itself"),
        (b"kind: List\nitems: [{kind: Node, metadata: &m {annotations: *m}}]", "[*]m stands within &m itself"),
        (b"&a [&b {c: [*b]}]", "[*]b stands within &b itself"),
        (REPEATED, "aliases stand for more than 1,000,000 values"),
        (b"2026-99-99: x", "JSON nor YAML"),
        (b"\x00\x01\x02", "JSON nor YAML"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "cluster.json"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=says) as refused:
        read_document(path, "--cluster")
    assert f"--cluster {path}" in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_value_may_be_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a}")
    assert read_document(path, "--cluster") == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}], "c": {"x": 1}}


def test_lists_in_lists_have_an_end() -> None:
    document: dict[str, Any] = {"kind": "List", "items": []}
    for _ in range(400):
        document = {"kind": "List", "items": [document]}
    with pytest.raises(BadFile, match="--cluster: lists are nested too deeply"):
        cluster(document, "--cluster")


def test_the_newest_time_is_found_at_any_depth() -> None:
    deep: object = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    for _ in range(5000):
        deep = [deep]
    node = {"kind": "Node", "metadata": {"name": "a"}, "more": deep, "status": {"startTime": "no time"}}
    assert ClusterFile((), (), {"Node": [node]}).newest == 1767225600.0


@pytest.mark.parametrize("value", [1e303, 1e9, -1e303])
def test_a_load_that_nothing_can_have_is_refused(value: float) -> None:
    entry = {"metrics": [{"type": "CPU", "operator": "AVG", "value": value}]}
    with pytest.raises(BadFile, match=r"--metrics: CPU of node n is .* percent; at most 1e\+06"):
        metrics({"data": {"NodeMetricsMap": {"n": entry}}}, "--metrics")


def test_a_pod_with_text_that_is_no_unicode_is_refused() -> None:
    container = {"name": "c", "resources": {"requests": {"\ud800": "1"}}}
    with pytest.raises(BadFile, match=r"cluster: Pod a: .*surrogates"):
        pod({"metadata": {"name": "a"}, "spec": {"containers": [container]}}, "cluster")


def test_a_time_before_all_clocks_is_said() -> None:
    meta = {"name": "n1", "creationTimestamp": "0001-01-01T00:00:00"}
    with pytest.raises(BadFile, match="--cluster: Node n1: year 0"):
        cluster({"items": [{"kind": "Node", "metadata": meta}]}, "--cluster")
