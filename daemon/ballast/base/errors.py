"""The exception tree. User errors name the setting, the value, what is allowed and the next step.

BallastError
├── SettingsError          a setting is unknown, malformed or contradictory (exit 2)
├── UsageError             a command was used wrongly (exit 2)
├── BadFile                a file was read, but does not hold what it should (exit 1)
├── RemoteError            its message quotes others: one line of at most 2,048 printable characters
│   ├── TelemetryError         a source gave no usable answer
│   │   └── SourceUnavailable  it could not be reached at all, or refused us
│   └── ClusterError           the Kubernetes API refused or failed a request, see below
├── WorkerError            the process for long work ended, or took too long
├── PlacementError         a placement problem cannot be read or solved
│   └── Infeasible         no placement keeps all rules; `rules` has those that collide
└── ClusterError
    ├── Unauthorized       401
    ├── Forbidden          403; names the missing verb and resource
    ├── NotFound           404
    ├── Conflict           409
    ├── Gone               410; the resource version is too old
    ├── TooManyRequests    429; carries retry_after and causes
    ├── Unreachable        no answer: refused, timed out, TLS
    ├── AnswerTooLarge     an answer of more bytes than the request allows
    └── Superseded         another replica has written our keys of `ballast-state` meanwhile
"""

from typing import TypeVar

import msgspec

from ballast.base.text import printable

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are not the expected JSON; nested too deeply is one of them."""


class BallastError(Exception):
    """Anything Ballast itself raises."""


class SettingsError(BallastError):
    """One or more settings cannot be used. `problems` holds one sentence each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class UsageError(BallastError):
    """A command was given something it cannot work with."""


class BadFile(BallastError):
    """A file was read, but its content is not what was expected."""


class RemoteError(BallastError):
    """Its message quotes others, and is one printable line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(message))


class TelemetryError(RemoteError):
    """A source answered, but not with what was asked."""


class SourceUnavailable(TelemetryError):
    """A source could not be reached, or refused us."""


AnyError = TypeVar("AnyError", bound=BaseException)


def without_frames(error: AnyError) -> AnyError:
    """The error, to be kept as a value: without the frames it passed through, and without the errors before it.

    Their locals would live as long as it, among them whole answers; and a frame that knows where the error is kept
    makes a circle, which lives until the garbage collector comes.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


class WorkerError(BallastError):
    """The process that long work is given to ended, took too long, or could not do it."""


class PlacementError(BallastError):
    """A placement problem cannot be read or solved."""


class Infeasible(PlacementError):
    """No placement keeps all hard rules. `rules` names those that collide, as few as could be found."""

    def __init__(self, message: str, rules: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.rules = rules


class ClusterError(RemoteError):
    """The Kubernetes API refused or failed a request.

    `status` is the HTTP status (0 without an answer), `reason` the API's machine-readable reason,
    `causes` the reasons listed in `details.causes`; `admission`: a webhook or policy refused it, not the API server.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: tuple[str, ...] = (), admission: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.causes = causes
        self.admission = admission


class Unauthorized(ClusterError):
    """401: the credentials are missing, no longer valid, or cannot be read (then `status` is 0)."""


class Forbidden(ClusterError):
    """403: RBAC does not allow the verb named in the message, or admission refuses it."""


class NotFound(ClusterError):
    """404: no such object."""


class Conflict(ClusterError):
    """409: someone else wrote first."""


class Gone(ClusterError):
    """410: the resource version is too old; list again."""


class TooManyRequests(ClusterError):
    """429. With `retry_after` (seconds) this write waits; with a cause such as DisruptionBudget, or by admission,
    this write alone fails."""

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        reason: str = "",
        causes: tuple[str, ...] = (),
        admission: bool = False,
    ) -> None:
        super().__init__(message, status=429, reason=reason, causes=causes, admission=admission)
        self.retry_after = retry_after


class Unreachable(ClusterError):
    """No answer: connection refused, timed out, or TLS failed."""


class AnswerTooLarge(ClusterError):
    """The answer has more bytes than the request allows; a smaller page may succeed."""


class Superseded(ClusterError):
    """Keys of `ballast-state` are not what this replica last wrote: another one has led meanwhile."""
