"""Lists a whole collection in pages, so that no page holds the interpreter for more than a few milliseconds."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from ballast.cluster.client import KubeApi
from ballast.cluster.decoding import Reader
from ballast.errors import ClusterError, Gone

T = TypeVar("T")

PAGE = 125
PAUSE = 0.0025
_STARTS = 3


def list_all(
    api: KubeApi, path: str, reader: Reader[T], query: Mapping[str, str | int], stop: threading.Event
) -> tuple[list[T], str] | None:
    """Every object of a collection and the resource version they are all of; None when `stop` was set meanwhile.

    Starts over when the server has forgotten the version of the first page. Raises ClusterError.
    """
    for _ in range(_STARTS):
        try:
            return _pages(api, path, reader, query, stop)
        except Gone:
            continue
    raise Gone(f"GET {path}: the list expired {_STARTS} times before its last page", status=410, reason="Expired")


def _pages(
    api: KubeApi, path: str, reader: Reader[T], query: Mapping[str, str | int], stop: threading.Event
) -> tuple[list[T], str] | None:
    found: list[T] = []
    position = ""
    while True:
        body = api.get(path, query={**query, "limit": PAGE, **({"continue": position} if position else {})})
        try:
            items, meta = reader.page(body)
        except msgspec.DecodeError as error:
            raise ClusterError(
                f"{api.server}{path} does not answer as a Kubernetes API ({error}): {body[:80]!r}. "
                "BALLAST_CLUSTER__KUBECONFIG chooses another server."
            ) from error
        found += items
        position = meta.continue_
        if not position:
            return found, meta.resource_version
        if stop.wait(PAUSE):
            return None
