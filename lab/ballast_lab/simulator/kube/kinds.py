"""The table of served kinds, and the discovery documents generated from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ballast_lab.simulator.kube.api_errors import GroupResource

KUBERNETES_VERSION = "v1.36.3"


@dataclass(frozen=True)
class Kind:
    """One served resource."""

    group: str
    version: str
    name: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    """Short names for kubectl."""

    subresources: tuple[str, ...] = ()
    unconditional: bool = True
    """Whether a replace may omit the resource version."""

    create_on_update: bool = False
    """Whether a replace of a missing object creates it."""

    generation: bool = False
    """Whether `metadata.generation` counts the changes of the spec."""

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type_fields(self) -> dict[str, str]:
        """`kind` and `apiVersion` of an object."""
        return {"kind": self.name, "apiVersion": self.api_version}

    @property
    def type_length(self) -> int:
        """The length of the start of an encoded object, up to the first field after `kind` and `apiVersion`."""
        return len(f'{{"kind":"{self.name}","apiVersion":"{self.api_version}",')

    @property
    def resource(self) -> GroupResource:
        """The resource as error messages name it."""
        return GroupResource(self.group, self.plural)


_WORKLOAD = ("status", "scale")

KINDS = (
    Kind("", "v1", "Node", "nodes", namespaced=False, short=("no",), subresources=("status",)),
    Kind("", "v1", "Pod", "pods", short=("po",), subresources=("status", "binding", "eviction"), generation=True),
    Kind("", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",), subresources=("status",)),
    Kind("", "v1", "ConfigMap", "configmaps", short=("cm",)),
    Kind("", "v1", "Event", "events", short=("ev",)),
    Kind("", "v1", "Service", "services", short=("svc",), subresources=("status",)),
    Kind("", "v1", "Endpoints", "endpoints", short=("ep",)),
    Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    Kind("", "v1", "ServiceAccount", "serviceaccounts", short=("sa",)),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), subresources=("status",)),
    Kind("", "v1", "ResourceQuota", "resourcequotas", short=("quota",), subresources=("status",)),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False, short=("pv",), subresources=("status",)),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short=("sc",)),
    Kind("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False),
    Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", subresources=("status",)),
    Kind("apps", "v1", "Deployment", "deployments", short=("deploy",), subresources=_WORKLOAD, generation=True),
    Kind("apps", "v1", "ReplicaSet", "replicasets", short=("rs",), subresources=_WORKLOAD, generation=True),
    Kind("apps", "v1", "StatefulSet", "statefulsets", short=("sts",), subresources=_WORKLOAD, generation=True),
    Kind("apps", "v1", "DaemonSet", "daemonsets", short=("ds",), subresources=("status",), generation=True),
    Kind(
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        short=("pdb",),
        subresources=("status",),
        unconditional=False,
        generation=True,
    ),
    Kind(
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        short=("hpa",),
        subresources=("status",),
    ),
    Kind(
        "keda.sh",
        "v1alpha1",
        "ScaledObject",
        "scaledobjects",
        short=("so",),
        subresources=("status",),
        unconditional=False,
        generation=True,
    ),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short=("netpol",), generation=True),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", unconditional=False, create_on_update=True),
)

BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}
BY_NAME = {kind.name: kind for kind in KINDS}
NODE, POD, NAMESPACE = BY_NAME["Node"], BY_NAME["Pod"], BY_NAME["Namespace"]
DEPLOYMENT, REPLICA_SET = BY_NAME["Deployment"], BY_NAME["ReplicaSet"]
STATEFUL_SET, CONFIG_MAP = BY_NAME["StatefulSet"], BY_NAME["ConfigMap"]
BUDGET = BY_NAME["PodDisruptionBudget"]

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_METRICS_GROUP = ("metrics.k8s.io", "v1beta1")
_SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
}


def core_versions(address: str) -> dict[str, Any]:
    """`/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(*, metrics: bool) -> dict[str, Any]:
    """`/apis`."""
    groups = sorted(
        {(kind.group, kind.version) for kind in KINDS if kind.group} | ({_METRICS_GROUP} if metrics else set())
    )
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*group) for group in groups]}


def group(name: str, *, metrics: bool) -> dict[str, Any] | None:
    """`/apis/<group>`, or None if it is not served."""
    for entry in group_list(metrics=metrics)["groups"]:
        if entry["name"] == name:
            return {"kind": "APIGroup", "apiVersion": "v1", **entry}
    return None


def resource_list(group: str, version: str) -> dict[str, Any] | None:
    """`/api/v1` and `/apis/<group>/<version>`, or None if it is not served."""
    if (group, version) == _METRICS_GROUP:
        resources = [
            {"name": plural, "singularName": "", "namespaced": plural == "pods", "kind": kind, "verbs": ["get", "list"]}
            for plural, kind in (("nodes", "NodeMetrics"), ("pods", "PodMetrics"))
        ]
    else:
        served = [kind for kind in KINDS if (kind.group, kind.version) == (group, version)]
        resources = [entry for kind in served for entry in _entries(kind)]
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def version() -> dict[str, str]:
    """`/version`."""
    major, minor = KUBERNETES_VERSION.lstrip("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": KUBERNETES_VERSION,
        "gitCommit": "simulated",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }


def _group(name: str, version: str) -> dict[str, Any]:
    served = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [served], "preferredVersion": served}


def _entries(kind: Kind) -> Iterable[dict[str, Any]]:
    yield {
        "name": kind.plural,
        "singularName": kind.name.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": _VERBS,
        **({"shortNames": list(kind.short)} if kind.short else {}),
    }
    for subresource in kind.subresources:
        group, version, name = _SUBRESOURCE_KINDS.get(subresource, (kind.group, kind.version, kind.name))
        entry = {
            "name": f"{kind.plural}/{subresource}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": name,
            "verbs": ["create"] if subresource in ("binding", "eviction") else ["get", "patch", "update"],
        }
        if (group, version) != (kind.group, kind.version):
            entry |= {"group": group, "version": version}
        yield entry
