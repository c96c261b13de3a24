"""The leader's page, asked by a replica that stands by: one truth from whichever replica answers.

The address comes from the EndpointSlice by which the leader tells where it is. The caller's own token goes along, so
the leader judges it again; where the page has TLS, the leader has to show the certificate of this replica.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import urllib3

from ballast.base.clock import Clock
from ballast.base.deadlines import deadline, keep_deadlines
from ballast.base.errors import NOT_JSON, BallastError, ClusterError
from ballast.cluster.client import KubeApi

PAGE_PORT = "ballast.dev/page-port"
"""Annotation of the EndpointSlice: the port of the page, where the extender may have one of its own."""

FORWARDED = "ballast-forwarded"
"""Header of a request that a standby passes on; nobody passes it on again."""

TIMEOUT = 5.0
"""Seconds for the whole answer."""

CONNECT_TIMEOUT = 2.0

MOST_BYTES = 32 * 2**20
"""Bytes of an answer as it is sent."""

KNOWN_FOR = 2.0
"""Seconds for which an address counts, also that there is none."""

SENT = ("accept-encoding", "authorization", "if-none-match")
"""Headers of the caller that go along."""

KEPT = ("content-type", "content-encoding", "etag", "vary", "cache-control", "retry-after", "www-authenticate")
"""Headers of the leader's answer that the caller gets."""


class LeaderUnreachable(BallastError):
    """Why the leader's answer is missing, and where to get it."""


@dataclass(frozen=True)
class LeaderAnswer:
    """As the leader sent it; the body as it was encoded."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Tls:
    """Files of the certificate that every replica shows."""

    certificate: Path
    key: Path


class LeaderPage:
    """Any thread may call it."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        *,
        path: str,
        pod: str | None,
        tls: Tls | None,
        standing_by: Callable[[], str | None],
    ) -> None:
        """`path` is that of the EndpointSlice, `pod` this replica's own; `standing_by` says who leads instead."""
        self._api, self._clock, self._path, self._pod, self._tls = api, clock, path, pod, tls
        self._standing_by = standing_by
        self._known: tuple[float, str] | None = None

    def get(self, path: str, headers: Mapping[str, str]) -> LeaderAnswer:
        """`path` with its query; `headers` are those of the caller. Raises LeaderUnreachable."""
        sent = {name: value for name, value in headers.items() if name in SENT} | {FORWARDED: self._pod or "standby"}
        try:
            with deadline(TIMEOUT), self._connections() as pool:
                answer = pool.request(
                    "GET", self._address() + path, headers=sent, preload_content=False, redirect=False
                )
                try:
                    body = answer.read(MOST_BYTES + 1, decode_content=False)
                finally:
                    answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError, ClusterError) as error:
            raise self._unreachable(str(error)) from error
        if len(body) > MOST_BYTES:
            raise self._unreachable(f"its answer has more than {MOST_BYTES:,} bytes")
        return LeaderAnswer(
            answer.status, {name: answer.headers[name] for name in KEPT if name in answer.headers}, body
        )

    def _unreachable(self, why: str) -> LeaderUnreachable:
        who = self._standing_by() or "this replica has just begun to lead"
        return LeaderUnreachable(
            f"{who}; it has this answer and could not be asked: {why}. Ask it by `kubectl port-forward` to its pod, or "
            "again in some seconds"
        )

    def _connections(self) -> urllib3.PoolManager:
        options: dict[str, Any] = {} if self._tls is None else {"ssl_context": _trusting(self._tls)}
        pool = urllib3.PoolManager(
            1, retries=False, timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=TIMEOUT), **options
        )
        keep_deadlines(pool)
        return pool

    def _address(self) -> str:
        """The beginning of the leader's URLs. Raises ClusterError."""
        now, known = self._clock.monotonic(), self._known
        if known is None or now - known[0] >= KNOWN_FOR:
            known = now, self._read()
            # Another thread may have asked before the leader changed: nobody's address is not kept.
            self._known = known if known[1] else None
        if not known[1]:
            raise ClusterError("the EndpointSlice of the extender's Service names no other replica")
        return known[1]

    def _read(self) -> str:
        try:
            found = _decoder.decode(self._api.get(self._path, timeout=CONNECT_TIMEOUT))
            endpoint = next(iter(found.endpoints or ()), None)
            port = found.metadata.annotations.get(PAGE_PORT, "")
            if endpoint is None or not port.isdecimal() or endpoint.target.name == (self._pod or ""):
                return ""
            address = str(ip_address(next(iter(endpoint.addresses), "")))
        except (*NOT_JSON, ValueError) as error:
            raise ClusterError(f"the EndpointSlice of the extender's Service cannot be read: {error}") from error
        host = f"[{address}]" if ":" in address else address
        return f"{'https' if self._tls else 'http'}://{host}:{port}"


class _Meta(msgspec.Struct):
    annotations: dict[str, str] = {}


class _Target(msgspec.Struct):
    name: str = ""


class _Endpoint(msgspec.Struct):
    addresses: list[str]
    target: _Target = msgspec.field(default_factory=_Target, name="targetRef")


class _Slice(msgspec.Struct):
    metadata: _Meta
    endpoints: list[_Endpoint] | None = None


_decoder = msgspec.json.Decoder(_Slice)


def _trusting(tls: Tls) -> ssl.SSLContext:
    """Trusts the certificate of this replica alone, whatever its names; shows it where one is asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    first, end, _ = tls.certificate.read_text().partition("-----END CERTIFICATE-----")
    context.load_verify_locations(cadata=first + end + "\n")
    context.load_cert_chain(tls.certificate, tls.key)
    return context
