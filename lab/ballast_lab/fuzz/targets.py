"""What is fuzzed: each decoder and parser of what a cluster, a source, a caller or a user gave."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cache
from pathlib import Path

import msgspec

from ballast.actuation.eviction.records import Journal
from ballast.actuation.scaling.scale import decode as scale
from ballast.base.clock import SystemClock
from ballast.base.errors import NOT_JSON, BallastError
from ballast.base.metrics import Metrics
from ballast.cli import files
from ballast.cli.metrics_file import metrics
from ballast.cli.pod_metrics import pod_usage
from ballast.cli.power.inputs import policies
from ballast.cluster import workload_cache
from ballast.cluster.api_refusals import read_status
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import node_reader, pod_reader
from ballast.eviction.annotations import strange
from ballast.jobs.power.store import PowerStore
from ballast.model import devices, duration, selector
from ballast.model.load_limits import quantity
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.stamps import Stamps
from ballast.power.feed_spec import ScheduleSpec
from ballast.publishing.node_keys import window_end
from ballast.scoring import crane
from ballast.serving.extender import ExtenderRoutes, Priorities, Rejections, equal
from ballast.serving.host_index import Hosts
from ballast.serving.refusals import Refusals
from ballast.settings.loading import examine
from ballast.telemetry import pod_usage as pod_telemetry
from ballast.telemetry import responses
from ballast.telemetry.feeds import power_feed, power_schedule
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast_lab.experiments.worlds import worlds
from ballast_lab.solvers.problem_file import problem_of
from tests.worlds import printed

NOW = 1_700_000_000.0
REFUSED = (BallastError, ValueError)
NO_DOCUMENT = (*REFUSED, *NOT_JSON)
"""Of targets that are given a document, which the fuzzer decodes first."""


@dataclass(frozen=True)
class Target:
    """`run` may raise `refusals` alone. `cost` is how many cases of the cheapest target one of its cases stands for."""

    run: Callable[[bytes], object]
    examples: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = ()
    cost: int = 1


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda body: read(body.decode(errors="surrogateescape"))


def _lines(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def _path(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    file = Path(tempfile.mkdtemp(prefix="fuzz")) / "file"

    def run(body: bytes) -> object:
        file.write_bytes(body)
        return read(file)

    return run


NODE = printed.node("a", metadata={"annotations": {"ballast.dev/window": "{}"}, "labels": {"zone": "x"}})
POD = printed.pod(
    *("web-1", "100m", "1Gi", "a"),
    spec={
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]
                }
            }
        },
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
    },
)
WORKLOADS = printed.workload("web", 2)
BUDGET = printed.budget("web", "web", 1)


class _Keep:
    """Any key of the state."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys

    def read(self) -> dict[str, str]:
        return dict(self._keys)

    def stamps(self, key: str) -> Stamps:
        return Stamps(NOW)

    def begin_anew(self, key: str, text: str, error: Exception) -> None:
        """Fuzzing begins anew with each case."""


class _Scheduling:
    def prioritize(
        self, pod: wire.Pod, names: Sequence[str], profile: str | None, *, proved: bool = False
    ) -> Priorities:
        return equal(Hosts(()).named(names), "neutral")

    def filter(self, pod: wire.Pod, names: Sequence[str]) -> Rejections:
        return Rejections(dict.fromkeys(names[:1], "no"))

    def follow(self, busy: Callable[[], bool]) -> None:
        pass

    def settle(self) -> None:
        pass

    def awaits(self, pod: wire.Pod) -> bool:
        return False


@cache
def _routes() -> ExtenderRoutes:
    metrics = Metrics()
    return ExtenderRoutes(_Scheduling(), SystemClock(), metrics, Refusals(metrics, SystemClock(), "extender"))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _call(verb: str) -> Callable[[bytes], object]:
    def run(body: bytes) -> int:
        answer = _routes().answer(verb, b"", body) or _loop().run_until_complete(
            _routes().answer_later(verb, b"", body)
        )
        assert answer.status in (200, 400, 413), answer.status
        return answer.status

    return run


def _read(kind: str) -> Callable[[bytes], object]:
    reader = workload_cache.reader(kind, lambda key: True)
    return reader.read


def _node(read: Callable[[Node], object]) -> Callable[[bytes], object]:
    reader = node_reader(lambda key: True)

    def run(body: bytes) -> object:
        found = reader.read(body)
        return None if found is None else read(found)

    return run


def _pod(read: Callable[[Pod], object]) -> Callable[[bytes], object]:
    reader = pod_reader(lambda key: True)

    def run(body: bytes) -> object:
        found = reader.read(body)
        return None if found is None else read(found)

    return run


def _of_metrics_server(body: bytes) -> object:
    source = MetricsServerSource.__new__(MetricsServerSource)
    source._get = lambda path: body
    return source._items()


_HOMES = pod_telemetry.Homes([Node("a")], [Pod(name="web-1", namespace="shop", node="a")])


def _usage(body: bytes) -> object:
    bodies = {"cpu": body, pod_telemetry.NEWEST: body}
    said = pod_telemetry.PodAnswers(NOW, bodies, {}, ("cpu",), 60.0, 5.0, places=("instance",))
    return pod_telemetry.decode(said, _HOMES).by_pod()


def _usage_of_metrics_server(body: bytes) -> object:
    return pod_telemetry.decode(
        pod_telemetry.PodAnswers(NOW, {pod_telemetry.PATH: body}, {}, ("cpu",), 60.0, 5.0), _HOMES
    ).by_pod()


def _environment(body: bytes) -> object:
    environ = dict(line.split("=", 1) for line in body.decode(errors="replace").split("\n") if "=" in line)
    return examine({name: value for name, value in environ.items() if name != "BALLAST_CONFIG_FILE"})


def _state(key: str) -> Callable[[bytes], object]:
    return _text(lambda text: Journal(_Keep({key: text})).read())  # type: ignore[arg-type]


def _power(text: str) -> object:
    return PowerStore(_Keep({"power.state.site": text, "power.plan.site": text}), "site", shadow=False).read()  # type: ignore[arg-type]


_VECTOR = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [
            {"metric": {"instance": "a:9100", "ballast_pod": "shop/web-1", "cluster": "x"}, "value": [NOW, "0.5"]}
        ],
    },
}
_SCHEDULE = ScheduleSpec(url="http://feed.example/rows")
_MATRIX = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [{"metric": {"instance": "a:9100"}, "values": [[NOW, "0.5"], [NOW + 15, "NaN"]]}],
    },
}
_NODE_METRICS = {"items": [{"metadata": {"name": "a"}, "timestamp": printed.LONG_AGO, "usage": {"cpu": "250m"}}]}
_POD_METRICS = printed.pod_metrics({"shop/web-1": ("100m", "1Gi")})
_PROBLEM = {
    "resources": ["cpu"],
    "weights": {"cpu": 1},
    "nodes": [{"name": "a", "capacity": {"cpu": 4}, "weight": 1}, {"name": "b", "capacity": {"cpu": 4}}],
    "pods": [
        {"name": "p", "request": {"cpu": 1}, "use": {"cpu": 0.5}, "node": "a"},
        {"name": "q", "request": {"cpu": 1}},
    ],
    "rules": {"affine": [["p", "a"]], "forbid": [["q", "a"]], "together": [], "apart": [["p", "q"]]},
}
_POLICY = """
policies:
- name: site
  feed: {semantics: budget, query: site_power_watts, maxAge: 2m}
  members:
  - {kind: Deployment, namespace: shop, name: web, priority: 1, share: 2, min: 1, max: 9, watts: 10}
"""
_ARGS = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}

TARGETS: Mapping[str, Target] = {
    "prioritize": Target(
        _call("prioritize"), [_json(_ARGS), _json({**_ARGS, "Nodes": {"items": [NODE]}, "NodeNames": None})]
    ),
    "filter": Target(_call("filter"), [_json(_ARGS), _json({**_ARGS, "Nodes": {"items": [NODE]}, "NodeNames": None})]),
    "node": Target(_node(devices.devices_of), [_json(NODE)]),
    "pod": Target(_pod(lambda pod: (devices.claim_of(pod), strange(pod.annotations, "ballast.dev"))), [_json(POD)]),
    "page": Target(pod_reader(lambda key: True).page, [_json({"items": [POD], "metadata": {}})], NOT_JSON),
    "workload": Target(_read("Deployment"), [_json(WORKLOADS[0])]),
    "budget": Target(_read("PodDisruptionBudget"), [_json(BUDGET)]),
    "status": Target(read_status, [_json({"kind": "Status", "code": 429, "details": {"causes": [{"reason": "x"}]}})]),
    "scale": Target(
        scale,
        [_json({"spec": {"replicas": 3}, "status": {"replicas": 3}, "metadata": {"resourceVersion": "1"}})],
        REFUSED,
    ),
    "instant": Target(lambda body: responses.instant(body, ("instance",), "url"), [_json(_VECTOR)], (BallastError,)),
    "grid": Target(
        lambda body: responses.grid(body, ("instance",), "url", NOW, 15.0, 3), [_json(_MATRIX)], (BallastError,)
    ),
    "pod usage": Target(_usage, [_json(_VECTOR)]),
    "pod usage of metrics-server": Target(_usage_of_metrics_server, [_json(_POD_METRICS)]),
    "metrics-server": Target(_of_metrics_server, [_json(_NODE_METRICS)], (BallastError,)),
    "feed file": Target(
        _path(lambda path: list(power_feed.trace(path))),
        _lines("time,watts\n1700000000,100\n1700000060,90.5\n", "time,watts\n2023-11-14T22:13:20Z,1e3\n"),
        (BallastError,),
    ),
    "feed path": Target(_text(power_feed.compile_path), _lines("$.site.power[0].watts", "{.a.b}"), (BallastError,)),
    "schedule": Target(
        lambda body: power_schedule._of_document(body, power_feed.compile_path("rows"), _SCHEDULE),
        [_json({"rows": [{"time": NOW, "watts": 100}, [NOW + 60, "90.5"]]})],
        (ValueError,),
    ),
    "eviction state": Target(
        _state("eviction.history"),
        [b'{"version":1,"nodes":["a"],"workloads":["Deployment shop/web"],"evictions":[[1.0,"u",0,0,false]]}'],
        (BallastError,),
    ),
    "plans state": Target(_state("eviction.plans"), [b"[]"], (BallastError,)),
    "reservations state": Target(_state("eviction.reservations"), [b"[]"], (BallastError,)),
    "power state": Target(_text(_power), [b'{"state":{"schema":1,"mode":"steady"},"based":true}'], REFUSED),
    "environment": Target(
        _environment,
        _lines(
            "BALLAST_TELEMETRY__INTERVAL=15s\nBALLAST_WINDOWS__LENGTHS=5m,1h\nBALLAST_PROMETHEUS__URL=http://u:p@h:9090/a?b=c",
            'BALLAST_EVICTION__RATE={"1h":"5%"}\nBALLAST_SCORING__KEYS={"blend":{"weights":{"a":1}}}',
        ),
        (),
        60,
    ),
    "cluster file": Target(
        lambda body: files.cluster(msgspec.json.decode(body)),
        [_json(printed.listed(NODE, POD, *WORKLOADS, BUDGET))],
        NO_DOCUMENT,
        3,
    ),
    "document": Target(
        _path(lambda path: files.read_document(path, "--cluster")),
        [_json(_PROBLEM), b"a: [1, 2]\nb: {c: d}\n"],
        (BallastError,),
        30,
    ),
    "metrics file": Target(
        lambda body: metrics(msgspec.json.decode(body), "m"), [_json(printed.watcher({"a": (30.0, 20.0)}))], NO_DOCUMENT
    ),
    "pod metrics file": Target(
        lambda body: pod_usage(msgspec.json.decode(body), "m"), [_json(_POD_METRICS)], NO_DOCUMENT
    ),
    "problem file": Target(lambda body: problem_of(msgspec.json.decode(body), "p"), [_json(_PROBLEM)], NO_DOCUMENT, 3),
    "policy file": Target(_path(policies), [_POLICY.encode()], (BallastError,), 20),
    "worlds file": Target(_path(worlds), [b'{"a":{"R":[[100,128,0]],"A0":[[4000,8192,100]]}}'], (BallastError,)),
    "quantity": Target(_text(quantity), _lines("100m", "1Gi", "2", "1e3", "0.5k"), (ValueError,)),
    "duration": Target(_text(duration.seconds), _lines("1h30m", "90s", "1d", "PT5M")),
    "selector": Target(_text(selector.parse), _lines("a=b,c!=d", "a in (b,c),!d", "a notin (x)"), REFUSED),
    "window annotation": Target(_text(window_end), [b'{"end":"2023-11-14T22:13:20Z"}']),
    "crane annotation": Target(
        _text(lambda text: crane.read(text, 60.0, NOW, UTC)), _lines("0.25000,2023-11-14T22:13:20Z")
    ),
    "crane policy": Target(
        lambda body: crane.parse_policy(msgspec.json.decode(body)),
        [b'{"spec":{"syncPeriod":[{"name":"cpu_usage_avg_5m","period":"3m"}]}}'],
        NO_DOCUMENT,
    ),
}
