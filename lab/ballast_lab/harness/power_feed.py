"""A feed of power that the test holds in its hands, as an exporter for the real Prometheus."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer

from ballast_lab.harness.prometheus import Target
from tests.worlds.http_handler import AnsweringHandler


class PowerFeed:
    """A context manager. `watts` is what `site_available_watts` tells; while not `up`, the exporter answers 503."""

    def __init__(self, watts: float) -> None:
        self.watts = watts
        self.up = True
        feed = self

        class Handler(AnsweringHandler):
            def do_GET(self) -> None:
                self.exposition(f"site_available_watts {feed.watts}\n" if feed.up else None)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> PowerFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def target(self) -> Target:
        return Target(f"127.0.0.1:{self._server.server_address[1]}", "sun")
