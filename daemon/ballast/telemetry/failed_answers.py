"""Errors of HTTP requests to telemetry servers, as sentences that name the setting and the next step."""

import json
import re
from http.client import IncompleteRead
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3

from ballast.base.errors import SourceUnavailable, TelemetryError
from ballast.base.text import HIDDEN, printable

LONGEST = 200
"""Characters of a plain-text answer that are quoted."""

_READ = 4096
_LIMITED = frozenset((400, 422, 500))
_LIMITS = re.compile(
    r"maximum resolution|too many (samples|series|chunks|points|bytes|time ?series)|max(imum)? (number|estimated)"
    r"|exceed\w* [^.]*?(limit|max|allowed)|(series|samples|chunks|bytes)\w* limit|limit [^ ]+ (violated|exceeded)"
    r"|-search\.max(Samples|Unique|Points|Memory)|err-mimir-max|number of matching time ?series exceeds",
    re.IGNORECASE,
)
_HARMLESS = frozenset(("User-Agent", "Accept", "Accept-Encoding", "Connection", "Content-Type", "Content-Length"))
_KEYS = {"TOKEN_FILE": "tokenFile", "CA_FILE": "caFile", "HEADERS": "headersFile"}
_USER_INFO = re.compile(r"//[^/\s@]+@")
_SECRETS = re.compile(
    r"(?i)((?:bearer|basic)\s+|(?:token|password|passwd|secret|api[-_]?key)[\"']?\s*[:=]\s*)[^\s,;&]+"
)
_OF_PROMETHEUS = re.compile(rb'"status"\s*:\s*"error"')
_SAYING = ("message", "error", "detail", "msg")
_WORDS = re.compile(
    rf'"(?P<key>{"|".join(_SAYING)})"\s*:\s*(?:\[\s*)?"(?P<text>(?:[^"\\]|\\.)*)(?P<end>"?)', re.IGNORECASE | re.DOTALL
)
_BEFORE_JSON = b" \t\r\n\xef\xbb\xbf"
_LONGEST_SECRET = 2**14
"""Bytes; servers take no longer header."""
_NO_PATH = re.compile(r"(, (404 )?((page|path|resource) )?not found\W*)?", re.IGNORECASE)
"""The words of a 404 that say no more than the status does."""
_AGENT = "unavailable with Prometheus Agent"
_NO_TENANT = "org id"
"""In the answer of Mimir, Cortex, Loki and Thanos to a request without `X-Scope-OrgID`."""
_SLOW = (TimeoutError, requests.Timeout, urllib3.exceptions.ReadTimeoutError)


class FailedAnswer(TelemetryError):
    """An error in the words of Prometheus, or an answer that was cut short: the address is right."""


class Unwell(FailedAnswer, SourceUnavailable):
    """The same, of a server that may answer when it is asked again."""


class TooLarge(TelemetryError):
    """An answer of too many bytes or points; a smaller query may succeed."""


class NotAllowed(SourceUnavailable):
    """The server wants other credentials."""


class TenantMissing(NotAllowed):
    """The server wants the header that names a tenant."""


class NoConnection(SourceUnavailable):
    """No connection; it may succeed when tried again."""


class TooSlow(SourceUnavailable):
    """No answer in time."""


def too_slow(url: str, part: str, timeout: float) -> TooSlow:
    """For an answer that did not come within `timeout` seconds."""
    return TooSlow(
        f"{url} did not answer within {timeout:g} s; check the load of the server and the cost of the query, "
        f"or raise {part}TIMEOUT"
    )


def too_large(url: str, part: str, limit: int) -> TooLarge:
    """For an answer of more than `limit` bytes."""
    return TooLarge(
        f"the answer of {url} is larger than {limit / 2**20:g} MiB; ask for less: aggregate by node in "
        f"BALLAST_TELEMETRY__RESOURCES, or narrow {part}MATCHERS"
    )


def not_decoded(url: str, sent: tuple[int, int, int], size: int, limit: int) -> TooLarge:
    """For an answer that would take `size` bytes when decoded; `sent` are its bytes, series and points."""
    length, series, points = sent
    return TooLarge(
        f"{url} sent {length / 2**20:.3g} MiB with about {series:,} series and {points:,} points, which would take "
        f"{size / 2**20:.3g} MiB when read; all telemetry answers together may take {limit / 2**20:g} MiB; ask for "
        "less: aggregate by node in BALLAST_TELEMETRY__RESOURCES, or narrow BALLAST_PROMETHEUS__MATCHERS"
    )


def coded_twice(url: str, coding: str) -> SourceUnavailable:
    """For an answer that is packed more than once."""
    return SourceUnavailable(
        f"{url} answers with Content-Encoding {coding[:100]!r}; one coding such as gzip is understood: check the "
        "proxies before it"
    )


def unreachable(
    url: str, part: str, timeout: float, error: Exception, *, client_certificate: bool
) -> SourceUnavailable:
    """For a request that got no answer."""
    reasons = _chain(error)
    words = " ".join(str(reason) for reason in reasons)
    said = _innermost(reasons)
    if any(isinstance(reason, _SLOW) for reason in reasons):
        return too_slow(url, part, timeout)
    if "CERTIFICATE_VERIFY_FAILED" in words or "CA certificate" in words:
        advice = f"name the CA that signed it in {part}CA_FILE"
        return SourceUnavailable(f"the certificate of {url} is not trusted ({said}); {advice}")
    if "TLS certificate file" in words or "TLS key file" in words or (client_certificate and "SSL" in words):
        advice = f"check {part}CERT_FILE and {part}KEY_FILE, and that the server accepts them"
        return SourceUnavailable(f"TLS with {url} failed ({said}); {advice}")
    if "SSL" in words:
        advice = f"check http or https in {part}URL; where the server wants a client certificate, {part}CERT_FILE"
        return SourceUnavailable(f"TLS with {url} failed ({said}); {advice}")
    if isinstance(error, requests.exceptions.ProxyError):
        advice = f"check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, and {part}URL"
        return NoConnection(f"{url} cannot be reached through the proxy ({said}); {advice}")
    advice = f"check {part}URL, that the server runs, and that no NetworkPolicy blocks the connection"
    return NoConnection(f"{url} cannot be reached ({said}); {advice}")


def refused(url: str, part: str, response: requests.Response, body: bytes) -> TelemetryError:
    """For an answer other than 200."""
    status, of_prometheus = response.status_code, bool(_OF_PROMETHEUS.search(body))
    words = _said(response, body) or _plain(response, body)
    said = words if of_prometheus else ""
    if status in (401, 403):
        why = (
            "credentials are missing or no longer valid"
            if status == 401
            else "these credentials do not allow this request"
        )
        own = f"{part}TOKEN_FILE, {part}USERNAME with {part}PASSWORD_FILE, or {part}HEADERS"
        where = own if part.endswith("__") else f"{part}TOKEN_FILE, {part}HEADERS, or the user in its url"
        refusal = TenantMissing if _NO_TENANT in (words) else NotAllowed
        return refusal(f"{url} answers {status}{words}: {why}; check {where}")
    if 300 <= status < 400:
        target = masked(response.headers.get("Location", "another address"))
        advice = f"write the final address into {part}URL, or set {part}TOKEN_FILE or {part}HEADERS if that is a login"
        return SourceUnavailable(f"{url} redirects to {target} ({status}); {advice}")
    if status == 404 and _NO_PATH.fullmatch(words):
        path = urlsplit(response.url or "").path
        return SourceUnavailable(f"{url} has no {path} (404); check host and path prefix in {part}URL")
    if status == 404:
        # Gateways answer so where a project, tenant or workspace is missing; routers where no route leads on.
        return Unwell(f"{url} answers 404{words}; check what this names, then host and path prefix in {part}URL")
    if of_prometheus and _AGENT in words:
        advice = f"give {part}URL the server to which it writes"
        return SourceUnavailable(f"{url} is a Prometheus in agent mode, which answers no queries ({status}); {advice}")
    if status == 413 or (status in _LIMITED and _LIMITS.search(words)):
        advice = f"narrow {part}MATCHERS, correct BALLAST_TELEMETRY__RESOURCES, or raise the server's limit"
        return TooLarge(f"{url} answers {status}{words}: too much for one answer; {advice}")
    if status == 400 and not said:
        return SourceUnavailable(
            f"{url} answers {status}{words}, which are no words of Prometheus; check http or https, host and path "
            f"prefix in {part}URL"
        )
    if status in (400, 422):
        advice = f"correct it in BALLAST_TELEMETRY__RESOURCES, or check {part}MATCHERS and {part}PRESET"
        return TelemetryError(f"{url} does not accept the query ({status}{words}); {advice}")
    if said or status == 429:
        return Unwell(f"{url} answers {status}{words}; look at the server's log and its load")
    return SourceUnavailable(f"{url} answers {status}{words}; look at the server's log, and check {part}URL")


def in_words_of(part: str, text: str) -> str:
    """The keys of a policy instead of settings, where `part` names a part of a policy: `tokenFile` for TOKEN_FILE."""
    if part.endswith("__"):
        return text
    return re.sub(f"(?<={re.escape(part)})[A-Z_]+", lambda match: _KEYS.get(match[0], match[0].lower()), text)


def masked(url: str) -> str:
    """The address without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def _said(response: requests.Response, body: bytes) -> str:
    """What the JSON of a server or a gateway says, as `_plain` masks it, with a leading comma; empty without words.

    It is searched, not decoded: a long body was cut, and one may be nested deeper than a decoder goes.
    """
    if body.lstrip(_BEFORE_JSON)[:1] not in (b"{", b"["):
        return ""
    found: dict[str, str] = {}
    for match in _WORDS.finditer(body.decode(errors="replace")):
        text = _without_credentials(response, _unescaped(match["text"]))
        if not match["end"]:
            text = text[:-_LONGEST_SECRET]  # The cut may have left the beginning of a secret, which nothing masks.
        found.setdefault(match["key"].lower(), text.strip())
    # "error" is often no more than the name of the status, which "message" explains.
    said = next(filter(None, map(found.get, _SAYING)), "")
    return f", {printable(said, 300)}" if said else ""


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def _plain(response: requests.Response, body: bytes) -> str:
    """What the server says in plain text, with a leading comma: one line without the credentials of the request."""
    text = body[:_READ].decode(errors="replace")
    if "html" in response.headers.get("Content-Type", "") or text.lstrip()[:1] in ("<", "{", "["):
        return ""
    text = _without_credentials(response, text)
    text = printable(" ".join(printable(text).split()), LONGEST)
    return f", {text}" if text else ""


def _without_credentials(response: requests.Response, text: str) -> str:
    sent = getattr(response.request, "headers", None) or {}
    secrets = {
        word for name, value in sent.items() if name not in _HARMLESS for word in (str(value), *str(value).split())
    }
    for secret in sorted(filter(lambda word: len(word) > 3, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _SECRETS.sub(rf"\1{HIDDEN}", _USER_INFO.sub(f"//{HIDDEN}@", text))


def _chain(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    pending: list[BaseException] = [error]
    while pending:
        current = pending.pop(0)
        if not any(current is one for one in causes):
            causes.append(current)
            inner = [current.__cause__, current.__context__, getattr(current, "reason", None), *current.args]
            pending += [item for item in inner if isinstance(item, BaseException)]
    return causes


def _innermost(reasons: list[BaseException]) -> str:
    if any(isinstance(reason, IncompleteRead) for reason in reasons):
        return "the answer ended early"
    spoken = [str(reason.strerror) for reason in reasons if isinstance(reason, OSError) and reason.strerror]
    return (spoken or [str(reasons[-1])])[-1].strip()[:200]
