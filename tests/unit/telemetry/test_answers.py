from __future__ import annotations

import json

import numpy as np
import pytest

from ballast.errors import TelemetryError
from ballast.telemetry import responses

URL = "http://prometheus"


def body(kind: str, result: object, **more: object) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **more}).encode()


def test_html_points_to_the_address_and_the_login() -> None:
    with pytest.raises(TelemetryError, match=r"HTML instead of JSON.*BALLAST_PROMETHEUS__URL"):
        responses.instant(b"\n<!doctype html><title>Sign in</title>", ["instance"], URL)


@pytest.mark.parametrize("text", [b"", b"null", b"[]", b'{"hello": 1}', b'{"status": "success"', b"\xff\xfe"])
def test_what_is_no_prometheus_json_is_said_so(text: bytes) -> None:
    with pytest.raises(TelemetryError, match=URL):
        responses.instant(text, ["instance"], URL)


def test_an_error_in_a_200_is_an_error() -> None:
    with pytest.raises(TelemetryError, match="query timed out"):
        responses.instant(b'{"status": "error", "errorType": "timeout", "error": "query timed out"}', ["instance"], URL)


@pytest.mark.parametrize("kind", ["scalar", "string"])
def test_a_scalar_is_no_value_per_node(kind: str) -> None:
    with pytest.raises(TelemetryError, match=f"gives a {kind}"):
        responses.instant(body(kind, [1, "1"]), ["instance"], URL)


def test_only_the_wanted_labels_are_kept() -> None:
    result = [
        {"metric": {"instance": "a", "cluster": "x", "job": "j"}, "value": [1, "0.5"]},
        {"metric": {"Hostname": "b"}, "value": [1, "+Inf"]},
        {"metric": {}, "histogram": [1, {"count": "5"}]},
    ]
    table = responses.instant(body("vector", result, warnings=["w"], infos=["i"]), ["Hostname", "instance"], URL)
    assert table.nodes == ["a", "b", ""]
    assert table.clusters == ["x", "", ""]
    assert table.cluster_names() == ["x"]
    assert table.values[:, 0].tolist()[:2] == [0.5, np.inf]
    assert table.unreadable[:, 0].tolist() == [False, False, True]
    assert table.warnings == ("w",)
    assert table.infos == ("i",)


def test_the_node_label_may_be_the_cluster_label() -> None:
    result = [{"metric": {"cluster": name}, "value": [1, "1"]} for name in ("a", "b")]
    table = responses.instant(body("vector", result), ["cluster"], URL)
    assert table.nodes == ["a", "b"]
    assert table.cluster_names() == []


def test_a_grid_keeps_gaps_apart_from_nan() -> None:
    result = [
        {"metric": {"instance": "a"}, "values": [[100, "1"], [130, "NaN"]]},
        {"metric": {"instance": "b"}, "values": [[115.0, "x"], [900, "9"]]},
    ]
    table = responses.grid(body("matrix", result), ["instance"], URL, 100.0, 15.0, 3)
    assert table.present.tolist() == [[True, False, True], [False, True, False]]
    assert table.unreadable.tolist() == [[False] * 3, [False, True, False]]
    assert table.values[0, 0] == 1
    assert np.isnan(table.values[0, 2])


def test_groups_are_taken_apart() -> None:
    result = [
        {"metric": {"instance": "a", "ballast_group": "0"}, "value": [1, "1"]},
        {"metric": {"instance": "a", "ballast_group": "1"}, "value": [1, "2"]},
        {"metric": {"instance": "b"}, "value": [1, "3"]},
    ]
    table = responses.instant(body("vector", result), ["instance"], URL)
    assert table.group("1").nodes == ["a", "b"]
    assert table.group("1").values[:, 0].tolist() == [2, 3]
