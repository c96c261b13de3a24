"""Workloads that Ballast never changes: itself, metrics-server, and the servers it reads from."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError, NotFound
from ballast.cluster.client import KubeApi
from ballast.cluster.write import object_path
from ballast.model.pod import Pod
from ballast.model.workload import Workload

METRICS_SERVER = (("k8s-app", "metrics-server"), ("app.kubernetes.io/name", "metrics-server"))
KUBE_SYSTEM = "kube-system"
REFRESH = 300.0


class Protected:
    """`own` names Ballast's own pod in `namespace`; None outside a cluster. `urls` are what Ballast reads from."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        pods: Callable[[], Iterable[Pod]],
        *,
        namespace: str,
        own: str | None,
        urls: Iterable[str],
        operator_only: frozenset[str] = frozenset(),
    ) -> None:
        """`operator_only` are keys of annotations that protect namespaces alone.

        Where there are any, the labels of metrics-server count in the namespaces of operators alone, too.
        """
        self.operator_only = operator_only
        self._api = api
        self._clock = clock
        self._pods = pods
        self._namespace = namespace
        self._own = own
        self._own_labels: Mapping[str, str] | None = None
        self._services = tuple(dict.fromkeys(service for url in urls if (service := service_of(url, namespace))))
        self._selectors: dict[tuple[str, str], Mapping[str, str] | None] = {}
        self._refresh_at = clock.monotonic()
        self._own_known = own is None
        self.revision = 0

    def refresh(self) -> None:
        """Reads the Services' selectors, at most every REFRESH seconds; `revision` then rises."""
        if not self._own_known and (pods := tuple(self._pods())):
            own = (pod for pod in pods if pod.name == self._own and pod.namespace == self._namespace)
            self._own_labels = next((pod.labels for pod in own), None)
            self._own_known = True
            self.revision += 1
        if self._clock.monotonic() >= self._refresh_at:
            self._refresh_at = self._clock.monotonic() + REFRESH
            self.revision += 1
            for namespace, name in self._services:
                self._selectors[namespace, name] = self._selector(namespace, name)

    def reason(self, workload: Workload) -> str | None:
        """Why this workload is not changed, or None."""
        labels, home = workload.pod_labels, workload.namespace
        if home == self._namespace and not self._own_known:
            return "it may be Ballast itself: pods have not been listed yet"
        own = self._own_labels if home == self._namespace else None
        if own and workload.selector is not None and workload.selector.matches(own):
            return "it is Ballast itself"
        trusted = not self.operator_only or home in (KUBE_SYSTEM, self._namespace)
        if trusted and any(labels.get(key) == value for key, value in METRICS_SERVER):
            return "it is metrics-server"
        for (namespace, name), selector in self._selectors.items():
            is_behind = selector.items() <= labels.items() if selector else workload.name == name
            if namespace == home and is_behind:
                return f"Ballast reads from it (Service {namespace}/{name})"
        return None

    def _selector(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """The selector of a Service; None where it is unknown, then a workload of that name counts."""
        try:
            body = self._api.get(object_path(f"/api/v1/namespaces/{namespace}/services", name))
            return msgspec.json.decode(body, type=_Service).spec.selector
        except NotFound:
            return None
        except (ClusterError, msgspec.DecodeError):
            return self._selectors.get((namespace, name))


class _ServiceSpec(msgspec.Struct):
    selector: dict[str, str] | None = None


class _Service(msgspec.Struct):
    spec: _ServiceSpec


def service_of(url: str, namespace: str) -> tuple[str, str] | None:
    """Namespace and name of the Service behind an address inside the cluster; None for any other address."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        ipaddress.ip_address(host)
        return None
    except ValueError:
        pass
    name, _, rest = host.partition(".")
    home, _, kind = rest.partition(".")
    if not name or name == "localhost" or (kind and not (kind == "svc" or kind.startswith("svc."))):
        return None
    return home or namespace, name
