"""One HTTP connection to a telemetry server: credentials, deadline, retries and a limit for the body."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

import requests
import tenacity
import urllib3
from requests.auth import AuthBase, _basic_auth_str
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from ballast.base import text
from ballast.base.answer_budget import ANSWERS, AnswerBudget, AnswerShare
from ballast.base.clock import Clock, SystemClock
from ballast.base.deadlines import DeadlineAdapter
from ballast.base.deadlines import deadline as whole_deadline
from ballast.base.errors import SettingsError, SourceUnavailable, TelemetryError, without_frames
from ballast.settings.prometheus import PrometheusSettings
from ballast.settings.secrets import SecretFile
from ballast.telemetry.failed_answers import (
    NoConnection,
    coded_twice,
    in_words_of,
    masked,
    refused,
    too_large,
    too_slow,
    unreachable,
)

MAX_BODY = 64 * 2**20
_CHUNK = 64 * 2**10
LONG_REFUSAL = 2**16
"""Bytes of an error after which nobody reads on."""
_ATTEMPTS = 3
_REFUSAL = re.compile(rb'\s*\{\s*"status"\s*:\s*"error"')
_REMARKS = (b'"warnings"', b'"infos"')
_RETRIED_STATUS = frozenset((429, 502, 503, 504))


Credentials = Callable[[], str | None]
"""Gives the Authorization header, None without credentials. Raises SourceUnavailable."""


@dataclass(frozen=True)
class HttpAccess:
    """How a server is verified, and what it is shown."""

    credentials: Credentials | None = None
    """By default those of the address."""
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Callable[[], Mapping[str, str]] = dict
    """More headers, read for each request. Raises SourceUnavailable."""
    verify: str | bool = True
    """A file of CA certificates; True: those of the system; False: any certificate is accepted."""
    cert: tuple[str, str] | None = None
    """Files of a client certificate and its key."""


def prometheus_credentials(settings: PrometheusSettings) -> Credentials | None:
    """Those of BALLAST_PROMETHEUS__*, a token before a user name; None where nothing is set.

    Files are checked at each request, so that rotated secrets count at once.
    """
    if settings.token_file is not None:
        token_file = SecretFile(settings.token_file, "BALLAST_PROMETHEUS__TOKEN_FILE")
        return lambda: f"Bearer {_read_secret(token_file)}"
    if settings.token is not None:
        token = settings.token.get_secret_value().strip()
        return lambda: f"Bearer {token}"
    if settings.username is not None:
        user, path = settings.username, settings.password_file
        password_file = SecretFile(path, "BALLAST_PROMETHEUS__PASSWORD_FILE") if path else None
        return lambda: basic(user, _read_secret(password_file) if password_file else "")
    return None


def basic(user: str, password: str) -> str:
    """The header of basic authentication; names outside Latin-1 as UTF-8."""
    header: str = _basic_auth_str(user.encode(), password.encode())
    return header


def _read_secret(file: SecretFile) -> str:
    try:
        return file.read()
    except SettingsError as error:
        raise SourceUnavailable(str(error)) from None


class HttpSession:
    """A `requests` session for one thread; stands in for the session that prometheus-api-client would make.

    `part` is the prefix of the settings that its errors name. Redirects are not followed. `verify` and `cert` go with
    each request, so REQUESTS_CA_BUNDLE has no effect; proxies from the environment do. `clock` is the machine's: a
    server does not answer faster because the samples' time is sped up.
    """

    def __init__(
        self,
        url: str,
        *,
        part: str,
        timeout: float,
        access: HttpAccess | None = None,
        closing: threading.Event | None = None,
        max_body: int = MAX_BODY,
        clock: Clock | None = None,
        budget: AnswerBudget = ANSWERS,
    ) -> None:
        self._budget = budget
        self.url = masked(url).rstrip("/")
        access = access or HttpAccess()
        self.verify = DEFAULT_CA_BUNDLE_PATH if access.verify is True else access.verify
        self.cert = access.cert
        self._part = part
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._headers = dict(access.headers)
        self._secret_headers = access.secret_headers
        self._credentials = access.credentials or _from_url(url)
        self._auth = _Authorization(self._credentials)
        self._secrets = (*text.secrets_of_url(url), *text.secrets_of_headers(self._headers))
        self._closing = closing or threading.Event()
        self._max_body = max_body
        self._post_refused = False
        self._session = requests.Session()
        for scheme in ("https://", "http://"):
            self._session.mount(scheme, DeadlineAdapter())
        if access.verify is False:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_Transient),
            stop=tenacity.stop_after_attempt(_ATTEMPTS),
            wait=tenacity.wait_exponential_jitter(multiplier=0.1, max=1.0, jitter=0.1),
            sleep=self._pause,
            reraise=True,
        )

    def request(
        self, method: str, url: str, params: Mapping[str, Any] | None = None, timeout: float | None = None, **_: Any
    ) -> HttpAnswer:
        """The body of a 200; POST carries `params` as a form. Raises SourceUnavailable, TooLarge or TelemetryError,
        AnswersInFlight where the answers of all sessions together leave no room.

        No secret of the request stands in an error, nor in the warnings of an answer.
        """
        deadline = self._clock.monotonic() + (timeout or self._timeout)
        try:
            return self._retrying(self._once, method, url, params, deadline)
        except (TelemetryError, _Transient) as error:
            kind = type(error.error if isinstance(error, _Transient) else error)
            said = self.hidden(in_words_of(self._part, str(error)))
        raise kind(said)

    def hidden(self, text: str) -> str:
        """A text without the secrets that are sent."""
        return self._mask(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def get(self, url: str) -> bytes:
        """The body at `url`; raises as `request`."""
        return self.request("GET", url).content

    def mount(self, prefix: str, adapter: requests.adapters.HTTPAdapter) -> None:
        """Takes no other adapter: its own keeps the deadline, and `request` tries again."""

    def close(self) -> None:
        """Closes the idle connections."""
        self._session.close()

    def _pause(self, seconds: float) -> None:
        self._clock.wait(self._closing, seconds)

    def _once(self, method: str, url: str, params: Mapping[str, Any] | None, deadline: float) -> HttpAnswer:
        if self._closing.is_set():
            raise SourceUnavailable("stopped")
        left = deadline - self._clock.monotonic()
        if left <= 0:
            raise too_slow(self.url, self._part, self._timeout)
        share = self._budget.share()
        try:
            return self._send(method, url, params, deadline, left, share)
        except (TelemetryError, _Transient) as error:
            share.release()
            raise without_frames(error)  # noqa: B904
        except BaseException:
            share.release()
            raise

    def _send(
        self, method: str, url: str, params: Mapping[str, Any] | None, deadline: float, left: float, share: AnswerShare
    ) -> HttpAnswer:
        form = method == "POST" and not self._post_refused
        headers = {**self._headers, **self._secret_headers()}
        try:
            with (
                whole_deadline(left),
                self._session.request(
                    "POST" if form else "GET",
                    url,
                    params=None if form else params,
                    data=params if form else None,
                    headers=headers,
                    auth=self._auth,
                    verify=self.verify,
                    cert=self.cert,
                    timeout=left,
                    stream=True,
                    allow_redirects=False,
                ) as response,
            ):
                body = self._body(response, deadline, share)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
            problem: TelemetryError = unreachable(
                self.url, self._part, self._timeout, error, client_certificate=self.cert is not None
            )
            raise (_Transient(problem) if isinstance(problem, NoConnection) else problem) from error
        if response.status_code in (405, 501) and form:
            self._post_refused = True
            share.release()
            return self._once(method, url, params, deadline)
        if response.status_code != 200:
            problem = refused(self.url, self._part, response, self._mask(body))
            raise _Transient(problem) if response.status_code in _RETRIED_STATUS else problem
        answer = HttpAnswer(self._without_echoes(body))
        share.until_gone(answer)
        return answer

    def _without_echoes(self, body: bytes) -> bytes:
        """Masks what a server may repeat of the request: a refusal, or the warnings, which stand last."""
        if _REFUSAL.match(body):
            return self._mask(body)
        # A pattern for both would take twice as long, and no other thread runs meanwhile.
        remarks = min((at for at in map(body.find, _REMARKS) if at >= 0), default=len(body))
        return body[:remarks] + self._mask(body[remarks:]) if remarks < len(body) else body

    def _mask(self, body: bytes) -> bytes:
        return text.without_secrets(body, (*self._secrets, *self._sent()))

    def _sent(self) -> Iterator[str]:
        """What the files of secrets hold now, nothing of those that cannot be read; and what the proxies are sent."""
        yield from chain.from_iterable(map(text.secrets_of_proxy, getproxies().values()))
        with suppress(TelemetryError):
            yield from text.secrets_of_authorization(self._credentials())
        with suppress(TelemetryError):
            yield from text.secrets_of_headers(self._secret_headers())

    def _body(self, response: requests.Response, deadline: float, share: AnswerShare) -> bytes:
        if "," in (coding := response.headers.get("Content-Encoding", "")):
            raise coded_twice(self.url, coding)
        chunks, size = [], 0
        while chunk := response.raw.read1(_CHUNK, decode_content=True):
            size += len(chunk)
            if size > self._max_body:
                raise too_large(self.url, self._part, self._max_body)
            if self._clock.monotonic() > deadline:
                raise too_slow(self.url, self._part, self._timeout)
            share.grow(len(chunk))
            chunks.append(chunk)
            just_long = size - len(chunk) <= LONG_REFUSAL < size
            if just_long and (response.status_code != 200 or _REFUSAL.match(b"".join(chunks))):
                break
        return b"".join(chunks)


class HttpAnswer:
    """An undecoded body that came with status 200. Its bytes count as in flight as long as this lives.

    prometheus-api-client gives it back as the result of a query: decoding is ours, as the library drops warnings.
    """

    status_code = 200

    def __init__(self, content: bytes) -> None:
        self.content = content

    def json(self) -> Any:
        """What prometheus-api-client reads of a response."""
        return {"data": {"result": self}}


class _Authorization(AuthBase):
    """Set on every request, so that ~/.netrc is not used."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        header = self._credentials()
        if header is not None:
            request.headers["Authorization"] = header
        return request


class _Transient(Exception):
    """Holds an error after which the request is tried again."""

    def __init__(self, error: TelemetryError) -> None:
        super().__init__(str(error))
        self.error = error


def _from_url(url: str) -> Credentials:
    user_info, at, _ = urlsplit(url).netloc.rpartition("@")
    user, _, password = user_info.partition(":")
    header = basic(unquote(user), unquote(password)) if at else None
    return lambda: header
