"""Requests to the Kubernetes API: the kubernetes package's configuration and authentication, raw bytes in and out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning

from ballast.base import text
from ballast.base.clock import SystemClock
from ballast.base.deadlines import deadline, keep_deadlines
from ballast.base.errors import AnswerTooLarge, ClusterError, SettingsError, Unauthorized, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.api_refusals import refusal, verb_of

CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
_POOL_SIZE = 48
_RELOAD_EVERY = 10.0
_CHUNK = 65536

MOST_BYTES = 32 * 2**20
"""Most bytes of an answer and of a line of a watch. Each holds one object, which has at most 1.5 MiB in etcd."""

# GETs may be sent again on a connection that turned out to be closed; writes never.
_RETRIES = urllib3.Retry(
    total=1, connect=0, read=1, redirect=0, status=0, other=0, allowed_methods=["GET"], respect_retry_after_header=False
)


class ConnectionSettings(Protocol):
    """The part of `settings.cluster` this room reads."""

    @property
    def kubeconfig(self) -> Path | str | None:
        """The kubeconfig file, or None for the usual places."""

    @property
    def context(self) -> str | None:
        """The context of the kubeconfig, or None for its current one."""


def connect(settings: ConnectionSettings, metrics: Metrics, timeout: float = READ_TIMEOUT) -> KubeApi:
    """The API server of BALLAST_CLUSTER__KUBECONFIG, else of KUBECONFIG, else of the pod, else of ~/.kube/config.

    `timeout` is in seconds, for requests that name none. Raises SettingsError when none of these can be used. Sends
    nothing.
    """
    return KubeApi(lambda: load_configuration(settings.kubeconfig, settings.context), metrics, timeout)


def load_configuration(kubeconfig: Path | str | None, context: str | None = None) -> Any:
    """A `kubernetes.client.Configuration` with host, certificates and a way to fresh tokens."""
    import yaml
    from kubernetes import config as package
    from kubernetes.client import Configuration

    config: Any = package

    configuration = Configuration()
    home = Path("~/.kube/config").expanduser()
    path = str(kubeconfig or os.environ.get("KUBECONFIG") or "")
    origin = "BALLAST_CLUSTER__KUBECONFIG" if kubeconfig else "KUBECONFIG"
    try:
        if path:
            config.load_kube_config(path, context, client_configuration=configuration)
        elif "KUBERNETES_SERVICE_HOST" in os.environ or not home.exists():
            origin = "the pod's service account"
            config.load_incluster_config(client_configuration=configuration)
        else:
            origin = str(home)
            config.load_kube_config(str(home), context, client_configuration=configuration)
    except (config.ConfigException, yaml.YAMLError, OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"No usable configuration of a Kubernetes API server: {origin}{f'={path}' if path else ''}: "
            f"{str(error).rstrip('.')}. Set BALLAST_CLUSTER__KUBECONFIG to a kubeconfig file, or run "
            "in a pod with a service account."
        ) from error
    return configuration


class KubeApi:
    """One API server. Safe to use from several threads; every request has a timeout."""

    def __init__(self, load: Callable[[], Any], metrics: Metrics, timeout: float = READ_TIMEOUT) -> None:
        self._load = load
        self._timeout = timeout
        self._metrics = metrics
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._configure()

    @property
    def server(self) -> str:
        """The URL of the API server, without a user."""
        return text.without_user(self._url)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: Any = None,
        content_type: str | None = None,
        timeout: float | None = None,
        most: int = MOST_BYTES,
    ) -> bytes:
        """The answer's body. `body` is sent as it is if bytes, else as JSON; `timeout` is seconds until its last byte.

        Raises a ClusterError for every answer of 400 or more, AnswerTooLarge for one of more than `most` bytes,
        Unreachable without a complete answer, and Unauthorized also when the credentials cannot be read.
        """
        query = query or {}
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
        headers = {"Content-Type": content_type or "application/json"} if body is not None else {}
        seconds = timeout or self._timeout
        with self._count_request(method, path, query) as answered, deadline(seconds):
            response = self._send(method, path, query, headers, body, seconds, stream=False)
            answer = self._whole(response, f"{method} {path}", most)
            answered(response.status)
            if response.status >= 400:
                raise refusal(method, path, query, response.status, response.headers, self.hidden(answer))
            return answer

    def get(
        self,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        timeout: float | None = None,
        most: int = MOST_BYTES,
    ) -> bytes:
        """`request` with the method GET."""
        return self.request("GET", path, query=query, timeout=timeout, most=most)

    def stream(self, path: str, query: Mapping[str, str | int], *, idle: float = 90.0) -> Lines:
        """An answer that arrives line by line; `idle` is how many seconds may pass without a byte.

        Its headers, and a refusal, have the time of other requests in all. Raises as `request` does. The caller closes
        it; another thread may do so at any time.
        """
        with self._count_request("GET", path, query) as answered, deadline(min(self._timeout, idle)) as limit:
            response = self._send("GET", path, query, {}, None, idle, stream=True)
            answered(response.status)
            if response.status >= 400:
                said = self.hidden(self._rest(response))
                raise refusal("GET", path, query, response.status, response.headers, said)
            limit.lift(idle)
            return Lines(response, self._unreachable)

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.clear()

    def _configure(self) -> None:
        from kubernetes.client.rest import RESTClientObject
        from kubernetes.utils.keepalive import tcp_keepalive_socket_options

        configuration = self._load()
        if not configuration.verify_ssl:
            urllib3.disable_warnings(InsecureRequestWarning)
        configuration.connection_pool_maxsize = _POOL_SIZE
        configuration.retries = _RETRIES
        configuration.socket_options = tcp_keepalive_socket_options(idle=15, interval=5, count=3)
        self._configuration = configuration
        self._url = str(configuration.host)
        self._pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        keep_deadlines(self._pool)
        self._configured_at = self._clock.monotonic()

    def _send(self, *request: Any, stream: bool) -> urllib3.BaseHTTPResponse:
        """As `_send_once`; once more where a 401 led to new credentials."""
        response = self._send_once(*request, stream=stream)
        if response.status == 401 and self._reconfigure():
            response.drain_conn()
            response.release_conn()
            response = self._send_once(*request, stream=stream)
        return response

    def _send_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int],
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,
        *,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse:
        url = self._url.rstrip("/") + path + ("?" + urlencode(query) if query else "")
        authorization = self.authorization()
        try:
            return self._pool.request(
                method,
                url,
                headers={
                    "Accept": "application/json",
                    "Accept-Encoding": "identity" if stream else "gzip",
                    "User-Agent": "ballast",
                    **authorization,
                    **headers,
                },
                body=body,
                timeout=urllib3.Timeout(connect=min(CONNECT_TIMEOUT, timeout), read=timeout),
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            raise self._unreachable(error) from error

    def authorization(self) -> dict[str, str]:
        """The header with the token, empty without one.

        Raises Unauthorized when the kubernetes package cannot renew the token, whatever it raises then.
        """
        try:
            with self._lock:
                bearer = self._configuration.auth_settings().get("BearerToken")
        except Exception as error:
            raise Unauthorized(
                f"The credentials for the Kubernetes API at {self.server} cannot be read: {error}. Check the token of "
                "the pod's service account; with BALLAST_CLUSTER__KUBECONFIG, the user of that file."
            ) from error
        return {"Authorization": bearer["value"].strip()} if bearer and bearer["value"] else {}

    def _reconfigure(self) -> bool:
        """After a 401: reads certificates, tokens and exec plugins again, at most every _RELOAD_EVERY seconds."""
        with self._lock:
            if self._clock.monotonic() - self._configured_at < _RELOAD_EVERY:
                return False
            try:
                self._configure()
            except (SettingsError, HTTPError, OSError):
                return False
            return True

    def _whole(self, response: urllib3.BaseHTTPResponse, request: str, most: int) -> bytes:
        chunks, size = [], 0
        try:
            while chunk := response.read(_CHUNK):
                size += len(chunk)
                if size > most:
                    raise AnswerTooLarge(f"{request}: the answer has more than {most / 2**20:g} MiB")
                chunks.append(chunk)
        except (HTTPError, OSError, AnswerTooLarge) as error:
            response.close()
            raise error if isinstance(error, AnswerTooLarge) else self._unreachable(error) from error
        response.release_conn()
        return b"".join(chunks)

    def _rest(self, response: urllib3.BaseHTTPResponse) -> bytes:
        try:
            return response.read(_CHUNK)
        except (HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def hidden(self, said: bytes) -> bytes:
        """`said` without the credentials of this process: a refusal may repeat them."""
        own, proxy = self._configuration, str(self._configuration.proxy or "")
        words = map(text.secrets_of_authorization, (own.api_key or {}).values())
        proxied = (*text.secrets_of_proxy(proxy), *text.secrets_of_headers(own.proxy_headers or {}))
        return text.without_secrets(said, (*text.secrets_of_url(self._url), *proxied, *chain.from_iterable(words)))

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = getattr(error, "reason", None) or error
        return Unreachable(
            f"No answer from the Kubernetes API at {self.server}: {self.hidden(str(reason).encode()).decode()}. "
            "Check that it runs and can be reached from here; BALLAST_CLUSTER__KUBECONFIG chooses another one."
        )

    def _count_request(self, method: str, path: str, query: Mapping[str, object]) -> _Counted:
        return _Counted(self._metrics, verb_of(method, path, query) if method == "GET" else None)


class _Counted:
    """Counts one read request by its outcome."""

    def __init__(self, metrics: Metrics, verb: str | None) -> None:
        self._metrics = metrics
        self._verb = verb
        self._result = "unreachable"

    def __enter__(self) -> Callable[[int], None]:
        return self._note_status

    def _note_status(self, status: int) -> None:
        self._result = "ok" if status < 400 else str(status)

    def __exit__(self, *_: object) -> None:
        if self._verb is not None:
            self._metrics.reads.labels(self._verb, self._result).inc()


class Lines:
    """The complete lines of an answer as they arrive; a last line without its end is dropped.

    Iteration raises AnswerTooLarge for a line of more than MOST_BYTES.
    """

    def __init__(self, response: urllib3.BaseHTTPResponse, failure: Callable[[Exception], ClusterError]) -> None:
        self._response = response
        self._failure = failure
        self._closed = threading.Event()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._response.close()

    def __iter__(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        size = 0
        while data := self._read():
            *lines, tail = data.split(b"\n")
            if lines:
                rest.append(lines[0])
                yield b"".join(rest)
                yield from lines[1:]
                rest, size = [], 0
            if tail:
                rest.append(tail)
                size += len(tail)
            if size > MOST_BYTES:
                raise AnswerTooLarge(f"a line of a watch has more than {MOST_BYTES / 2**20:g} MiB")

    def close(self) -> None:
        """Ends the iteration at once, from any thread."""
        self._closed.set()
        try:
            self._response.shutdown()
        except (RuntimeError, ValueError, OSError):
            self._response.close()

    def _read(self) -> bytes:
        if self._closed.is_set():
            return b""
        try:
            return self._response.read1(_CHUNK)
        except (HTTPError, OSError, ValueError, AttributeError) as error:
            if self._closed.is_set():
                return b""
            raise self._failure(error) from error
