"""The Helm chart's manifests on the real API server, and what a pod of its Deployment would get."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ballast_lab.harness.api import APPLY, Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.rights import granted
from ballast_lab.harness.waiting import eventually
from tests.worlds.chart import NAMESPACE, ROOT, Helm, environment, one

_CLUSTER_WIDE = frozenset(
    (
        "ClusterRole",
        "ClusterRoleBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    )
)


@dataclass(frozen=True)
class Installed:
    """`account` is the daemon's ServiceAccount; `settings` its environment but for what comes from the pod itself."""

    namespace: str
    account: str
    settings: Mapping[str, str]

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    def pods(self, api: Api, count: int) -> list[str]:
        """Names of the Deployment's pods, once they are there; nothing runs them but the test."""
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=app.kubernetes.io/component=daemon"

        def names() -> list[str]:
            found = [pod["metadata"]["name"] for pod in api.items(path)]
            return found if len(found) == count else []

        return eventually(f"{count} pods of the Deployment", names)


def helm() -> Helm:
    done = subprocess.run([str(ROOT / "scripts" / "helm")], capture_output=True, text=True, check=True)
    return Helm(Path(done.stdout.strip()) / "4" / "helm")


def render(values: Mapping[str, Any]) -> list[Json]:
    """What `helm install` would apply; hooks are left out.

    No token for the extender unless the values ask for it: daemons of the tests run outside pods, without its mount.
    """
    values = {"extender": {"token": {"create": False}}, **values}
    manifests = helm().template(values, "--no-hooks", "--kube-version", "1.36.3")
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *manifests]


def install(plane: ControlPlane, values: Mapping[str, Any]) -> Installed:
    manifests = render(values)
    for manifest in manifests:
        plane.api.patch(
            f"{path_of(manifest)}?fieldManager=helm&force=true&fieldValidation=Strict", manifest, kind=APPLY
        )
    for binding in (each for each in manifests if each["kind"].endswith("RoleBinding")):
        eventually(f"{binding['metadata']['name']} is in force", partial(_in_force, plane.api, binding))
    pod = one(manifests, "Deployment", "ballast")["spec"]["template"]["spec"]
    account = pod["serviceAccountName"]
    plane.rights[account] = plane.rights.get(account, set()) | granted(manifests, account)
    [container] = pod["containers"]
    settings = {name: value for name, value in environment(container).items() if value is not None}
    return Installed(NAMESPACE, account, settings)


def _in_force(api: Api, binding: Json) -> bool:
    """Whether the API server already grants the first right of the role; it learns of new roles by a watch."""
    space, role, [subject] = binding["metadata"].get("namespace"), binding["roleRef"], binding["subjects"]
    rules = api.get(path_of({**role, "apiVersion": f"{role['apiGroup']}/v1", "metadata": binding["metadata"] | role}))
    first = next((each for each in rules["rules"] if each.get("resources")), None)
    if first is None:
        return True
    resource, _, part = first["resources"][0].partition("/")
    wanted = {"verb": first["verbs"][0], "group": first["apiGroups"][0], "resource": resource, "subresource": part}
    named = {"name": first["resourceNames"][0]} if first.get("resourceNames") else {}
    user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    asked = {"user": user, "resourceAttributes": {**wanted, **named, "namespace": space or ""}}
    answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": asked})
    return bool(answer["status"]["allowed"])


def uninstall(plane: ControlPlane, values: Mapping[str, Any]) -> None:
    """Everything but the namespace, which nobody would finalise quickly; and the objects Ballast itself made."""
    for manifest in render(values):
        if manifest["kind"] != "Namespace":
            plane.api.raw("DELETE", path_of(manifest), {"propagationPolicy": "Background"})
    for made in ("configmaps/ballast-state", "configmaps/ballast-switches"):
        plane.api.raw("DELETE", f"/api/v1/namespaces/{NAMESPACE}/{made}")
    plane.api.raw("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/ballast")
    plane.api.delete(f"/api/v1/namespaces/{NAMESPACE}/pods", {"gracePeriodSeconds": 0})


def path_of(manifest: Json) -> str:
    version, kind, name = manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    space = "" if kind in _CLUSTER_WIDE else f"/namespaces/{manifest['metadata'].get('namespace', NAMESPACE)}"
    plural = re.sub("ys$", "ies", f"{kind.lower()}s")
    return f"{root}{space}/{plural}/{name}"
