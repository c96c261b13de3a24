"""A browser for tests of the page: Chromium, told by the DevTools protocol over a websocket; nothing sleeps."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from websocket import WebSocket, create_connection

from ballast_lab.harness.waiting import HUNG

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync "
    "--disable-component-update --disable-dev-shm-usage --hide-scrollbars --force-color-profile=srgb "
    "--remote-debugging-port=0 --remote-allow-origins=*"
)


class PageError(AssertionError):
    """A script of the page failed, or what was awaited did not come."""


class Tab:
    """One page of the browser. `errors` are the exceptions and error messages of its console."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket, self._number = socket, 0
        self.errors: list[str] = []
        self.requests: list[dict[str, Any]] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                if "error" in message:
                    raise PageError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result
            self._heard(message)

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """The size of the window, and whether it is dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url: str) -> None:
        """Goes to the address, and waits until the page has drawn what it read."""
        self.call("Page.navigate", url="about:blank")
        self.requests.clear()
        self.call("Page.navigate", url=url)
        self.await_("document.readyState === 'complete' && Number(document.body?.dataset.rounds) >= 1")

    def go(self, hash_: str) -> None:
        """Opens another view of the page, and waits until it is drawn."""
        self.run(f"document.body.dataset.shown = ''; location.hash = {json.dumps(hash_)}")
        self.await_(f"document.body.dataset.shown.startsWith({json.dumps(hash_)})")

    def run(self, script: str) -> Any:
        """The value of an expression, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def await_(self, condition: str) -> None:
        """Waits, by frames of the page, until an expression is true; HUNG seconds at most."""
        script = (
            f"new Promise((done, failed) => {{ const end = performance.now() + {HUNG * 1000}; const look = () => "
            f"{{ let met = false; try {{ met = {condition}; }} catch {{ }} if (met) done(true); else if "
            "(performance.now() > end) failed('too late'); else setTimeout(look, 30); }; look(); })"
        )
        try:
            self.run(script)
        except PageError as error:
            if "context" not in str(error) and "navigated" not in str(error):
                raise PageError(f"never true: {condition}; {self.errors}") from error
            self.await_(condition)

    def text(self, selector: str) -> str:
        """The words of the first such element, with single spaces."""
        found = self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")
        if found is None:
            raise PageError(f"there is no {selector}")
        return re.sub(r"\s+", " ", found).strip()

    def picture(self, *, whole: bool = False, kind: str = "png", quality: int | None = None) -> bytes:
        """What is seen, or the whole page."""
        more = {} if quality is None else {"quality": quality}
        answer = self.call("Page.captureScreenshot", format=kind, captureBeyondViewport=whole, **more)
        return base64.b64decode(answer["data"])

    def _heard(self, message: dict[str, Any]) -> None:
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(what["exceptionDetails"])[:1000])
        elif method == "Runtime.consoleAPICalled" and what["type"] == "error":
            self.errors.append(json.dumps(what["args"])[:1000])
        elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.errors.append(f"{what['entry']['text']} {what['entry'].get('url', '')}")
        elif method == "Network.loadingFinished":
            self.requests.append(what)


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """A browser with a profile of its own; its first tab."""
    with (profile / "log").open("wb") as log:
        process = subprocess.Popen(
            [CHROMIUM or "chromium", *FLAGS.split(), f"--user-data-dir={profile}", "about:blank"],
            stderr=subprocess.PIPE,
            stdout=log,
        )
    try:
        port = _port(process)
        with _tab(port) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def _port(process: subprocess.Popen[bytes]) -> int:
    """The browser tells its port on standard error."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line):
            return int(found[1])
    raise PageError("the browser ended before it listened")


@contextmanager
def _tab(port: int) -> Iterator[WebSocket]:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=HUNG) as answer:
        [first] = [each for each in json.load(answer) if each["type"] == "page"]
    socket = create_connection(first["webSocketDebuggerUrl"], timeout=HUNG)
    try:
        yield socket
    finally:
        socket.close()
