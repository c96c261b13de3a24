"""The scheduler's side of an extender, as kube-scheduler asks it with `nodeCacheCapable`."""

from __future__ import annotations

from typing import Any

import requests

TIMEOUT = 2.0
"""Seconds; without an answer the scheduler decides alone."""


class Extender:
    """An extender at `url`, the address that `/filter` and `/prioritize` follow. Without its answer it is ignored."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._session = requests.Session()
        self._session.trust_env = False

    def scores(self, pod: dict[str, Any], names: list[str]) -> dict[str, int] | None:
        """The score of each node that passes its filter, 0..10; None without a usable answer."""
        filtered = self._asked("filter", pod, names)
        passing = filtered.get("NodeNames") if isinstance(filtered, dict) else None
        if isinstance(passing, list):
            names = passing
        if not names:
            return {}
        found = self._asked("prioritize", pod, names)
        try:
            return {each["Host"]: int(each["Score"]) for each in found} if isinstance(found, list) else None
        except (ValueError, KeyError, TypeError):
            return None

    def _asked(self, verb: str, pod: dict[str, Any], names: list[str]) -> object:
        try:
            answer = self._session.post(f"{self._url}/{verb}", json={"Pod": pod, "NodeNames": names}, timeout=TIMEOUT)
            answer.raise_for_status()
            return answer.json()
        except (requests.RequestException, ValueError):
            return None
