"""What the checks read of the cluster: plain documents, each collection once."""

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec

from ballast.base.errors import NOT_JSON, BallastError, ClusterError, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.identity import known_namespace
from ballast.settings import Settings

Document = Mapping[str, Any]

PAGE = 500
OWN_PODS = "app.kubernetes.io/name=ballast"


class CheckNotPossible(BallastError):
    """A check cannot be made without this."""


PROPOSED = "ballast"
"""The namespace that README, docs and the helm line name."""
LABEL = "app.kubernetes.io/name=ballast"


class ClusterView:
    """Of one API server. Collections are kept; `find` and `all` raise CheckNotPossible for what cannot be read."""

    def __init__(self, api: KubeApi, settings: Settings) -> None:
        self.api = api
        self._given = known_namespace(settings.lease.namespace)
        self._kept: dict[tuple[str, str], tuple[Document, ...]] = {}
        self._lock = threading.Lock()
        self.stop = threading.Event()
        """Set when there is no time left for another page of a list."""

    @cached_property
    def namespace(self) -> str:
        """The one that is given, else that of the one Ballast that is installed, else the one that every page names."""
        if self._given is not None:
            return self._given
        try:
            found = self.all("/apis/apps/v1/deployments", labelSelector=LABEL)
        except CheckNotPossible:
            found = ()
        names = {text(deployment, "metadata", "namespace") for deployment in found}
        return names.pop() if len(names) == 1 else PROPOSED

    @cached_property
    def failure(self) -> BallastError | None:
        """What the cheapest question fails with; a question that is refused was answered."""
        try:
            self.api.get("/version")
        except ClusterError as error:
            return error
        return None

    def require_answer(self) -> None:
        """Raises CheckNotPossible where the API server does not answer."""
        if self.failure is not None:
            raise CheckNotPossible("the Kubernetes API does not answer")

    def find(self, path: str) -> Document | None:
        """One object; None where there is none."""
        self.require_answer()
        try:
            return document(self.api, self.api.get(path))
        except NotFound:
            return None
        except ClusterError as error:
            raise CheckNotPossible(f"cannot be read: {error}") from error

    def all(self, path: str, **query: str) -> tuple[Document, ...]:
        """A collection, in pages; `query` such as labelSelector."""
        self.require_answer()
        key = path, repr(sorted(query.items()))
        with self._lock:
            if key not in self._kept:
                try:
                    self._kept[key] = self._list_pages(path, query)
                except ClusterError as error:
                    raise CheckNotPossible(f"cannot be read: {error}") from error
            return self._kept[key]

    def count(self, path: str) -> int | None:
        """How many objects a collection has, by one short page; None where the server does not say."""
        self.require_answer()
        try:
            page = document(self.api, self.api.get(path, query={"limit": 1}))
        except ClusterError as error:
            raise CheckNotPossible(f"cannot be read: {error}") from error
        rest = part(page, "metadata", "remainingItemCount")
        return rest + len(page.get("items") or ()) if isinstance(rest, int) else None

    @cached_property
    def own_pods(self) -> tuple[Document, ...]:
        """Pods of a Ballast in its own namespace, those of hooks left out."""
        pods = self.all(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=OWN_PODS)
        return tuple(pod for pod in pods if text(pod, "status", "phase") in ("Running", "Pending"))

    def _list_pages(self, path: str, query: Mapping[str, str]) -> tuple[Document, ...]:
        items: list[Document] = []
        position = ""
        while True:
            if self.stop.is_set():
                raise CheckNotPossible(f"the list {path} takes too long")
            following = {"continue": position} if position else {}
            page = document(self.api, self.api.get(path, query={**query, "limit": PAGE, **following}))
            items += page.get("items") or ()
            position = text(page, "metadata", "continue")
            if not position:
                return tuple(items)


def document(api: KubeApi, body: bytes) -> Document:
    """A JSON object that `api` answered. Raises ClusterError for anything else."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except NOT_JSON as error:
        said = api.hidden(body)[:80]
        raise ClusterError(f"not an object of the Kubernetes API ({error}): {said!r}") from error


def part(found: Document, *keys: str) -> Any:
    """What stands under these keys; None where anything on the way is absent."""
    value: Any = found
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def text(found: Document, *keys: str) -> str:
    """As `part`, "" where it is absent or no text."""
    value = part(found, *keys)
    return value if isinstance(value, str) else ""


def title(found: Document) -> str:
    """namespace/name of an object."""
    return f"{text(found, 'metadata', 'namespace')}/{text(found, 'metadata', 'name')}"
