"""The Kubernetes API over HTTP: discovery, and all verbs on the served kinds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ballast.base.clock import Clock
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.kube import kinds, listing, openapi, patching, subresources
from ballast_lab.simulator.kube.api_errors import (
    ApiError,
    GroupResource,
    bad_request,
    forbidden,
    internal,
    method_not_allowed,
    no_such_path,
    no_such_resource,
    overloaded,
    success,
    unauthorized,
    unavailable,
    unsupported_media,
    unsupported_patch,
)
from ballast_lab.simulator.kube.kinds import BY_PATH, Kind
from ballast_lab.simulator.kube.requests import Request, parse
from ballast_lab.simulator.kube.resources import Document, ObjectApi
from ballast_lab.simulator.kube.watch import Watchers, WatchStream

USER = "system:serviceaccount:ballast:ballast"
REVIEWS = ("authorization.k8s.io", "selfsubjectaccessreviews")
PATCH_TYPES = (patching.MERGE, patching.STRATEGIC)


class KubeApiServer:
    """An ASGI application. It counts every request in `requests` by (verb, resource)."""

    def __init__(
        self,
        resources: ObjectApi,
        faults: Faults,
        clock: Clock,
        *,
        requests: Counter[tuple[str, str]],
        token: str,
        bookmark_seconds: float,
    ) -> None:
        self.resources = resources
        self.watchers = Watchers(resources.store)
        self._faults = faults
        self._clock = clock
        self._requests = requests
        self._token = token
        self._bookmark_seconds = bookmark_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        http = HttpRequest(scope, receive)
        watch = http.query_params.get("watch") in ("true", "1")
        request = parse(http.method, http.url.path, watch=watch)
        if request.resource:
            self._requests[request.verb, request.full_resource] += 1
        try:
            self._check_access(http, request)
            response: ASGIApp = await self._answer(http, request)
        except ApiError as error:
            response = error_response(error)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    def aggregated(self, http: HttpRequest, request: Request, answer: Callable[[], Response], fault: str) -> Response:
        """The response of an aggregated API behind the same access checks; 503 while `fault` is on."""
        try:
            self._check_access(http, request)
            if self._faults.on(fault):
                raise unavailable()
        except ApiError as error:
            return error_response(error)
        return answer()

    def _check_access(self, http: HttpRequest, request: Request) -> None:
        """Raises ApiError for overload, wrong credentials or missing rights."""
        if (values := self._faults.values("kube_429")) is not None:
            raise overloaded(values["retry_after"])
        if self._faults.on("kube_500"):
            raise internal("etcdserver: request timed out")
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        if self._faults.on("kube_401") or (scheme == "Bearer" and token != self._token):
            raise unauthorized()
        if request.resource and self._faults.denied(request.verb, request.full_resource):
            where = f'in the namespace "{request.namespace}"' if request.namespace else "at the cluster scope"
            why = (
                f'User "{USER}" cannot {request.verb} resource "{request.full_resource}" '
                f'in API group "{request.group}" {where}'
            )
            raise forbidden(GroupResource(request.group, request.resource), request.name, why)

    async def _answer(self, http: HttpRequest, request: Request) -> ASGIApp:
        if not request.resource:
            return self._discover(http)
        if (request.group, request.resource, request.verb) == (*REVIEWS, "create"):
            return self._review(await _body(http))
        kind = BY_PATH.get((request.group, request.version, request.resource))
        if kind is None or (request.subresource and request.subresource not in kind.subresources):
            served = not request.group or kinds.group(request.group, metrics=True) is not None
            raise no_such_resource() if served else no_such_path()
        if request.verb == "list":
            query = http.query_params
            return _json(listing.answer(self.resources.store, kind, request.namespace, query))
        if request.verb == "watch":
            return self._watch(http, kind, request)
        if request.verb == "get":
            return self._get(kind, request)
        if request.subresource in ("binding", "eviction") and request.verb != "create":
            raise method_not_allowed()
        body = await _body(http)
        if request.verb == "create":
            return self._create(http, kind, request, body)
        if request.verb in ("update", "patch") and request.name:
            return self._write(http, kind, request, body)
        if request.verb == "delete":
            return self._delete(http, kind, request, body)
        if request.verb == "deletecollection":
            return self._delete_all(http, kind, request, body)
        raise method_not_allowed()

    def _discover(self, http: HttpRequest) -> Response:
        path = http.url.path.rstrip("/")
        metrics = not self._faults.on("metrics_server_missing")
        parts = path.split("/")[1:]
        document: object = None
        if path in ("/healthz", "/livez", "/readyz"):
            return PlainTextResponse("ok")
        if path == "/version":
            document = kinds.version()
        elif path == "/api":
            document = kinds.core_versions(http.url.netloc)
        elif path == "/apis":
            document = kinds.group_list(metrics=metrics)
        elif parts == ["api", "v1"]:
            document = kinds.resource_list("", "v1")
        elif parts[0] == "apis" and len(parts) == 2:
            document = kinds.group(parts[1], metrics=metrics)
        elif parts[0] == "apis" and len(parts) == 3:
            document = kinds.resource_list(parts[1], parts[2])
        elif path == "/openapi/v3":
            document = openapi.index()
        elif path.startswith("/openapi/v3/"):
            document = openapi.document(path.removeprefix("/openapi/v3/"))
        elif path == "":
            document = {
                "paths": ["/api", "/api/v1", "/apis", "/faults", "/healthz", "/power", "/prometheus", "/version"]
            }
        if document is None and len(parts) == 3 and kinds.group(parts[1], metrics=metrics) is not None:
            raise no_such_resource()
        if document is None:
            raise no_such_path()
        return _json(json.dumps(document).encode())

    def _watch(self, http: HttpRequest, kind: Kind, request: Request) -> ASGIApp:
        query = dict(http.query_params)
        if request.name:
            query["fieldSelector"] = f"metadata.name={request.name}"
        return WatchStream(
            self.resources.store,
            self.watchers,
            self._faults,
            kind,
            request.namespace,
            query,
            self._clock.speed,
            self._bookmark_seconds,
        )

    def _review(self, body: Document) -> Response:
        """A SelfSubjectAccessReview: everything is allowed but what the fault `kube_forbidden` names."""
        asked = (body.get("spec") or {}).get("resourceAttributes") or {}
        names = [asked[key] for key in ("resource", "subresource") if asked.get(key)]
        allowed = not self._faults.denied(str(asked.get("verb", "")), "/".join(names))
        return _json(json.dumps({**body, "status": {"allowed": allowed}}).encode(), 201)

    def _get(self, kind: Kind, request: Request) -> Response:
        stored = self.resources.get(kind, request.namespace, request.name)
        if request.subresource == "scale":
            return _json(msgspec.json.encode(subresources.scale_of(kind, stored)))
        return _json(stored.raw)

    def _create(self, http: HttpRequest, kind: Kind, request: Request, body: Any) -> Response:
        dry, manager = _options(http)
        if request.subresource == "binding":
            target = (body.get("target") or {}).get("name", "")
            return _json(
                json.dumps(subresources.bind(self.resources, request.namespace, request.name, target)).encode(), 201
            )
        if request.subresource == "eviction":
            done = subresources.evict(self.resources, request.namespace, request.name, body, dry=dry)
            return _json(json.dumps(done).encode(), 201)
        if request.name:
            raise method_not_allowed()
        stored = self.resources.create(kind, request.namespace, body, manager=manager, dry=dry)
        return _json(stored.raw, 201)

    def _write(self, http: HttpRequest, kind: Kind, request: Request, body: Any) -> Response:
        dry, manager = _options(http)
        patch_type = ""
        if request.verb == "patch":
            patch_type = http.headers.get("content-type", "").partition(";")[0].strip()
        if request.subresource == "scale":
            scale = subresources.write_scale(
                self.resources,
                kind,
                request.namespace,
                request.name,
                body,
                patch_type=patch_type,
                manager=manager,
                dry=dry,
            )
            return _json(msgspec.json.encode(scale))
        where = (kind, request.namespace, request.name)
        if patch_type:
            stored = self.resources.patch(
                *where, patch_type, body, subresource=request.subresource, manager=manager, dry=dry
            )
            return _json(stored.raw)
        existed = self.resources.store.get(*where) is not None
        stored = self.resources.replace(*where, body, subresource=request.subresource, manager=manager, dry=dry)
        return _json(stored.raw, 200 if existed else 201)

    def _delete(self, http: HttpRequest, kind: Kind, request: Request, body: Any) -> Response:
        dry, _ = _options(http)
        options = _delete_options(http, body)
        deleted = self.resources.delete(kind, request.namespace, request.name, options, dry=dry)
        if kind is kinds.POD:
            return _json(deleted.raw)
        return _json(json.dumps(success(kind.resource, deleted.name, deleted.uid)).encode())

    def _delete_all(self, http: HttpRequest, kind: Kind, request: Request, body: Any) -> Response:
        listed = listing.answer(self.resources.store, kind, request.namespace, http.query_params)
        options = _delete_options(http, body)
        for item in json.loads(listed)["items"]:
            metadata = item["metadata"]
            self.resources.delete(kind, metadata.get("namespace", ""), metadata["name"], options)
        return _json(listed)


def error_response(error: ApiError) -> Response:
    """An error as a Status object, or as plain text."""
    headers = dict(error.headers)
    if error.text:
        return PlainTextResponse(error.message + "\n", error.code, headers)
    return _json(json.dumps(error.document()).encode(), error.code, headers)


def _json(body: bytes, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, code, headers, media_type="application/json")


async def _body(http: HttpRequest) -> Any:
    """The decoded body; {} if it is empty."""
    raw = await http.body()
    if not raw:
        return {}
    content_type = http.headers.get("content-type", "application/json").partition(";")[0].strip()
    if http.method == "PATCH" and content_type not in PATCH_TYPES:
        raise unsupported_patch()
    if not content_type.endswith("json"):
        raise unsupported_media("application/json")
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        what = "error decoding patch" if http.method == "PATCH" else "the object provided is unrecognized"
        raise bad_request(f"{what}: {error}") from error


def _options(http: HttpRequest) -> tuple[bool, str]:
    query = http.query_params
    return query.get("dryRun") == "All", query.get("fieldManager", "")


def _delete_options(http: HttpRequest, body: Any) -> Document:
    options = dict(body) if isinstance(body, dict) else {}
    grace = http.query_params.get("gracePeriodSeconds")
    return {**options, "gracePeriodSeconds": int(grace)} if grace is not None else options
