"""Asks the API server who shows a token, and whether they may read a path: as Kubernetes' own components do."""

from enum import StrEnum

import msgspec

from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.client import KubeApi

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TIMEOUT = 5.0


class TokenVerdict(StrEnum):
    """On one token and one path."""

    ALLOWED = "allowed"
    UNKNOWN = "unknown"
    """Nobody the API server knows."""
    FORBIDDEN = "forbidden"


class _User(msgspec.Struct, gc=False):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(msgspec.Struct, gc=False):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct, gc=False):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct, gc=False):
    allowed: bool = False


class _AccessReview(msgspec.Struct, gc=False):
    status: _AccessStatus


class TokenReviewer:
    """One TokenReview and, for somebody known, one SubjectAccessReview of `get` on the path."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    def __call__(self, token: str, path: str) -> TokenVerdict:
        """Raises ClusterError where the API server does not say."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            status = _tokens.decode(self._api.request("POST", TOKENS, body=body, timeout=TIMEOUT)).status
            if not status.authenticated or status.user is None:
                return TokenVerdict.UNKNOWN
            spec = {
                "user": status.user.username,
                "uid": status.user.uid,
                "groups": status.user.groups,
                "extra": status.user.extra,
                "nonResourceAttributes": {"path": path, "verb": "get"},
            }
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            allowed = _access.decode(self._api.request("POST", ACCESS, body=review, timeout=TIMEOUT)).status.allowed
        except NOT_JSON as error:
            raise ClusterError(f"POST {TOKENS}: not a review ({error})") from error
        return TokenVerdict.ALLOWED if allowed else TokenVerdict.FORBIDDEN


_tokens = msgspec.json.Decoder(_TokenReview)
_access = msgspec.json.Decoder(_AccessReview)
