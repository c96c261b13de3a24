"""The API server's audit log: who asked for what, and what the answer was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

POLICY = yaml.safe_dump(
    {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [
            {"level": "RequestResponse", "resources": [{"group": "", "resources": ["nodes"]}], "verbs": ["patch"]},
            {"level": "Metadata"},
        ],
    }
)


@dataclass(frozen=True)
class Call:
    """`credential` tells tokens of one user apart, `code` is the HTTP status; bodies are kept for node patches only."""

    time: str
    user: str
    credential: str
    verb: str
    group: str
    resource: str
    name: str
    code: int
    uri: str
    agent: str
    request: Any
    response: Any
    permitted: bool
    """Whether the rights of the user allow it; admission may still have refused it."""

    @property
    def forbidden(self) -> bool:
        return self.code == 403


class Audit:
    def __init__(self, path: Path) -> None:
        self.path = path

    def calls(self, *, user: str | None = None, since: int = 0) -> list[Call]:
        """What is in the log from byte `since` on, in order."""
        return [call for call in self._read(since) if user is None or call.user == user]

    def here(self) -> int:
        """A position for `since`."""
        return self.path.stat().st_size

    def _read(self, since: int) -> Iterator[Call]:
        with self.path.open("rb") as log:
            if since:
                log.seek(since - 1)
                log.readline()  # The rest of a line that was being written then.
            for line in log:
                if not line.endswith(b"\n"):  # still being written
                    return
                yield _call(json.loads(line))


def _call(event: dict[str, Any]) -> Call:
    target = event.get("objectRef", {})
    resource = "/".join(filter(None, [target.get("resource"), target.get("subresource")]))
    return Call(
        time=event["requestReceivedTimestamp"],
        user=event["user"]["username"],
        credential="".join(event["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", [])),
        verb=event["verb"],
        group=target.get("apiGroup", ""),
        resource=resource,
        name=target.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        uri=event["requestURI"],
        agent=event.get("userAgent", ""),
        request=event.get("requestObject"),
        response=event.get("responseObject"),
        permitted=event.get("annotations", {}).get("authorization.k8s.io/decision") == "allow",
    )
