"""Lists a whole collection in pages, so that no page takes more than a few megabytes or milliseconds."""

import threading
from collections.abc import Mapping
from typing import Generic, TypeVar

from ballast.base.errors import NOT_JSON, AnswerTooLarge, ClusterError, Gone
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Reader

T = TypeVar("T")

PAGE = 125
"""Most objects of a page."""

PAGE_BYTES = 4 * 2**20
"""Bytes that a page should have: the size of one page decides how many objects the next one asks for."""

MOST_BYTES = 12 * 2**20
"""A page of more is not read to its end, but asked again with a quarter of the objects."""

LARGEST_OBJECT = 32 * 2**20
"""Bytes of a page of one object. An object in etcd has 1.5 MiB unless the server was told otherwise."""

PAUSE = 0.0025
_STARTS = 3


def list_all(
    api: KubeApi, path: str, reader: Reader[T], query: Mapping[str, str | int], stop: threading.Event
) -> tuple[list[T], str] | None:
    """Every object of a collection and the resource version they are all of; None when `stop` was set meanwhile.

    Starts over when the server has forgotten the version of the first page. Raises ClusterError.
    """
    pages = _Pages(api, path, reader, query)
    for _ in range(_STARTS):
        try:
            return pages.read(stop)
        except Gone:
            continue
    raise Gone(f"GET {path}: the list expired {_STARTS} times before its last page", status=410, reason="Expired")


class _Pages(Generic[T]):
    def __init__(self, api: KubeApi, path: str, reader: Reader[T], query: Mapping[str, str | int]) -> None:
        self._api, self._path, self._reader, self._query = api, path, reader, query
        self._limit = PAGE

    def read(self, stop: threading.Event) -> tuple[list[T], str] | None:
        self._reader.budget.renew()
        objects: list[T] = []
        position = ""
        while True:
            items, meta = self._page(position)
            objects += items
            position = meta.continue_
            if not position:
                return objects, meta.resource_version
            if stop.wait(PAUSE):
                return None

    def _page(self, position: str) -> tuple[list[T], wire.ListMeta]:
        body = self._body(position)
        self._limit = max(1, min(PAGE, 2 * self._limit, self._limit * PAGE_BYTES // max(1, len(body))))
        try:
            return self._reader.page(body)
        except NOT_JSON as error:
            said = self._api.hidden(body)[:80]
            raise ClusterError(
                f"{self._api.server}{self._path} does not answer as a Kubernetes API ({error}): {said!r}. "
                "BALLAST_CLUSTER__KUBECONFIG chooses another server."
            ) from error

    def _body(self, position: str) -> bytes:
        while True:
            query = {**self._query, "limit": self._limit, **({"continue": position} if position else {})}
            most = MOST_BYTES if self._limit > 1 else LARGEST_OBJECT
            try:
                return self._api.get(self._path, query=query, most=most)
            except AnswerTooLarge:
                if self._limit == 1:
                    raise
                self._limit = max(1, self._limit // 4)
