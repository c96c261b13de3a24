"""A small HTTP client for the tests of the embedded cluster."""

import json
from typing import Any

import requests

from ballast_lab.harness.waiting import HUNG
from ballast_lab.simulator import EmbeddedCluster

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Answer:
    def __init__(self, response: requests.Response) -> None:
        self.code = response.status_code
        self.headers = response.headers
        self.text = response.text

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def lines(self) -> list[Any]:
        """The events of a watch."""
        return [json.loads(line) for line in self.text.splitlines()]


class Client:
    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._url = cluster.url
        self._session = requests.Session()
        self._session.trust_env = False

    def close(self) -> None:
        self._session.close()

    def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **query: Any
    ) -> Answer:
        headers = {"Content-Type": content_type} if body is not None else {}
        data = body if isinstance(body, str | None) else json.dumps(body)
        return Answer(
            self._session.request(method, self._url + path, params=query, data=data, headers=headers, timeout=HUNG)
        )

    def get(self, path: str, **query: Any) -> Answer:
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any) -> Answer:
        return self.ask("POST", path, body)

    def put(self, path: str, body: Any) -> Answer:
        return self.ask("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE, **query: Any) -> Answer:
        return self.ask("PATCH", path, body, content_type, **query)

    def delete(self, path: str, body: Any = None) -> Answer:
        return self.ask("DELETE", path, body)

    def watch(self, path: str, **query: Any) -> list[Any]:
        """All events of a watch, which ends after one second of the cluster's clock."""
        return self.get(path, watch="true", **{"timeoutSeconds": 1, **query}).lines

    def prometheus(self, query: str, **more: Any) -> Answer:
        return self.get("/prometheus/api/v1/query", query=query, **more)
