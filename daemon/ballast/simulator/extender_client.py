"""The scheduler's side of an extender, as kube-scheduler asks it with `nodeCacheCapable`."""

from __future__ import annotations

from typing import Any

import requests

TIMEOUT = 2.0
"""Seconds; without an answer the scheduler decides alone."""


class Extender:
    """An extender at `url`, the address that `/prioritize` follows."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/prioritize"
        self._session = requests.Session()
        self._session.trust_env = False

    def scores(self, pod: dict[str, Any], names: list[str]) -> dict[str, int] | None:
        """The score of each node, 0..10; None without a usable answer."""
        try:
            answer = self._session.post(self._url, json={"Pod": pod, "NodeNames": names}, timeout=TIMEOUT)
            answer.raise_for_status()
            return {each["Host"]: int(each["Score"]) for each in answer.json()}
        except (requests.RequestException, ValueError, KeyError, TypeError):
            return None
