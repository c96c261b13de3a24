"""List requests: selectors, pages of one consistent state, continue tokens."""

from __future__ import annotations

import base64
import binascii
import bisect
import json
from collections.abc import Mapping, Sequence

from ballast_lab.simulator.kube import selectors
from ballast_lab.simulator.kube.api_errors import bad_request, expired, too_large_version
from ballast_lab.simulator.kube.kinds import Kind
from ballast_lab.simulator.kube.store import Expired, Store, Stored

EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def answer(store: Store, kind: Kind, namespace: str, query: Mapping[str, str]) -> bytes:
    """The encoded list.

    Raises ApiError: 400 for an invalid query, 410 for a token that is too old, 504 for a version that does not exist
    yet.
    """
    selector = selectors.parse(query.get("labelSelector", ""), query.get("fieldSelector", ""))
    limit = _integer(query, "limit")
    revision, listed, start = _state(store, kind, namespace, query, limit)
    page: list[Stored] = []
    last: Stored | None = None
    at = start
    while at < len(listed):
        stored = listed[at]
        if selector is None or selector(stored):
            if limit and len(page) == limit:
                last = page[-1]
                break
            page.append(stored)
        at += 1
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if last is not None:
        metadata["continue"] = _token(revision, last)
        if selector is None:
            metadata["remainingItemCount"] = len(listed) - at
    head = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata}
    items = b",".join([stored.item(kind) for stored in page])
    return json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"items":[' + items + b"]}"


def requested_version(query: Mapping[str, str]) -> int:
    """The `resourceVersion` of a query, 0 without one. Raises ApiError (400)."""
    return _integer(query, "resourceVersion")


def _state(
    store: Store, kind: Kind, namespace: str, query: Mapping[str, str], limit: int
) -> tuple[int, Sequence[Stored], int]:
    """(version of the list, all its objects, index of the page's first)."""
    token = query.get("continue", "")
    if token:
        return _continued(store, kind, namespace, token)
    with store.lock:
        revision = requested_version(query)
        if revision > store.revision:
            raise too_large_version(revision, store.revision)
        if query.get("resourceVersionMatch") == "Exact" and revision != store.revision:
            try:
                return revision, store.frozen(kind, namespace, revision), 0
            except Expired as error:
                raise expired("The resourceVersion for the provided list is too old.") from error
        if limit:
            return *store.freeze(kind, namespace), 0
        return store.revision, store.all(kind, namespace), 0


def _continued(store: Store, kind: Kind, namespace: str, token: str) -> tuple[int, Sequence[Stored], int]:
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=="))
        revision, last = int(content["rv"]), tuple(content["start"].removesuffix("\0").split("/"))
    except (binascii.Error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    key = (last[0], last[-1]) if len(last) > 1 else ("", last[0])
    if revision < 0:
        revision, listed = store.freeze(kind, namespace)
    else:
        try:
            listed = store.frozen(kind, namespace, revision)
        except Expired as error:
            again = _encode({"v": "meta.k8s.io/v1", "rv": -1, "start": content["start"]})
            raise expired(EXPIRED, **{"continue": again}) from error
    return revision, listed, bisect.bisect_right(listed, key, key=lambda stored: (stored.namespace, stored.name))


def _token(revision: int, last: Stored) -> str:
    key = f"{last.namespace}/{last.name}" if last.namespace else last.name
    return _encode({"v": "meta.k8s.io/v1", "rv": revision, "start": key + "\0"})


def _encode(content: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(content, separators=(",", ":")).encode()).decode().rstrip("=")


def _integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f'{name}: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)
