"""What the API server's audit log tells of Ballast's writes, and what kind of write each is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

AGENT = "ballast-under-fault"
"""The user agent of daemons under faults begins so; their name follows after a slash."""

POLICY = yaml.safe_dump(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "None", "verbs": ["get", "list", "watch"]},
            {"level": "None", "namespaces": ["kube-node-lease", "kube-system"]},
            {"level": "RequestResponse", "users": ["admin"]},
            {"level": "None"},
        ],
    }
)
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PATTERNS = (
    ("lease", re.compile(r"/leases(/|$)")),
    ("endpoint", re.compile(r"/endpointslices(/|$)")),
    ("event", re.compile(r"/events(/|$)")),
    ("scale", re.compile(r"/scale$")),
    ("cap", re.compile(r"/(horizontalpodautoscalers|scaledobjects)/")),
    ("eviction", re.compile(r"/eviction$")),
    ("gate", re.compile(r"/pods/[^/]+$")),
    ("node", re.compile(r"^/api/v1/nodes/[^/]+$")),
    ("state", re.compile(r"/configmaps(/|$)")),
)


def kind_of(method: str, path: str, body: Any) -> str:
    """What a request writes; empty for one that writes nothing. `plan` is a state with an open plan."""
    if method not in _WRITES:
        return ""
    path = path.partition("?")[0]
    kind = next((name for name, pattern in _PATTERNS if pattern.search(path)), "other")
    if kind == "node":
        return _node_kind(body)
    if kind == "state":
        return "plan" if any(".plan" in key for key in (body or {}).get("data") or {}) else "state"
    if kind == "gate" and "annotations" in (body or {}).get("metadata", {}):
        return "deletion-cost"
    return kind


def _node_kind(body: Any) -> str:
    if "taints" in (body or {}).get("spec", {}):
        return "taint"
    metadata = (body or {}).get("metadata", {})
    if "labels" in metadata:
        return "labels"
    keys = metadata.get("annotations") or {}
    return "labels" if any(key.endswith("/window") for key in keys) else "crane"


@dataclass(frozen=True)
class Event:
    """One write that the API server answered. Times are Unix seconds; `version` is the answer's resourceVersion, by
    which writes of one etcd are in order, 0 without one; `subject` is namespace/name of the object."""

    who: str
    kind: str
    subject: str
    received: float
    at: float
    code: int
    version: int = 0
    body: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)
    verb: str = "patch"
    uid: str = ""

    @property
    def done(self) -> bool:
        return 200 <= self.code < 300


def parse(lines: Iterable[bytes]) -> Iterator[Event]:
    """The writes of daemons under faults, as the log has them; what the API server only tried (`dryRun`) is none."""
    marker = f'"{AGENT}/'.encode()
    for line in lines:
        if line.endswith(b"\n") and marker in line:
            raw = json.loads(line)
            if "All" not in parse_qs(urlsplit(raw["requestURI"]).query).get("dryRun", ()):
                yield event(raw)


def event(raw: Mapping[str, Any]) -> Event:
    """One audit event."""
    target = raw.get("objectRef", {})
    body, answer = raw.get("requestObject") or {}, raw.get("responseObject") or {}
    name = target.get("name") or (answer.get("metadata") or {}).get("name") or ""
    method = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}.get(raw["verb"], "GET")
    version = str((answer.get("metadata") or {}).get("resourceVersion") or "")
    uid = ((body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid") or target.get("uid") or ""
    return Event(
        who=raw["userAgent"].partition("/")[2],
        kind=kind_of(method, raw["requestURI"], body),
        subject=f"{target.get('resource')}:{target.get('namespace', '')}/{name}",
        received=_seconds(raw["requestReceivedTimestamp"]),
        at=_seconds(raw["stageTimestamp"]),
        code=(raw.get("responseStatus") or {}).get("code", 0),
        version=int(version) if version.isdigit() else 0,
        body=body,
        answer=answer,
        verb=raw["verb"],
        uid=uid,
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
