"""The Kubernetes API, raw: JSON in, JSON out, loud on anything unexpected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import requests

from ballast_lab.harness.waiting import HUNG

Json: TypeAlias = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Refused(AssertionError):
    """The API server answered with an error; `status` is the HTTP status."""

    def __init__(self, call: str, status: int, body: str) -> None:
        super().__init__(f"{call}: {status} {body[:400]}")
        self.status = status


class Api:
    """One user's view of one API server. Close it, or use it as a context manager."""

    def __init__(self, url: str, token: str, ca: Path) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(ca)
        self._session.headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._session.close()

    def raw(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> requests.Response:
        data = None if body is None else body if isinstance(body, str) else json.dumps(body)
        return self._session.request(method, self.url + path, data=data, headers={"Content-Type": kind}, timeout=HUNG)

    def call(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> Json:
        answer = self.raw(method, path, body, kind=kind)
        if answer.status_code >= 400:
            raise Refused(f"{method} {path}", answer.status_code, answer.text)
        found = answer.json()
        assert isinstance(found, dict)
        return found

    def get(self, path: str) -> Json:
        return self.call("GET", path)

    def items(self, path: str) -> list[Json]:
        return list(self.get(path)["items"])

    def post(self, path: str, body: object) -> Json:
        return self.call("POST", path, body)

    def put(self, path: str, body: object) -> Json:
        return self.call("PUT", path, body)

    def patch(self, path: str, body: object, *, kind: str = MERGE) -> Json:
        return self.call("PATCH", path, body, kind=kind)

    def delete(self, path: str, body: Mapping[str, object] | None = None) -> Json:
        return self.call("DELETE", path, body)

    def ready(self) -> bool:
        return self.raw("GET", "/readyz").status_code == 200
