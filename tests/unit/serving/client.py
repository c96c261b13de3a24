"""A small HTTP client that shows exactly what was on the wire."""

import http.client
import json
from dataclasses import dataclass
from typing import Any

from ballast_lab.harness.waiting import HUNG


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """One request on a connection of its own; header names with `_` for `-`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HUNG)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=named)
        response = connection.getresponse()
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, lowered, response.read())
    finally:
        connection.close()
