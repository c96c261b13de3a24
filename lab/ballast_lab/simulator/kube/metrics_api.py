"""metrics.k8s.io/v1beta1: nodes and pods, as metrics-server serves them."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from ballast_lab.simulator.kube.api_errors import ApiError, GroupResource, no_such_path, not_found
from ballast_lab.simulator.kube.kinds import NODE, POD
from ballast_lab.simulator.kube.requests import Request
from ballast_lab.simulator.kube.resources import stamp
from ballast_lab.simulator.kube.server import error_response
from ballast_lab.simulator.kube.store import Store
from ballast_lab.simulator.observations import Observations

RESOLUTION = 15.0
"""Seconds between two samples, metrics-server's default."""


class MetricsApi:
    """Serves the newest sample; a node whose exporter is dark is missing, as in a real outage."""

    def __init__(self, observations: Observations, store: Store) -> None:
        self._observations = observations
        self._world = observations.world
        self._store = store

    def answer(self, request: Request) -> Response:
        """The response to a get or list of nodes or pods."""
        try:
            document = self._document(request)
        except ApiError as error:
            return error_response(error)
        return Response(json.dumps(document, separators=(",", ":")), media_type="application/json")

    def _document(self, request: Request) -> dict[str, Any]:
        if request.resource not in ("nodes", "pods"):
            raise no_such_path()
        time = self._world.clock.wall() // RESOLUTION * RESOLUTION
        nodes = request.resource == "nodes"
        items = self._nodes(time, request.name) if nodes else self._pods(time, request.namespace, request.name)
        if request.name:
            if not items:
                raise not_found(GroupResource("metrics.k8s.io", request.resource), request.name)
            kind = "NodeMetrics" if nodes else "PodMetrics"
            return {"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", **items[0]}
        kind = "NodeMetricsList" if nodes else "PodMetricsList"
        return {"kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}

    def _nodes(self, time: float, name: str) -> list[dict[str, Any]]:
        world = self._world
        cpu = world.ratio("cpu", [time])[:, 0] * world.usage.cores
        memory = world.ratio("memory", [time])[:, 0] * world.usage.memory
        found = []
        for row, node in enumerate(world.node_names):
            stored = self._store.get(NODE, "", node)
            if stored is None or name not in ("", node) or self._observations.dark(node, time):
                continue
            usage = {"cpu": f"{round(cpu[row] * 1e9)}n", "memory": f"{round(memory[row] / 1024)}Ki"}
            metadata = {"name": node, "creationTimestamp": stamp(time), "labels": dict(stored.labels)}
            found.append({"metadata": metadata, "timestamp": stamp(time), "window": "15.0s", "usage": usage})
        return found

    def _pods(self, time: float, namespace: str, name: str) -> list[dict[str, Any]]:
        found = []
        for (pod_namespace, pod), row, cpu, memory in sorted(self._world.pod_usage(time)):
            if namespace not in ("", pod_namespace) or name not in ("", pod):
                continue
            stored = self._store.get(POD, pod_namespace, pod)
            if stored is None or self._observations.dark(self._world.node_names[row], time):
                continue
            usage = {"cpu": f"{round(cpu * 1e9)}n", "memory": f"{round(memory / 1024)}Ki"}
            container = stored.labels.get("app", pod)
            found.append(
                {
                    "metadata": {"name": pod, "namespace": pod_namespace, "creationTimestamp": stamp(time)},
                    "timestamp": stamp(time),
                    "window": "15.0s",
                    "containers": [{"name": container, "usage": usage}],
                }
            )
        return found
