"""Errors of the API server: a `Status` object with reason, details and causes.

The messages follow k8s.io/apimachinery pkg/api/errors/errors.go and the registries of kube-apiserver 1.36.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class GroupResource(NamedTuple):
    """A resource and its group, written `plural.group` as in error messages."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True)
class ErrorCause:
    """One cause of a 422; `field` is the path of the field it is about."""

    reason: str
    message: str
    field: str = ""

    def document(self) -> dict[str, str]:
        """The StatusCause object."""
        return {"reason": self.reason, "message": self.message, **({"field": self.field} if self.field else {})}


@dataclass
class ApiError(Exception):
    """An error response of the API server."""

    code: int
    """The HTTP status code."""

    reason: str
    message: str
    details: Mapping[str, Any] | None = None
    """The StatusDetails object."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The ListMeta of the Status object."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """Additional HTTP headers."""

    text: bool = False
    """Whether the body is the plain message instead of a Status object."""

    def __str__(self) -> str:
        return self.message

    def document(self) -> dict[str, Any]:
        """The Status object."""
        document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": dict(self.metadata),
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            document["reason"] = self.reason
        if self.details is not None:
            document["details"] = dict(self.details)
        return {**document, "code": self.code}


def _details(resource: GroupResource, name: str) -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {key: value for key, value in details.items() if value}


def success(
    resource: GroupResource | None = None, name: str = "", uid: str = "", code: int | None = None
) -> dict[str, Any]:
    """The Status of a successful request that returns no object."""
    document: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if resource is not None:
        document["details"] = {**_details(resource, name), "uid": uid}
    if code is not None:
        document["code"] = code
    return document


def not_found(resource: GroupResource, name: str) -> ApiError:
    """404 of an object that does not exist."""
    return ApiError(404, "NotFound", f'{resource} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    """404 of a path that is not served, as plain text."""
    return ApiError(404, "NotFound", "404 page not found", text=True)


def no_such_resource() -> ApiError:
    """404 of a resource that its served group does not have."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: GroupResource, name: str) -> ApiError:
    """409 of a create."""
    return ApiError(409, "AlreadyExists", f'{resource} "{name}" already exists', _details(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: GroupResource, name: str, why: str = MODIFIED) -> ApiError:
    """409 of a resource version, a UID or a precondition that does not match."""
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name))


def forbidden(resource: GroupResource, name: str, why: str) -> ApiError:
    """403 of RBAC."""
    subject = f'{resource} "{name}"' if name else str(resource)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _details(resource, name))


def unauthorized() -> ApiError:
    """401 of wrong credentials."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> ApiError:
    """400 with this message."""
    return ApiError(400, "BadRequest", message)


def wrong_kind(given: str, version: str, kind: str) -> ApiError:
    """400 of a body of another kind than the URL's."""
    return bad_request(f'{given} in version "{version}" cannot be handled as a {kind}: unknown conversion')


def wrong_name(given: str, name: str) -> ApiError:
    """400 of a body with another name than the URL's."""
    return bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def invalid(group: str, kind: str, name: str, causes: Sequence[ErrorCause]) -> ApiError:
    """422, with one cause for each invalid field."""
    qualified = f"{kind}.{group}" if group else kind
    listed = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = listed[0] if len(listed) == 1 else "[" + ", ".join(listed) + "]"
    details = {**_details(GroupResource(group, kind), name), "causes": [cause.document() for cause in causes]}
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def invalid_value(path: str, value: object, why: str) -> ErrorCause:
    """The cause of an invalid value at a field path."""
    return ErrorCause("FieldValueInvalid", f"Invalid value: {json.dumps(value)}: {why}", path)


def expired(message: str, **metadata: Any) -> ApiError:
    """410 of a resource version or a continue token that is too old."""
    return ApiError(410, "Expired", message, metadata=metadata)


def too_large_version(requested: int, current: int) -> ApiError:
    """504 of a resource version that does not exist yet."""
    return ApiError(
        504,
        "Timeout",
        f"Timeout: Too large resource version: {requested}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        headers={"Retry-After": "1"},
    )


def disruption_refused(message: str, retry_after: int = 0) -> ApiError:
    """429 of the eviction subresource; it has a Retry-After only while the budget is still being processed."""
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    return ApiError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details,
        headers={"Retry-After": str(retry_after)} if retry_after else {},
    )


def overloaded(retry_after: int) -> ApiError:
    """429 of API priority and fairness: plain text with Retry-After."""
    return ApiError(
        429,
        "TooManyRequests",
        "Too many requests, please try again later.",
        headers={"Retry-After": str(retry_after)},
        text=True,
    )


def internal(message: str) -> ApiError:
    """500 with this cause."""
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def unavailable() -> ApiError:
    """503 of the aggregator for an API whose service does not answer."""
    return ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request")


def unsupported_patch() -> ApiError:
    """415 of a patch of an unknown type."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def unsupported_media(*accepted: str) -> ApiError:
    """415 of a body that is not of an accepted media type."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
    )


def method_not_allowed() -> ApiError:
    """405 of a verb that the resource does not have."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
