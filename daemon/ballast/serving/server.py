"""uvicorn in its own thread, so that the daemon's jobs do not delay answers."""

import asyncio
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette

from ballast.base.clock import SystemClock
from ballast.base.errors import SettingsError
from ballast.base.freed_memory import tune_malloc
from ballast.serving import bounded_protocol
from ballast.serving.direct_answers import RequestHead
from ballast.settings.plain_parts import HttpSettings

BACKLOG = 1024
"""Connections that may wait to be accepted."""

CERTIFICATE_CHECK = 30
"""Seconds between checks for a renewed certificate."""

HANDSHAKE = 5.0
"""Seconds for a TLS handshake."""

GIVE_WAY = 0.0001
"""Thread switch interval in seconds (sys.setswitchinterval). numpy gives up the interpreter some fifty times an answer,
and beside jobs each time costs up to this: of the slowest answers in a hundred, 29 ms by 0.5 ms and 15 ms by 0.1 ms."""


class Server:
    """Serves `app` until `stop()`.

    With certificate and key files it speaks TLS, with a client CA it also demands client certificates. Renewed files
    are loaded without a restart.
    """

    def __init__(
        self,
        app: Starlette,
        settings: HttpSettings,
        refused: Callable[[int], object] = lambda code: None,
        setting: str = "PORT",
        optional_ca: Path | None = None,
    ) -> None:
        """`refused` is called with the status of each request that is no HTTP or too large; `setting` names the port's.

        Certificates of `optional_ca` are verified where clients show one; the request's state tells whether they did.
        """
        self._settings = settings
        self._setting = setting
        self.name = setting.lower()
        self._certificate = _Certificate(settings, optional_ca)
        self._clock = SystemClock()
        self.beat: float | None = None
        """When its loop last came round (monotonic); every 30 s."""
        config = uvicorn.Config(
            app,
            http=partial(bounded_protocol.BoundedProtocol, refused=refused, take=getattr(app.state, "take", _leave)),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # what callers send wrongly is counted by `refused`
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=bounded_protocol.KEEP_ALIVE,
            callback_notify=self._beats,
            timeout_notify=CERTIFICATE_CHECK,
        )
        config.load()
        config.ssl = self._certificate.context
        self._server = uvicorn.Server(config)
        self._config = config
        self._thread: threading.Thread | None = None

    def start(self) -> int:
        """Binds and serves; returns the port, also where the setting is 0.

        Raises:
            SettingsError: the address cannot be bound.
        """
        listener = _bind(self._settings.host, self._settings.port, self._setting)
        port: int = listener.getsockname()[1]
        sys.setswitchinterval(GIVE_WAY)
        tune_malloc()
        self._thread = threading.Thread(target=self._run, args=(listener,), name=f"serving {self.name}", daemon=True)
        self._thread.start()
        return port

    def stop(self) -> None:
        """Lets running answers finish for a second, then closes everything. Safe to call twice."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def renew_certificate(self) -> None:
        """Reloads the certificate files if they changed. The serving thread also does this every 30 s."""
        await self._certificate.renew()

    @property
    def alive(self) -> bool:
        """False once the serving thread has ended or was stopped; true before the start."""
        return not self._server.should_exit and (self._thread is None or self._thread.is_alive())

    async def _beats(self) -> None:
        self.beat = self._clock.monotonic()
        await self._certificate.renew()

    def _run(self, listener: socket.socket) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(self._server.serve(sockets=[listener]))


def _leave(head: RequestHead) -> None:
    """ASGI answers."""


class _Loop(uvloop.Loop):
    """With a limit for handshakes, which uvicorn has no option for."""

    async def create_server(self, *args: Any, **options: Any) -> Any:
        """As uvicorn asks for it."""
        if options.get("ssl"):
            options["ssl_handshake_timeout"] = HANDSHAKE
        return await super().create_server(*args, **options)


class _Certificate:
    """The TLS context, or None without a certificate.

    Connections go on with a context made of the files as they were last read, so that a renewed certificate, and
    another client CA, count from the next handshake on.
    """

    def __init__(self, settings: HttpSettings, optional_ca: Path | None) -> None:
        self._cert, self._key, client_ca = settings.tls_cert_file, settings.tls_key_file, settings.client_ca_file
        self.context: ssl.SSLContext | None = None
        self._loaded = 0
        self._setting, self._authority, self._verify = "BALLAST_HTTP__CLIENT_CA_FILE", client_ca, ssl.CERT_REQUIRED
        if client_ca is None:
            self._setting, self._authority = "BALLAST_EXTENDER__CLIENT_CA_FILE", optional_ca
            self._verify = ssl.CERT_OPTIONAL
        if self._cert is None and self._key is None:
            if client_ca is not None:
                raise SettingsError(
                    f"BALLAST_HTTP__CLIENT_CA_FILE={client_ca} needs TLS: "
                    "set BALLAST_HTTP__TLS_CERT_FILE and BALLAST_HTTP__TLS_KEY_FILE too."
                )
            return
        if self._cert is None or self._key is None:
            raise SettingsError("BALLAST_HTTP__TLS_CERT_FILE and BALLAST_HTTP__TLS_KEY_FILE must be set together.")
        self.context = self._newest = self._made()
        self.context.sni_callback = self._use_newest

    def _made(self) -> ssl.SSLContext:
        """Raises SettingsError for files that cannot be used."""
        assert self._cert is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            loaded = self._modified_at()
            context.load_cert_chain(self._cert, self._key)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"BALLAST_HTTP__TLS_CERT_FILE={self._cert} with BALLAST_HTTP__TLS_KEY_FILE={self._key} "
                f"cannot be loaded: {error}. Both must be PEM files of one pair."
            ) from error
        if self._authority is not None:
            try:
                context.load_verify_locations(self._authority)
            except (OSError, ssl.SSLError) as error:
                raise SettingsError(
                    f"{self._setting}={self._authority} cannot be loaded: {error}. It must be a PEM bundle."
                ) from error
            context.verify_mode = self._verify
            # A resumed session would not show its certificate again.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        self._loaded = loaded
        return context

    def _use_newest(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Called in each handshake, also where the client names no server."""
        connection.context = self._newest

    async def renew(self) -> None:
        if self.context is None:
            return
        try:
            if self._modified_at() != self._loaded:
                self._newest = self._made()
        except (OSError, SettingsError):
            return  # half-written files; the old ones serve on and the next check tries again

    def _modified_at(self) -> int:
        return max(path.stat().st_mtime_ns for path in (self._cert, self._key, self._authority) if path is not None)


def _bind(host: str, port: int, setting: str) -> socket.socket:
    listener = None
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = addresses[0]
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise SettingsError(
            f"BALLAST_HTTP__HOST={host} with BALLAST_HTTP__{setting}={port} cannot be listened on: "
            f"{error.strerror or error}. Choose a local address and a free port, or 0 for any."
        ) from error
    return listener
