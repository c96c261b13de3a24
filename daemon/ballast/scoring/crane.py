"""A DynamicSchedulerPolicy of gocrane/crane-scheduler, and the annotations on nodes that go with it.

Sources: pkg/plugins/apis/policy/v1alpha1/types.go, pkg/plugins/dynamic/stats.go, pkg/utils/utils.go.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from ballast.base.errors import UsageError
from ballast.model import duration
from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.scoring.keys import LARGEST_WEIGHT, to_number

HOT_VALUE = "node_hot_value"
EXTRA_SECONDS = 300.0
STAMP = "%Y-%m-%dT%H:%M:%SZ"
DEFAULT_TIMEZONE = "Asia/Shanghai"


def _default_policy() -> dict[str, object]:
    metrics = (
        ("usage_avg_5m", "3m", 0.65, 0.2),
        ("usage_max_avg_1h", "15m", 0.75, 0.3),
        ("usage_max_avg_1d", "3h", 0.0, 0.5),
    )
    rows = [(f"{of}_{name}", *rest) for of in ("cpu", "mem") for name, *rest in metrics]
    return {
        "syncPolicy": [{"name": name, "period": period} for name, period, _, _ in rows],
        "predicate": [{"name": name, "maxLimitPecent": limit} for name, _, limit, _ in rows if limit],
        "priority": [{"name": name, "weight": weight} for name, _, _, weight in rows],
        "hotValue": [{"timeRange": "5m", "count": 5}, {"timeRange": "1m", "count": 2}],
    }


DEFAULT_POLICY = {"spec": _default_policy()}
"""What crane-scheduler comes with, deploy/manifests/dynamic/policy.yaml."""

_SHANGHAI = timezone(timedelta(hours=8), DEFAULT_TIMEZONE)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True)
class CranePolicy:
    """`periods` are seconds between syncs by metric; `limits` the fractions above which the filter refuses a node;
    `hot` has pairs of seconds and the number of bindings within them that make one point of hot value."""

    periods: Mapping[str, float]
    limits: Mapping[str, float]
    weights: Mapping[str, float]
    hot: tuple[tuple[float, int], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The annotations it is about."""
        return (*self.periods, HOT_VALUE)


def parse_policy(document: object) -> CranePolicy:
    """Raises UsageError naming the entry: a metric without a period, a name given twice, a count of 0, no weight."""
    if not isinstance(document, Mapping):
        raise UsageError("policy: give a DynamicSchedulerPolicy, an object with a spec.")
    spec = document.get("spec", document)
    if not isinstance(spec, Mapping) or not spec:
        raise UsageError("policy.spec: give syncPolicy, predicate, priority and hotValue.")
    periods = {name: _seconds("syncPolicy", entry, "period") for name, entry in _named(spec, "syncPolicy").items()}
    limits = {name: _number("predicate", entry, "maxLimitPecent") for name, entry in _named(spec, "predicate").items()}
    weights = {name: _number("priority", entry, "weight") for name, entry in _named(spec, "priority").items()}
    for part, names in (("predicate", limits), ("priority", weights)):
        for name in names:
            if name not in periods:
                raise UsageError(f"policy.spec.{part}: {name} has no entry in syncPolicy, so it would never be fresh.")
    if sum(weights.values()) <= 0:
        raise UsageError("policy.spec.priority: the weights sum to 0. Give at least one metric a weight above 0.")
    hot = tuple((_seconds("hotValue", entry, "timeRange"), _count(entry)) for entry in _entries(spec, "hotValue"))
    return CranePolicy(periods, limits, weights, hot)


def time_zone(name: str) -> tzinfo:
    """Asia/Shanghai needs no time zone database; others do. Raises UsageError for an unknown one."""
    if name == DEFAULT_TIMEZONE:
        return _SHANGHAI
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(f"timezone: {name!r} is not known here ({error}). Give an IANA name such as UTC.") from None


def read(text: str | None, period: float, now: float, zone: tzinfo) -> float | None:
    """The number of an annotation `"0.63012,2023-10-17T15:04:32Z"`, whose time is the wall clock of `zone`.

    None when it is absent, malformed, negative, not finite, or older than its period and five minutes.
    """
    parts = (text or "").split(",")
    if len(parts) != 2 or not _NUMBER.fullmatch(parts[0]):
        return None
    stamp = unix(parts[1], zone)
    value = float(parts[0])
    if stamp is None or now >= stamp + period + EXTRA_SECONDS or not 0 <= value < math.inf:
        return None
    return value


@lru_cache(maxsize=65536)
def unix(stamp: str, zone: tzinfo) -> float | None:
    """The Unix time of a stamp, None where it cannot be read."""
    try:
        return datetime.strptime(stamp, STAMP).replace(tzinfo=zone).timestamp()
    except ValueError:
        return None


def bindings(times: Iterable[tuple[int, float]], nodes: int, since: float, until: float) -> Ints:
    """[node]: how many of the (row, Unix time) of bindings were after `since`, up to `until`."""
    rows = [row for row, time in times if since < time <= until]
    return np.bincount(np.array(rows, np.int64), minlength=nodes).astype(np.int64)


def bindings_of(pods: Iterable[Pod], rows: Mapping[str, int], policy: CranePolicy, until: float) -> dict[float, Ints]:
    """{seconds: [node]} for the time ranges of the policy: pods bound on the nodes of `rows` so long before `until`."""
    ranges = [seconds for seconds, _ in policy.hot]
    since = until - max(ranges, default=0.0)
    times = [
        (rows[pod.node], math.floor(pod.scheduled_at))
        for pod in pods
        if pod.scheduled_at is not None and pod.scheduled_at > since and pod.node in rows
    ]
    return {seconds: bindings(times, len(rows), until - seconds, until) for seconds in ranges}


def hot_values(policy: CranePolicy, counts: Mapping[float, Ints]) -> Ints:
    """[node]: a point for each full `count` of bindings; `counts` are bindings by the time range in seconds.

    Source: pkg/controller/annotator/node.go, annotateNodeHotValue.
    """
    total: Ints = np.zeros((), np.int64)
    for seconds, count in policy.hot:
        total = total + counts[seconds] // count
    return total


def _entries(spec: Mapping[str, object], part: str) -> Sequence[Mapping[str, object]]:
    entries = spec.get(part) or ()
    if not isinstance(entries, Sequence) or not all(isinstance(entry, Mapping) for entry in entries):
        raise UsageError(f"policy.spec.{part}: give a list of objects.")
    return entries


def _named(spec: Mapping[str, object], part: str) -> dict[str, Mapping[str, object]]:
    policies: dict[str, Mapping[str, object]] = {}
    for entry in _entries(spec, part):
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError(f"policy.spec.{part}: an entry has no name.")
        if name in policies:
            raise UsageError(f"policy.spec.{part}: {name} is given twice.")
        policies[name] = entry
    return policies


def _number(part: str, entry: Mapping[str, object], key: str) -> float:
    value = to_number(entry.get(key, 0))
    if value is None or not 0 <= value <= LARGEST_WEIGHT:
        raise UsageError(f"policy.spec.{part}: {key} cannot be {entry.get(key)!r}; give a number from 0 to 1e9.")
    return value


def _count(entry: Mapping[str, object]) -> int:
    value = to_number(entry.get("count"))
    if value is None or value < 1 or value != int(value):
        raise UsageError(
            f"policy.spec.hotValue: count cannot be {entry.get('count')!r}; give a whole number from 1 on."
        )
    return int(value)


def _seconds(part: str, entry: Mapping[str, object], key: str) -> float:
    text = entry.get(key)
    seconds = duration.seconds(text, go=True) if isinstance(text, str) else None
    if seconds is None:
        raise UsageError(f"policy.spec.{part}: {key} cannot be {text!r}; give a duration such as 3m or 1h30m.")
    if seconds <= 0:
        raise UsageError(f"policy.spec.{part}: {key} cannot be {text!r}; give a duration above 0.")
    return float(seconds)
