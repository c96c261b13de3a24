"""The wire of a scheduler's extender."""

import json
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import hypothesis
import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from ballast.base.errors import UsageError
from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.serving import bounded_protocol
from ballast.serving.extender import MAX_BODY, NEUTRAL_HEADER, PAUSES, Priorities, Rejections
from ballast.serving.extender_wire import MOST_NAMES, MOST_NODES, prioritize_args
from ballast.serving.host_index import Hosts, compact
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast_lab.harness.waiting import HUNG
from tests.unit.serving.client import Answer, ask
from tests.worlds.board import LOOPBACK, board_of

POD = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"containers": [{"name": "c"}]}}
NAMES = ["a", "b", "c"]
NODES = [
    {"metadata": {"name": name, "labels": {"zone": "ä"}}, "status": {"allocatable": {"cpu": "4"}}} for name in NAMES
]


class Fake:
    """Chooses the first name and leaves out the last one."""

    def __init__(self, neutral: str | None = None) -> None:
        self.neutral = neutral
        self.awaited = 0
        self.asked: list[tuple[wire.Pod, list[str], str | None]] = []
        self.proved: list[bool] = []

    def prioritize(
        self, pod: wire.Pod, names: Sequence[str], profile: str | None, *, proved: bool = False
    ) -> Priorities:
        if profile == "nonsense":
            raise UsageError("There is no strategy 'nonsense'.")
        self.proved.append(proved)
        self.asked.append((pod, list(names), profile))
        points = np.full(len(names), 5)
        return Priorities(Hosts(NAMES).named(names).priorities(points, None if self.neutral else 0), self.neutral)

    def follow(self, busy: Callable[[], bool]) -> None:
        pass

    def settle(self) -> None:
        pass

    def awaits(self, pod: wire.Pod) -> bool:
        self.awaited -= 1
        return self.awaited >= 0

    def filter(self, pod: wire.Pod, names: Sequence[str]) -> Rejections:
        self.asked.append((pod, list(names), None))
        return Rejections({} if self.neutral else {names[-1]: "too much load"}, self.neutral)


@contextmanager
def serving(scheduling: Fake, metrics: Metrics | None = None) -> Iterator[int]:
    server = Server(create_app(board_of(None), metrics or Metrics(), scheduling), LOOPBACK)
    port = server.start()
    try:
        yield port
    finally:
        server.stop()


def post(port: int, path: str, body: Any, kind: str = "application/json") -> Answer:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(port, path, "POST", sent, content_type=kind)


FORMS = [{"Pod": POD, "NodeNames": NAMES, "Nodes": None}, {"Pod": POD, "Nodes": {"items": NODES}, "NodeNames": None}]


@pytest.mark.parametrize("args", FORMS, ids=["names", "nodes"])
def test_both_forms_are_prioritized(args: Any) -> None:
    fake = Fake()
    with serving(fake) as port:
        answer = post(port, "/scheduler/prioritize", args)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 5}, {"Host": "c", "Score": 5}]
    [(pod, names, profile)] = fake.asked
    assert (pod.metadata.uid, names, profile) == ("u", NAMES, None)
    assert NEUTRAL_HEADER not in answer.headers


def test_names_are_filtered() -> None:
    with serving(Fake()) as port:
        answer = post(port, "/scheduler/filter", FORMS[0])
    assert answer.json == {
        "NodeNames": ["a", "b"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"c": "too much load"},
        "Error": "",
    }


def test_whole_nodes_are_filtered_and_come_back_as_they_were() -> None:
    with serving(Fake()) as port:
        answer = post(port, "/scheduler/filter", FORMS[1])
    assert answer.json["Nodes"]["items"] == NODES[:2]
    assert answer.json["FailedAndUnresolvableNodes"] == {"c": "too much load"}
    assert "NodeNames" not in answer.json


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
def test_a_neutral_answer_says_why_in_a_header_and_a_metric(verb: str) -> None:
    metrics = Metrics()
    with serving(Fake("old-snapshot"), metrics) as port:
        answer = post(port, f"/scheduler/{verb}", FORMS[0])
        shown = ask(port, "/metrics").body.decode()
    assert answer.status == 200
    assert answer.headers["x-ballast-neutral"] == "old-snapshot"
    assert 'ballast_extender_neutral_total{reason="old-snapshot"} 1.0' in shown
    assert f'ballast_extender_requests_total{{result="neutral",verb="{verb}"}} 1.0' in shown
    if verb == "prioritize":
        assert {each["Score"] for each in answer.json} == {5}


def test_the_profile_is_passed_on_and_a_wrong_one_is_400_in_words() -> None:
    fake = Fake()
    with serving(fake) as port:
        assert post(port, "/scheduler/prioritize?profile=load-variation", FORMS[0]).status == 200
        wrong = post(port, "/scheduler/prioritize?profile=nonsense", FORMS[0])
    assert fake.asked[0][2] == "load-variation"
    assert (wrong.status, wrong.json) == (400, {"error": "There is no strategy 'nonsense'."})


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"{}", b'{"Pod": null}', b'{"Pod": {}, "NodeNames": 3}', b"\xff\xfe", b'{"Pod": "x"}'],
)
def test_what_cannot_be_read_is_400(verb: str, body: bytes) -> None:
    with serving(Fake()) as port:
        answer = post(port, f"/scheduler/{verb}", body)
    assert answer.status == 400
    assert answer.json["error"].startswith("The body is no ExtenderArgs")


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/json5"])
def test_another_content_type_is_415(verb: str, kind: str) -> None:
    metrics = Metrics()
    with serving(Fake(), metrics) as port:
        answer = post(port, f"/scheduler/{verb}", FORMS[0], kind)
        assert post(port, f"/scheduler/{verb}", FORMS[0], "Application/JSON; charset=utf-8").status == 200
        shown = ask(port, "/metrics").body.decode()
    assert (answer.status, "send application/json" in answer.json["error"]) == (415, True)
    assert f'ballast_extender_requests_total{{result="refused",verb="{verb}"}} 1.0' in shown


def test_a_body_above_the_limit_is_413_before_it_is_sent() -> None:
    with serving(Fake()) as port:
        answer = ask(port, "/scheduler/filter", "POST", b"", content_type="application/json")
        assert answer.status == 400
        too_large = ask(
            port, "/scheduler/filter", "POST", None, content_type="application/json", content_length=str(MAX_BODY + 1)
        )
    assert too_large.status == 413


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"Pod":{"metadata":{"name":"p","x":%b},"spec":{}},"NodeNames":["a"]}' % DEEP,
        b'{"Pod":{"metadata":{"name":"p"},"spec":{}},"Nodes":{"items":[{"metadata":{"name":"a"},"x":%b}]}}' % DEEP,
        b'{"Pod":{"metadata":{"name":"p"},"spec":{}},"NodeNames":%b}' % DEEP,
    ],
    ids=["pod", "nodes", "names"],
)
def test_what_is_nested_beyond_measure_is_400(verb: str, body: bytes) -> None:
    with serving(Fake()) as port:
        assert post(port, f"/scheduler/{verb}", body).status == 400


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
def test_more_names_than_any_cluster_has_nodes_are_413(verb: str) -> None:
    with serving(Fake()) as port:
        answer = post(port, f"/scheduler/{verb}", {"Pod": POD, "NodeNames": ["a"] * (MOST_NAMES + 1)})
    assert (answer.status, answer.json) == (413, {"error": "There are more than 250,000 names in NodeNames."})


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("key", ["metadata", "\\u006detadata"], ids=["plain", "escaped"])
def test_more_whole_nodes_than_a_body_can_hold_are_413(verb: str, key: str) -> None:
    item = f'{{"{key}":{{"name":"a"}}}}'
    items = ",".join([item] * (MOST_NODES + 1))
    body = f'{{"Pod":{json.dumps(POD)},"Nodes":{{"items":[{items}]}},"NodeNames":null}}'.encode()
    with serving(Fake()) as port:
        answer = post(port, f"/scheduler/{verb}", body)
    assert answer.status == 413
    assert answer.json["error"].startswith("There are more than 50,000 nodes in Nodes; ")


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("item", ["{}", "0", "null", "[]"])
def test_what_is_no_node_ends_the_decoding_at_once(verb: str, item: str) -> None:
    """Also where the same key was null before: the last one counts."""
    items = ",".join([item] * 400_000)
    body = f'{{"Pod":{json.dumps(POD)},"Nodes":null,"Nodes":{{"items":[{items}]}},"NodeNames":null}}'.encode()
    with serving(Fake()) as port:
        assert post(port, f"/scheduler/{verb}", body).status == 400


@pytest.mark.parametrize("args", FORMS, ids=["names", "nodes"])
def test_a_defect_in_deciding_is_a_neutral_answer(args: Any) -> None:
    class Broken(Fake):
        def prioritize(
            self, pod: wire.Pod, names: Sequence[str], profile: str | None, *, proved: bool = False
        ) -> Priorities:
            raise ZeroDivisionError

        def filter(self, pod: wire.Pod, names: Sequence[str]) -> Rejections:
            raise ZeroDivisionError

    with serving(Broken()) as port:
        equal = post(port, "/scheduler/prioritize", args)
        unfiltered = post(port, "/scheduler/filter", args)
    assert (equal.status, equal.headers[NEUTRAL_HEADER]) == (200, "failed")
    assert equal.json == [{"Host": name, "Score": 5} for name in NAMES]
    assert (unfiltered.status, unfiltered.headers[NEUTRAL_HEADER]) == (200, "failed")
    assert unfiltered.json["FailedAndUnresolvableNodes"] == {}


def test_only_post_is_answered() -> None:
    with serving(Fake()) as port:
        assert ask(port, "/scheduler/filter").status == 405


def test_ten_megabytes_of_names_are_answered() -> None:
    names = [f"{'x' * 90}{number}" for number in range(100_000)]
    with serving(Fake()) as port:
        answer = post(port, "/scheduler/prioritize", {"Pod": POD, "NodeNames": names})
    assert answer.status == 200
    assert len(answer.json) == len(names)
    assert answer.json[-1] == {"Host": names[-1], "Score": 5}


def test_neither_form_is_an_empty_answer() -> None:
    with serving(Fake("unknown-nodes")) as port:
        assert post(port, "/scheduler/prioritize", {"Pod": POD}).json == []
        assert post(port, "/scheduler/filter", {"Pod": POD}).json["NodeNames"] == []


NAME = st.text(max_size=8) | st.sampled_from(["a" * 7, "a" * 8, "a" * 15, "a" * 16, "a" * 40, "a" * 41, "b" + "a" * 15])


@hypothesis.given(
    st.lists(NAME, max_size=12, unique=True), st.lists(st.tuples(NAME, st.integers(0, 9)), max_size=20), st.data()
)
def test_the_answer_is_what_json_would_be(known: list[str], asked: list[tuple[str, int]], data: st.DataObject) -> None:
    names = [name for name, _ in asked]
    expected = [{"Host": name, "Score": points} for name, points in asked]
    chosen = data.draw(st.none() | st.integers(0, len(asked) - 1)) if asked else None
    if chosen is not None:
        expected[chosen]["Score"] = 10
    hosts = Hosts(known)
    raw = json.dumps(names, separators=(",", ":"), ensure_ascii=data.draw(st.booleans())).encode()
    for each in (names, names, compact(raw) or names, compact(raw) or names):
        named = hosts.named(each)
        points = np.array([points for _, points in asked], np.int64)
        assert json.loads(named.priorities(points, chosen)) == expected
        assert [hosts.names[row] for row in named.rows] == [name for name in names if name in known]
        assert named.everybody == (sorted(name for name in names if name in known) == sorted(known))


@hypothesis.given(st.lists(NAME, max_size=6), st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", ":")]))
def test_names_are_the_strings_of_the_list_however_it_is_written(names: list[str], written: tuple[str, str]) -> None:
    raw = json.dumps(names, separators=written).encode()
    found = compact(raw)
    body = b'{"Pod":%b,"NodeNames":%b}' % (json.dumps(POD).encode(), raw)
    assert found is None or list(found) == names
    assert list(prioritize_args(body)[1]) == names


@hypothesis.given(
    st.lists(st.sampled_from(["a", "b", "NodeNames", "é"]), max_size=3),
    st.lists(
        st.tuples(
            st.integers(0, 100),
            st.integers(0, 3),
            st.sampled_from(
                ['"', "x", ",", "]", "[", "{", "}", ":", "\n", "\\", "", '"NodeNames":["a"]', '"NodeNames":[']
            ),
        ),
        max_size=3,
    ),
)
@hypothesis.example(["a"], [(72, 1, "x")])
def test_a_body_is_read_as_json_or_refused(names: list[str], changes: list[tuple[int, int, str]]) -> None:
    body = json.dumps({"Pod": {"metadata": {"uid": "u"}}, "Nodes": None, "NodeNames": names}, separators=(",", ":"))
    for start, length, text in changes:
        body = body[:start] + text + body[start + length :]
    try:
        pod, found = prioritize_args(body.encode())
        read = list(found)
    except msgspec.DecodeError:
        return
    expected = json.loads(body)
    assert read == (expected.get("NodeNames") or [])
    assert pod.metadata.uid == expected["Pod"].get("metadata", {}).get("uid", "")


@pytest.mark.parametrize("between", ["x", " ", ":", "]", "\n"])
def test_names_are_divided_by_commas(between: str) -> None:
    body = b'{"Pod":%b,"Nodes":null,"NodeNames":["a"%b"b"]}' % (json.dumps(POD).encode(), between.encode())
    with serving(Fake("unknown-nodes")) as port:
        assert post(port, "/scheduler/prioritize", body).status == 400


@pytest.mark.parametrize("raw", ["1", "{}", "[1]", '["a",1]', '{"a":"b"}', '[["a","b"]]', '["a",["b"]]', "[]", "null"])
def test_only_a_list_of_strings_names_nodes(raw: str) -> None:
    assert compact(raw.encode()) is None
    with serving(Fake("unknown-nodes")) as port:
        answer = post(
            port, "/scheduler/prioritize", b'{"Pod":%b,"NodeNames":%b}' % (json.dumps(POD).encode(), raw.encode())
        )
    assert answer.status == (200 if raw in ("[]", "null") else 400)


def test_thousands_of_names_in_any_order_are_found() -> None:
    known = [f"node-{number}.example" for number in range(5000)]
    asked = [*random.Random(1).sample(known, 4000), "node-5000.example", "node-1.exampl", "node-1.example."]
    names = compact(json.dumps(asked, separators=(",", ":")).encode())
    assert names is not None
    assert [known[row] if row >= 0 else None for row in Hosts(known).locate(names)] == [*asked[:4000], None, None, None]


LONG = "n" * 254
LARGE_PODS: dict[str, Any] = {
    "containers": {"spec": {"containers": [{}] * 501}},
    "init containers": {"spec": {"containers": [{}] * 250, "initContainers": [{}] * 251}},
    "many containers": {"spec": {"containers": [{}] * 400_000}},
    "name": {"metadata": {"name": LONG}},
    "namespace": {"metadata": {"namespace": LONG}},
    "uid": {"metadata": {"uid": LONG}},
    "owner": {"metadata": {"ownerReferences": [{"kind": "ReplicaSet", "name": "a", "uid": LONG}]}},
    "label": {"metadata": {"labels": {"k" * 318: "v"}}},
    "label's value": {"metadata": {"labels": {"k": LONG}}},
    "scheduler": {"spec": {"schedulerName": LONG * 4000}},
    "node": {"spec": {"nodeName": LONG}},
    "selector": {"spec": {"nodeSelector": {"k": LONG}}},
    "kinds of resources": {"spec": {"containers": [{"resources": {"requests": {f"r{n}": "1" for n in range(101)}}}]}},
    "quantity": {"spec": {"containers": [{"resources": {"requests": {"cpu": "0." + "1" * 63}}}]}},
    "limit": {"spec": {"initContainers": [{"resources": {"limits": {"memory": "1" * 900_000}}}]}},
    "overhead": {"spec": {"overhead": {"cpu": "1" * 65}}},
    "resource": {"spec": {"resources": {"requests": {"r" * 318: "1"}}}},
    "size": {"metadata": {"annotations": {"a": "b" * 2_100_000}}},
}


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("what", LARGE_PODS)
@pytest.mark.parametrize("names_last", [True, False], ids=["as Go writes it", "another order"])
def test_fields_beyond_what_kubernetes_allows_are_400(verb: str, what: str, names_last: bool) -> None:
    fake = Fake()
    pod = {"metadata": {}, "spec": {}} | LARGE_PODS[what]
    args = {"Pod": pod, "Nodes": None, "NodeNames": NAMES}
    body = args if names_last else dict(reversed(args.items()))
    with serving(fake) as port:
        answer = post(port, f"/scheduler/{verb}", json.dumps(body, separators=(",", ":")).encode())
    assert (answer.status, fake.asked) == (400, [])
    assert len(answer.body) < 300


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
@pytest.mark.parametrize("form", ["names", "nodes"])
def test_names_of_nodes_beyond_what_kubernetes_allows_are_400(verb: str, form: str) -> None:
    names = ["a", LONG]
    args = {
        "names": {"Pod": POD, "Nodes": None, "NodeNames": names},
        "nodes": {"Pod": POD, "Nodes": {"items": [{"metadata": {"name": name}} for name in names]}},
    }[form]
    metrics = Metrics()
    with serving(Fake(), metrics) as port:
        assert post(port, f"/scheduler/{verb}", json.dumps(args, separators=(",", ":")).encode()).status == 400
    assert metrics.registry.get_sample_value("ballast_http_refused_total", {"code": "400", "port": "page"}) == 1


def test_fields_at_the_limits_are_read() -> None:
    pod = {
        "metadata": {"name": "n" * 253, "labels": {"k" * 317: "v" * 63}},
        "spec": {"containers": [{"resources": {"requests": {"cpu": "1" * 64}}}] * 500},
    }
    with serving(Fake()) as port:
        assert post(port, "/scheduler/prioritize", {"Pod": pod, "NodeNames": ["a" * 253]}).status == 200


def test_bodies_without_an_end_leave_room_for_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "READ_TIMEOUT", 120)
    metrics = Metrics()
    head = b"POST /scheduler/prioritize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    head += b"content-length: %d\r\n\r\n"
    size = 20 * 1024 * 1024
    with serving(Fake(), metrics) as port, ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HUNG))
            with suppress(ConnectionError):  # a refused body's connection is closed
                client.sendall(head % (size + 1) + b" " * size)
        answers = [post(port, "/scheduler/prioritize", FORMS[0]).status for _ in range(3)]
        shown = ask(port, "/metrics").body.decode()
    assert answers == [200, 200, 200]
    refused = next(line for line in shown.splitlines() if line.startswith('ballast_http_refused_total{code="503"'))
    assert float(refused.split()[-1]) == 2


def test_a_long_list_of_unknown_names_is_not_kept() -> None:
    hosts = Hosts(["a", "b"])
    few, many = compact(b'["a","x","y"]'), compact(json.dumps(["z" * 50] * 1000, separators=(",", ":")).encode())
    assert few is not None
    assert many is not None
    kept = hosts.named(few)
    hosts.named(many)
    assert hosts.named(few) is kept


@pytest.mark.parametrize("awaited", [1, 1000])
def test_a_pod_that_room_may_be_held_for_is_awaited_for_a_moment(awaited: int) -> None:
    fake = Fake()
    fake.awaited = awaited
    with serving(fake) as port:
        assert post(port, "/scheduler/prioritize", FORMS[0]).status == 200
    assert awaited - fake.awaited == min(awaited, len(PAUSES)) + 1
