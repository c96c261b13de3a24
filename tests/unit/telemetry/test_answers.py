import json
import tracemalloc

import numpy as np
import pytest

from ballast.base.answer_budget import IN_FLIGHT, AnswerBudget
from ballast.base.errors import TelemetryError
from ballast.telemetry import responses
from ballast.telemetry.failed_answers import TooLarge
from ballast.telemetry.responses import SeriesTable, grid, instant

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


def of_vector(*series: str) -> bytes:
    return f'{{"status":"success","data":{{"resultType":"vector","result":[{",".join(series)}]}}}}'.encode()


def of_matrix(*series: str) -> bytes:
    return of_vector(*series).replace(b"vector", b"matrix")


NODE = '{{"metric":{{"instance":"10.{0}.1.1:9100"}},"value":[1700000000.123,"0.1234567{0}"]}}'
POD = (
    '{{"metric":{{"ballast_pod":"shop/web-5d4f8c7b9-{0}","container":"web","id":"/kubepods.slice/kubepods-burstable.'
    'slice/kubepods-burstable-pod0f5e1a3c_1f6e_4f5e_9d5c_0123456789ab.slice/cri-containerd-{0:064}.scope",'
    '"instance":"10.0.0.1:10250","namespace":"shop","pod":"web-5d4f8c7b9-{0}"}},"value":[1700000000.123,"0.12345{0}"]}}'
)
ALL = '{{"metric":{{"instance":"10.{0}.1.1:9100","job":"node-{0}","a{0}":"b{0}"}},"value":[1,"1.{0}"]}}'
RANGE = '{{"metric":{{"instance":"{0}"}},"values":[[1,"1.5"],[31,"1.{0}"],[61,"2.{0}"]]}}'
LEAST = '{{"metric":{{}},"value":[1,"1"]}}'


class Counting(AnswerBudget):
    """Remembers the most that was held."""

    most = 0

    def take(self, size: int) -> bool:
        taken = super().take(size)
        self.most = max(self.most, self.held)
        return taken


def decoded(body: bytes, budget: AnswerBudget, *, every: bool = False) -> SeriesTable:
    if b"matrix" in body:
        return grid(body, ["instance"], "http://prometheus", 1, 30, 3, budget=budget)
    return instant(body, ["instance"], "http://prometheus", every=every, budget=budget)


@pytest.mark.parametrize(("form", "every"), [(NODE, False), (POD, False), (LEAST, False), (ALL, True), (RANGE, False)])
def test_what_an_answer_becomes_is_charged(form: str, every: bool) -> None:
    series = [form.format(number) for number in range(3000)]
    body, budget = (of_matrix if form is RANGE else of_vector)(*series), Counting()
    decoded(of_vector(), budget)
    tracemalloc.start()
    try:
        assert len(decoded(body, budget, every=every)) == 3000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * (budget.most + len(body))
    assert budget.held == 0


@pytest.mark.parametrize(("form", "count"), [(NODE, 15_000 * 8), (POD, 150_000)])
def test_the_largest_honest_answers_have_room(form: str, count: int) -> None:
    budget, sample = Counting(), 1000
    decoded(of_vector(*(form.format(number) for number in range(sample))), budget)
    assert budget.most * count // sample < IN_FLIGHT


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (of_vector(*["{}"] * 40_000), "20,0.. series"),
        (of_vector(*[LEAST.format()] * 10_000), "10,00. series and 10,00. points"),
        (of_matrix(f'{{"metric":{{}},"values":[{",".join(["[1,2]"] * 10_000)}]}}'), "2 series and 10,00. points"),
        (of_vector()[:-1] + b',"warnings":[' + b",".join([b'""'] * 80_000) + b"]}", "1 series and 2 points"),
        (
            of_vector(f'{{"metric":{{{",".join([chr(34) * 2 + ":" + chr(34) * 2] * 40_000)}}}}}'),
            "2 series and 1 points",
        ),
    ],
    ids=["empty", "vector", "points", "warnings", "labels"],
)
def test_an_answer_that_becomes_too_much_is_not_decoded(body: bytes, sent: str) -> None:
    budget = AnswerBudget(2**20)
    with pytest.raises(
        TooLarge, match=rf"http://prometheus sent .* MiB with about {sent}.* may take 1 MiB; ask for less"
    ):
        decoded(body, budget)
    assert budget.held == 0


def test_few_series_at_many_times_have_no_room() -> None:
    body = of_matrix(*['{"metric":{},"values":[]}'] * 1000)
    with pytest.raises(TooLarge):
        grid(body, [], "http://prometheus", 0, 1, 11_000)


def test_remarks_without_end_are_not_read() -> None:
    body = of_vector()[:-1] + b',"warnings":["' + b"x" * 2**20 + b'"],"infos":["a"]}'
    table = instant(body, [], "http://prometheus")
    assert table.warnings == ("the answer has remarks of more than 1 MiB, which are not read",)
    assert table.infos == ("a",)
    with pytest.raises(TelemetryError, match="remarks of the answer cannot be read"):
        instant(of_vector()[:-1] + b',"warnings":[1]}', [], "http://prometheus")


def test_room_that_others_hold_is_not_given_twice() -> None:
    budget = AnswerBudget(100_000)
    body = of_vector(*[LEAST.format()] * 100)
    assert len(decoded(body, budget)) == 100
    other = budget.share()
    other.grow(90_000)
    with pytest.raises(TooLarge, match="all telemetry answers together"):
        decoded(body, budget)
    other.release()
    assert len(decoded(body, budget)) == 100
