"""The embedded cluster: all its servers on one loopback port, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import struct
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

import uvicorn
import uvloop
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from ballast_lab.simulator import power_feed, scenes
from ballast_lab.simulator.controllers import Controllers
from ballast_lab.simulator.exposition import NodeExporters
from ballast_lab.simulator.extender_client import Extender
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.kube.metrics_api import MetricsApi
from ballast_lab.simulator.kube.requests import parse
from ballast_lab.simulator.kube.resources import ObjectApi
from ballast_lab.simulator.kube.server import KubeApiServer
from ballast_lab.simulator.kube.store import Store
from ballast_lab.simulator.objects import GeneratedWorkload
from ballast_lab.simulator.observations import SCRAPE_INTERVAL, Observations
from ballast_lab.simulator.population import populate
from ballast_lab.simulator.prometheus_api import PrometheusApi
from ballast_lab.simulator.world import OWN_NAMESPACE, World

START_TIMEOUT = 30.0
"""Seconds."""


def _new_loop() -> asyncio.AbstractEventLoop:
    return uvloop.new_event_loop()


class EmbeddedCluster:
    """A Kubernetes API, a Prometheus, a metrics-server, exporters and a power feed over one world.

    `requests` counts the requests by (verb, resource). `faults` switches faults on and off. `resources` reads and
    writes objects without HTTP, from any thread. Watches send bookmarks every `bookmark_seconds` of the world's clock;
    exporters are scraped every `scrape_seconds` of it.
    """

    def __init__(
        self,
        world: World,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        bookmark_seconds: float = 60.0,
        scrape_seconds: float = SCRAPE_INTERVAL,
    ) -> None:
        self.world = world
        self.faults = Faults(world.clock)
        scenes.inject_faults(world, self.faults)
        self.requests: Counter[tuple[str, str]] = Counter()
        self.store = Store(world.seed)
        populate(world, self.store)
        self.resources = ObjectApi(self.store, world.clock)
        self.token = secrets.token_urlsafe(24)
        self._host, self._port = host, port
        self._observations = Observations(world, self.faults, scrape_seconds)
        self._kube = KubeApiServer(
            self.resources,
            self.faults,
            world.clock,
            requests=self.requests,
            token=self.token,
            bookmark_seconds=bookmark_seconds,
        )
        self._prometheus = PrometheusApi(self._observations, self.faults, self.requests)
        self._metrics = MetricsApi(self._observations, self.store)
        self._exposition = NodeExporters(self._observations)
        self.store.listeners.append(world.follow)
        self._controllers = Controllers(self.resources, world)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._socket: socket.socket | None = None

    def start(self) -> EmbeddedCluster:
        """Starts the server and returns once it answers requests. Raises OSError if the address is in use."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._socket = socket.create_server((self._host, self._port), family=family, backlog=2048)
        self._port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            self._answer,
            loop="uvloop",
            http="httptools",
            ws="none",
            interface="asgi3",
            proxy_headers=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            timeout_keep_alive=75,
        )
        self._server = uvicorn.Server(config)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="simulated-cluster", daemon=True)
        self._thread.start()
        if not ready.wait(START_TIMEOUT):
            raise RuntimeError("the embedded cluster did not start")
        return self

    def stop(self) -> None:
        """Ends all watches, closes the connections and frees the port."""
        self._kube.watchers.close()
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> EmbeddedCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The base URL of the Kubernetes API, which includes metrics.k8s.io."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    @property
    def prometheus_url(self) -> str:
        """The base URL of the Prometheus HTTP API."""
        return f"{self.url}/prometheus"

    @property
    def power_url(self) -> str:
        """The URL of the power feed."""
        return f"{self.url}/power"

    def ask_extender(self, url: str) -> None:
        """From now on the scheduler asks the extender at this URL, and ignores it where it does not answer."""
        self._controllers.extender = Extender(url).scores

    def slow_start(self, ready_in: float) -> None:
        """From now on new pods are Ready so many seconds of the world's clock after they run, at `make_ready`."""
        self._controllers.ready_in = ready_in

    def make_ready(self) -> None:
        """Pods that have run for long enough become Ready; from any thread."""
        self._controllers.make_ready()

    def deploy(self, namespace: str, name: str, replicas: int) -> None:
        """Creates a small deployment, from any thread."""
        scenes.deploy(self.resources, GeneratedWorkload("Deployment", namespace, name, replicas, 100, 128))

    def kubeconfig(self, path: Path | str) -> Path:
        """Writes a kubeconfig that kubectl and the kubernetes package accept."""
        target = Path(path)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "simulated",
            "clusters": [{"name": "simulated", "cluster": {"server": self.url}}],
            "users": [{"name": "simulated", "user": {"token": self.token}}],
            "contexts": [
                {"name": "simulated", "context": {"cluster": "simulated", "user": "simulated", "namespace": "default"}}
            ],
        }
        target.write_text(json.dumps(document, indent=2) + "\n")
        target.chmod(0o600)
        return target

    def environment(self, kubeconfig: Path | str) -> dict[str, str]:
        """The environment variables of a daemon that watches this cluster; `kubeconfig` must exist already."""
        return {
            "BALLAST_CLUSTER__KUBECONFIG": str(kubeconfig),
            "BALLAST_PROMETHEUS__URL": self.prometheus_url,
            "BALLAST_LEASE__NAMESPACE": OWN_NAMESPACE,
        }

    def _run(self, ready: threading.Event) -> None:
        assert self._server is not None
        assert self._socket is not None
        server, sockets = self._server, [self._socket]

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            self._kube.watchers.start(loop)
            self._controllers.start(loop)
            scenes.schedule_events(self.world, self.resources, loop)
            serving = asyncio.create_task(server.serve(sockets=sockets))
            while not server.started and not serving.done():
                await asyncio.sleep(0.005)
            ready.set()
            await serving
            self._controllers.stop()

        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(serve())

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Routes by the first part of the path; transport faults apply first."""
        path: str = scope["path"]
        if path.startswith("/prometheus"):
            if self.faults.on("prometheus_down"):
                return self._reset(scope)
            await self._delay("prometheus_slow")
            return await self._prometheus({**scope, "root_path": "/prometheus"}, receive, send)
        if path == "/power":
            self.requests["get", "power"] += 1
            return await power_feed.answer(self.world, self.faults)(scope, receive, send)
        if path.startswith("/metrics/node/"):
            self.requests["get", "exposition"] += 1
            return await self._exposition.answer(path.removeprefix("/metrics/node/"))(scope, receive, send)
        if path == "/faults":
            return await (await self._faults_answer(HttpRequest(scope, receive)))(scope, receive, send)
        if self.faults.on("kube_reset"):
            return self._reset(scope)
        await self._delay("kube_slow")
        if path.startswith("/apis/metrics.k8s.io/v1beta1/"):
            return await self._metrics_answer(HttpRequest(scope, receive))(scope, receive, send)
        return await self._kube(scope, receive, send)

    def _metrics_answer(self, http: HttpRequest) -> Response:
        request = parse(http.method, http.url.path)
        self.requests[request.verb, f"metrics/{request.resource}"] += 1
        return self._kube.aggregated(
            http, request, lambda: self._metrics.answer(request), fault="metrics_server_missing"
        )

    async def _faults_answer(self, http: HttpRequest) -> Response:
        if http.method == "DELETE":
            self.faults.clear()
        elif http.method == "POST":
            try:
                values: dict[str, Any] = await http.json()
                self.faults.apply(str(values.pop("fault", "")), **values)
            except (ValueError, TypeError) as error:
                return PlainTextResponse(f"{error}\n", 400)
        return Response(json.dumps(self.faults.active()), media_type="application/json")

    async def _delay(self, fault: str) -> None:
        if (values := self.faults.values(fault)) is not None:
            await asyncio.sleep(values["delay"])

    def _reset(self, scope: Scope) -> None:
        """Resets the client's TCP connection: with a linger time of 0, closing sends RST."""
        assert self._server is not None
        for connection in list(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if transport is not None and getattr(connection, "client", None) == scope["client"]:
                raw = transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                transport.abort()
