"""The documents of a generated cluster: nodes, workloads and their pods, as kubectl prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ballast.model.load_limits import quantity
from ballast_lab.simulator.kube.defaults import pod_spec, workload_spec
from ballast_lab.simulator.kube.managed_fields import entry, fields_v1

Document = dict[str, Any]

GIB = 2**30


@dataclass(frozen=True)
class NodeShape:
    """A machine type: whole cores, GiB, and its link in bytes per second."""

    name: str
    cores: int
    gib: int
    link: float


@dataclass(frozen=True)
class GeneratedWorkload:
    """A workload controller and the requests of its pods."""

    kind: str
    namespace: str
    name: str
    replicas: int
    cpu: int
    """Request of one pod in millicores."""

    memory: int
    """Request of one pod in MiB."""

    limited: bool = True
    """Whether pods have limits, of twice their requests."""

    budget: bool = False
    """Whether a PodDisruptionBudget covers the pods."""

    autoscaled: bool = False
    """Whether a HorizontalPodAutoscaler scales the workload."""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the controller and of its pods."""
        return {"app": self.name, "app.kubernetes.io/name": self.name}


def metadata(name: str, uid: str, created: str, namespace: str = "", **more: Any) -> Document:
    """ObjectMeta at its first version; `more` are further fields."""
    scope = {"namespace": namespace} if namespace else {}
    return {"name": name, **scope, "uid": uid, "resourceVersion": "1", "creationTimestamp": created, **more}


def owner(kind: str, name: str, uid: str) -> list[Document]:
    """The `ownerReferences` of an object with this apps/v1 controller."""
    version = "apps/v1"
    return [
        {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True, "blockOwnerDeletion": True}
    ]


def node(
    name: str, uid: str, created: str, index: int, shape: NodeShape, *, zone: str, pool: str, now: str
) -> Document:
    """A ready node; the kubelet reserves 0.1 cores + 2 % of the cores, and 512 MiB + 16 MiB per GiB."""
    address = node_address(index)
    reserved_cpu, reserved_memory = 100 + 20 * shape.cores, 512 + 16 * shape.gib
    capacity = {
        "cpu": str(shape.cores),
        "memory": f"{shape.gib * 2**20}Ki",
        "pods": "110",
        "ephemeral-storage": "103079200Ki",
    }
    allocatable = {
        **capacity,
        "cpu": f"{shape.cores * 1000 - reserved_cpu}m",
        "memory": f"{shape.gib * 2**20 - reserved_memory * 1024}Ki",
        "ephemeral-storage": "94998590592",
    }
    conditions = [
        _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", created, now),
        _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", created, now),
        _condition("PIDPressure", "False", "KubeletHasSufficientPID", created, now),
        _condition("Ready", "True", "KubeletReady", created, now),
    ]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": shape.name,
        "pool": pool,
        "topology.kubernetes.io/region": "north",
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": metadata(name, uid, created, labels=labels, annotations={"node.alpha.kubernetes.io/ttl": "0"}),
        "spec": {"podCIDR": f"10.{128 + index // 256}.{index % 256}.0/24", "providerID": f"simulated://{zone}/{name}"},
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": uid,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "v1.36.3",
                "kubeletVersion": "v1.36.3",
                "machineID": uid.replace("-", ""),
                "operatingSystem": "linux",
                "osImage": "Simulated Linux 12",
                "systemUUID": uid,
            },
        },
    }


def node_address(index: int) -> str:
    """The internal IP of the node with this index."""
    return f"10.{index // 65_025}.{index // 255 % 255}.{index % 255 + 1}"


def template(workload: GeneratedWorkload) -> Document:
    """The pod template of a workload."""
    requests = {"cpu": f"{workload.cpu}m", "memory": f"{workload.memory}Mi"}
    limits = {"cpu": f"{2 * workload.cpu}m", "memory": f"{2 * workload.memory}Mi"} if workload.limited else {}
    container = {
        "name": workload.name,
        "image": f"registry.example/{workload.namespace}/{workload.name}:1.4.2",
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "resources": {**({"limits": limits} if limits else {}), "requests": requests},
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]
    extra = {"tolerations": tolerations} if workload.kind == "DaemonSet" else {}
    return {"metadata": {"labels": workload.labels}, "spec": pod_spec({"containers": [container], **extra})}


def controller(workload: GeneratedWorkload, kind: str, name: str, uid: str, created: str, **more: Any) -> Document:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet; `more` goes into its metadata."""
    labels = workload.labels
    pod_labels = {**labels, **more.pop("pod_labels", {})}
    pods = template(workload)
    pods["metadata"]["labels"] = pod_labels
    spec: Document = {"selector": {"matchLabels": pod_labels}, "template": pods}
    ready = workload.replicas
    status: Document = {"observedGeneration": 1, "replicas": ready, "readyReplicas": ready, "availableReplicas": ready}
    if kind == "DaemonSet":
        status = {
            "observedGeneration": 1,
            "currentNumberScheduled": ready,
            "desiredNumberScheduled": ready,
            "numberAvailable": ready,
            "numberMisscheduled": 0,
            "numberReady": ready,
            "updatedNumberScheduled": ready,
        }
    else:
        spec = {"replicas": workload.replicas, **spec}
    if kind in ("Deployment", "StatefulSet"):
        status["updatedReplicas"] = ready
    if kind == "ReplicaSet":
        status["fullyLabeledReplicas"] = ready
    if kind == "StatefulSet":
        spec["serviceName"] = name
    if kind != "DaemonSet":
        spec = workload_spec(kind, spec)
    return {
        "kind": kind,
        "apiVersion": "apps/v1",
        "metadata": metadata(name, uid, created, workload.namespace, labels=labels, generation=1, **more),
        "spec": spec,
        "status": status,
    }


def running_pod(
    base: Document, name: str, uid: str, created: str, namespace: str, node_name: str, ip: str, **more: Any
) -> Document:
    """A pod from the template `base` that runs on a node; `more` goes into its metadata."""
    document = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata(
            name, uid, created, namespace, generateName=f"{name.rpartition('-')[0]}-", generation=1, **more
        ),
        "spec": {"enableServiceLinks": True, **base["spec"], "priority": 0, "nodeName": node_name},
    }
    return {**document, "status": running_status(document, created, ip)}


def running_status(pod: Document, since: str, ip: str) -> Document:
    """The status that a kubelet reports for a pod whose containers run."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": since, "lastProbeTime": None}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": f"{container['image']}@sha256:{pod['metadata']['uid'].replace('-', '') * 2}",
            "containerID": f"containerd://{pod['metadata']['uid'].replace('-', '') * 2}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": since}},
            "lastState": {},
        }
        for container in pod["spec"].get("containers") or ()
    ]
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": ip,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": since,
        "containerStatuses": statuses,
        "qosClass": "Burstable",
    }


def set_ready(status: Document, value: str) -> None:
    """Sets the conditions of a pod's status that its readiness probes decide: "True" or "False"."""
    for condition in status["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = value
    for container in status["containerStatuses"]:
        container["ready"] = value == "True"


def budget(workload: GeneratedWorkload, uid: str, created: str) -> Document:
    """A PodDisruptionBudget that lets a tenth of the pods be unavailable, but at least one."""
    healthy = workload.replicas
    least = max(healthy - max(1, healthy // 10), 1)
    return {
        "kind": "PodDisruptionBudget",
        "apiVersion": "policy/v1",
        "metadata": metadata(workload.name, uid, created, workload.namespace, generation=1),
        "spec": {"maxUnavailable": max(1, healthy // 10), "selector": {"matchLabels": {"app": workload.name}}},
        "status": {
            "observedGeneration": 1,
            "expectedPods": healthy,
            "currentHealthy": healthy,
            "desiredHealthy": least,
            "disruptionsAllowed": healthy - least,
        },
    }


def autoscaler(workload: GeneratedWorkload, uid: str, created: str) -> Document:
    """A HorizontalPodAutoscaler between 2 replicas and twice the workload's."""
    target = {"type": "Utilization", "averageUtilization": 70}
    return {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": metadata(workload.name, uid, created, workload.namespace),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name},
            "minReplicas": 2,
            "maxReplicas": 2 * workload.replicas,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
        "status": {"currentReplicas": workload.replicas, "desiredReplicas": workload.replicas},
    }


def realistic(document: Document, manager: str, created: str) -> Document:
    """The object at its size in a real cluster: with managed fields, environment, mounts and images."""
    document = {**document, "metadata": dict(document["metadata"])}
    if document["kind"] == "Pod":
        document["spec"] = _full_size(document["spec"])
    if document["kind"] == "Node":
        images = [
            {
                "names": [
                    f"registry.example/team-{n}/app-{n}@sha256:{n:064x}",
                    f"registry.example/team-{n}/app-{n}:1.{n}",
                ],
                "sizeBytes": 7_654_321 * n,
            }
            for n in range(1, 13)
        ]
        document["status"] = {**document["status"], "images": images}
    body: Document = {key: document[key] for key in ("spec", "status") if key in document}
    fields = fields_v1({"metadata": {"labels": document["metadata"].get("labels", {})}, **body})
    status = {"f:status": fields.pop("f:status", {})}
    version = document["apiVersion"]
    document["metadata"]["managedFields"] = [
        entry(manager, "Update", version, created, fields),
        entry("kubelet", "Update", version, created, status, "status"),
    ]
    return document


def _full_size(spec: Document) -> Document:
    environment = [{"name": f"SERVICE_{n}_URL", "value": f"http://service-{n}.internal:8080"} for n in range(10)]
    mounts = [
        {"name": name, "mountPath": f"/etc/{name}", "readOnly": True} for name in ("config", "certificates", "features")
    ]
    probe = {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    containers = [
        {**container, "env": environment, "volumeMounts": mounts, "readinessProbe": probe, "livenessProbe": probe}
        for container in spec["containers"]
    ]
    volumes = [{"name": mount["name"], "configMap": {"name": mount["name"], "defaultMode": 420}} for mount in mounts]
    tolerations = [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for why in ("not-ready", "unreachable")
    ]
    return {**spec, "containers": containers, "volumes": volumes, "tolerations": tolerations}


def pod_requests(pod: Document) -> tuple[float, float]:
    """The sum of the containers' requests as (cores, bytes)."""
    containers = pod["spec"].get("containers") or ()
    requests = [(container.get("resources") or {}).get("requests") or {} for container in containers]
    cores = sum(quantity(request.get("cpu", 0)) for request in requests)
    return cores, sum(quantity(request.get("memory", 0)) for request in requests)


def _condition(kind: str, status: str, reason: str, since: str, now: str) -> Document:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": reason,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }
