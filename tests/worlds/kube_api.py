"""An API server in memory: objects with resource versions, merge patches, conflicts. No sockets, no threads."""

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ballast.base.errors import Conflict, NotFound


def merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class FakeApi:
    """`before` is called with (method, path, body) ahead of every request, `after` behind every change."""

    server = "https://fake"

    def __init__(self, objects: Mapping[str, Any] | None = None) -> None:
        self.version = 100
        self.objects: dict[str, Any] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.before: Callable[[str, str, Any], None] = lambda *_: None
        self.after: Callable[[str, str, Any], None] = lambda *_: None
        self._lock = threading.Lock()
        for path, item in (objects or {}).items():
            self._store(path, item)

    def get(self, path: str, *, query: Any = None, timeout: float | None = None) -> bytes:
        return self.request("GET", path, query=query, timeout=timeout)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Any = None,
        body: Any = None,
        content_type: str | None = None,
        timeout: float | None = None,
    ) -> bytes:
        self.before(method, path, body)
        with self._lock:
            self.requests.append((method, path, copy.deepcopy(body)))
            answer = msgspec.json.encode(self._answer(method, path, copy.deepcopy(body)))
        if method != "GET":
            self.after(method, path, body)
        return answer

    @property
    def writes(self) -> list[tuple[str, str, Any]]:
        return [request for request in self.requests if request[0] != "GET"]

    def _answer(self, method: str, path: str, body: Any) -> Any:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                raise Conflict(f"{path} already exists", status=409, reason="AlreadyExists")
            return self._store(path, body)
        if path not in self.objects:
            raise NotFound(f"{path} not found", status=404)
        old = self.objects[path]
        if method == "GET":
            return old
        if (wanted := body["metadata"].get("resourceVersion")) and wanted != old["metadata"]["resourceVersion"]:
            raise Conflict(f"{path} is at another version", status=409)
        return self._store(path, merged(old, body) if method == "PATCH" else body)

    def _store(self, path: str, item: Any) -> Any:
        self.version += 1
        item = copy.deepcopy(item)
        item.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.objects[path] = item
        return item
