"""The EndpointSlice by which the Service `ballast-extender`, which has no selector, leads to the leader alone."""

import threading
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import msgspec
import structlog

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError, Forbidden, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.leader_page import PAGE_PORT
from ballast.cluster.threads import going
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import Writer

STOP_PATIENCE = 2.0
"""Seconds that removing the endpoint may take at shutdown."""

EVERY = 60.0
"""Seconds after which the leader checks that the EndpointSlice still has its address."""

_RETRY = 5.0
_API = "discovery.k8s.io/v1"
_log = structlog.get_logger("cluster")


@dataclass(frozen=True)
class OwnPlace:
    """Where this replica is reached. Without `address` that of the pod's status counts."""

    pod: str | None
    namespace: str | None
    address: str | None = None


class LeaderEndpoint:
    """Names this pod in the EndpointSlice exactly while `leading`; from a thread of its own.

    Without a pod (POD_NAME, POD_NAMESPACE), or when writing is forbidden, it logs that once.
    """

    def __init__(self, api: KubeApi, writer: Writer, clock: Clock, service: str, place: OwnPlace) -> None:
        self._api, self._writer, self._clock = api, writer, clock
        self._service, self._place = service, place
        self._wanted, self._port, self._page = False, 0, 0
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._warned = False
        self.beat: float | None = None
        """When the thread last came round (monotonic)."""
        self._thread = threading.Thread(target=self._run, name="leader-endpoint", daemon=True)

    def start(self, port: int, page: int | None = None) -> None:
        """`port` is the extender's, `page` that of the page where it is another one.

        Begins without the endpoint: a container that died as leader left it behind.
        """
        self._port, self._page = port, port if page is None else page
        if not self._place.pod or not self._place.namespace:
            self._warn("POD_NAME and POD_NAMESPACE are not set")
            return
        self._changed.set()
        self._thread.start()

    def stop(self) -> None:
        """Removes the endpoint, waiting STOP_PATIENCE for it. Call it before the writer stops."""
        self._wanted = False
        self._stop.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(STOP_PATIENCE)

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return going(self._thread, self._stop)

    def leading(self, leads: bool) -> None:
        """Says whether the Service should lead to this replica from now on."""
        self._wanted = leads
        self._changed.set()

    def _run(self) -> None:
        while True:
            changed = self._changed.wait(EVERY)
            self._changed.clear()
            self.beat = self._clock.monotonic()
            if not changed and not self._wanted:
                continue
            stopping = self._stop.is_set()
            try:
                done = self._tell(self._wanted)
            except (Forbidden, NotFound) as error:
                self._warn(str(error))
                done = True
            except ClusterError:
                done = False
            except Exception:
                _log.exception("the leader's address could not be written, unexpectedly; trying again")
                done = False
            if not done and not stopping:
                self._clock.wait(self._stop, _RETRY)
                self._changed.set()
            if stopping:
                return

    def _tell(self, leads: bool) -> bool:
        """Whether there is nothing left to try. Raises ClusterError."""
        current = self._read(self._path)
        if leads:
            endpoint_slice = self._slice()
            if current is not None and _says(current, endpoint_slice):
                return True
            return self._is_settled(
                self._create(endpoint_slice) if current is None else self._patch(endpoint_slice, "this replica leads")
            )
        if current is None or not self._is_own(current):
            return True
        version = {"resourceVersion": current["metadata"]["resourceVersion"]}
        outcome = self._patch({"endpoints": [], "metadata": version}, "this replica does not lead", leader_only=False)
        return outcome.result is Result.CONFLICT or self._is_settled(outcome)

    def _is_settled(self, outcome: WriteOutcome) -> bool:
        if outcome.status in (403, 404):
            self._warn(outcome.reason)
            return True
        return outcome.result is Result.DONE

    def _slice(self) -> dict[str, Any]:
        address = self._place.address or self._pod_address()
        target = {"kind": "Pod", "name": self._place.pod, "namespace": self._place.namespace}
        body: dict[str, Any] = {
            "apiVersion": _API,
            "kind": "EndpointSlice",
            "metadata": {
                "name": self._service,
                "labels": {
                    "kubernetes.io/service-name": self._service,
                    "endpointslice.kubernetes.io/managed-by": "ballast.dev",
                },
                "annotations": {PAGE_PORT: str(self._page)},
            },
            "addressType": f"IPv{ip_address(address).version}",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}, "targetRef": target}],
            "ports": [{"name": "http", "port": self._port, "protocol": "TCP"}],
        }
        return body

    def _pod_address(self) -> str:
        """Raises ClusterError where the pod has none yet."""
        pod = self._read(object_path(f"/api/v1/namespaces/{self._place.namespace}/pods", str(self._place.pod)))
        address: str | None = (pod or {}).get("status", {}).get("podIP")
        if pod is None:
            raise NotFound(f"there is no pod {self._place.namespace}/{self._place.pod}", status=404)
        if not address:
            raise ClusterError(f"the pod {self._place.namespace}/{self._place.pod} has no address yet")
        return address

    def _owner(self) -> list[dict[str, Any]]:
        """The Service, so that the slice goes with it; nothing where it cannot be read."""
        try:
            service = self._read(object_path(f"/api/v1/namespaces/{self._place.namespace}/services", self._service))
        except Forbidden:
            return []
        uid = (service or {}).get("metadata", {}).get("uid")
        return [{"apiVersion": "v1", "kind": "Service", "name": self._service, "uid": uid}] if uid else []

    def _create(self, endpoint_slice: dict[str, Any]) -> WriteOutcome:
        metadata = {**endpoint_slice["metadata"], "ownerReferences": self._owner()}
        body = {**endpoint_slice, "metadata": metadata}
        return self._write("POST", self._collection, body, None, "this replica leads", leader_only=True)

    def _patch(self, change: dict[str, Any], reason: str, *, leader_only: bool = True) -> WriteOutcome:
        body = {key: value for key, value in change.items() if key not in ("apiVersion", "kind", "addressType")}
        return self._write("PATCH", self._path, body, MERGE_PATCH, reason, leader_only=leader_only)

    def _write(
        self, method: str, path: str, body: dict[str, Any], kind: str | None, reason: str, *, leader_only: bool
    ) -> WriteOutcome:
        return self._writer.submit(
            Write(
                kind="endpoint",
                part=None,
                method=method,
                path=path,
                target=WriteTarget("EndpointSlice", self._service, self._place.namespace or "", api_version=_API),
                reason=reason,
                body=body,
                content_type=kind,
                leader_only=leader_only,
                timeout=STOP_PATIENCE if self._stop.is_set() else None,
            )
        )

    def _is_own(self, current: dict[str, Any]) -> bool:
        return any(
            (endpoint.get("targetRef") or {}).get("name") == self._place.pod
            for endpoint in current.get("endpoints") or ()
        )

    def _read(self, path: str) -> dict[str, Any] | None:
        try:
            current: dict[str, Any] = msgspec.json.decode(
                self._api.get(path, timeout=STOP_PATIENCE if self._stop.is_set() else None)
            )
        except NotFound:
            return None
        return current

    @property
    def _collection(self) -> str:
        return f"/apis/{_API}/namespaces/{self._place.namespace}/endpointslices"

    @property
    def _path(self) -> str:
        return object_path(self._collection, self._service)

    def _warn(self, why: str) -> None:
        if not self._warned:
            _log.warning("the extender's Service does not lead to this leader", why=why)
        self._warned = True


def _says(current: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether the EndpointSlice says already what is wanted."""
    page = (current["metadata"].get("annotations") or {}).get(PAGE_PORT)
    same = all(current.get(key) == wanted[key] for key in ("endpoints", "ports"))
    return same and page == wanted["metadata"]["annotations"][PAGE_PORT]
