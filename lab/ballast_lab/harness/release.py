"""The chart as Helm installs it on the real API server, and the daemon and the jobs with the rights it gives them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
import yaml

from ballast_lab.harness.api import Api
from ballast_lab.harness.audit import Call
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.kubeconfig import write_kubeconfig
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.waiting import HUNG, eventually

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "ballast"
LOADS = {"busy": 0.95, "idle": 0.1}
LATE = "late"
"""Prometheus tells of this node before it is in the cluster: a condition comes, is saved, goes, and is saved again."""
WRITING = {"create", "update", "patch", "delete", "deletecollection"}


class Release:
    """One installation of the chart in a namespace of its own that admits restricted pods alone."""

    def __init__(self, cluster: ControlPlane, helm: Path, folder: Path, namespace: str, prometheus_url: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.namespace = namespace
        self.port = free_port()
        self._helm = helm
        self._values = folder / "values.yaml"
        self._values.write_text(yaml.safe_dump(_values(prometheus_url, self.port)))
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})

    def helm(self, *arguments: object) -> str:
        command = [self._helm, *arguments, "--namespace", self.namespace, "--kubeconfig", self.cluster.admin_kubeconfig]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, *arguments: object) -> str:
        return self.helm("install", "ballast", CHART, "--values", self._values, *arguments)

    def install_with(self, settings: dict[str, Any]) -> str:
        """With these settings beside those of every test."""
        more = self.folder / "more.yaml"
        more.write_text(yaml.safe_dump({"settings": settings}))
        return self.install("--values", more)

    def upgrade(self, *arguments: object) -> str:
        return self.helm("upgrade", "ballast", CHART, "--values", self._values, *arguments)

    def path(self, collection: str, group: str = "api/v1") -> str:
        return f"/{group}/namespaces/{self.namespace}/{collection}"

    def user(self, account: str) -> str:
        return f"system:serviceaccount:{self.namespace}:{account}"

    def pods(self) -> list[str]:
        """The names of the Deployment's two pods, running on the node `busy`."""
        selector = "pods?labelSelector=app.kubernetes.io/component=daemon"
        found = eventually("two pods pass admission", lambda: self._two(selector))
        for name in found:
            target = {"apiVersion": "v1", "kind": "Node", "name": "busy"}
            self.cluster.api.post(self.path(f"pods/{name}/binding"), {"metadata": {"name": name}, "target": target})
        eventually("they run", lambda: {each["status"]["phase"] for each in self._items(selector)} == {"Running"})
        return found

    def endpoints(self, service: str) -> set[str]:
        """The pods a Service leads to."""
        slices = self._items(
            f"endpointslices?labelSelector=kubernetes.io/service-name={service}", "apis/discovery.k8s.io/v1"
        )
        return {
            each["targetRef"]["name"]
            for one in slices
            for each in one["endpoints"] or ()
            if each["conditions"]["ready"]
        }

    @contextmanager
    def daemon(self, pod: str) -> Iterator[Process]:
        """`ballast run` as the container of `pod` would run it, with a token of the chart's ServiceAccount."""
        deployment = self.cluster.api.get(self.path("deployments/ballast", "apis/apps/v1"))
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        environment = self._environment(container, pod, "ballast")
        url = f"http://127.0.0.1:{self.port}/readyz"
        assert container["args"] == ["run"]
        command = [sys.executable, "-m", "ballast", "run"]
        log = self.folder / f"{pod}.log"
        process = Process("ballast", command, log, env=environment, ready=lambda: _get(url), port=self.port)
        try:
            yield process
        finally:
            process.stop()

    def answer(self, path: str) -> Any:
        """What the running daemon says."""
        with requests.Session() as session:
            session.trust_env = False
            return session.get(f"http://127.0.0.1:{self.port}{path}", timeout=HUNG).json()

    def see_the_state_change(self) -> None:
        state = self.path("configmaps/ballast-state")
        first = eventually("a condition is saved", lambda: self.cluster.api.get(state)["metadata"]["resourceVersion"])
        add_nodes(self.cluster.api, [node(LATE)])
        eventually("it goes", lambda: self.cluster.api.get(state)["metadata"]["resourceVersion"] != first)

    def run_job(self, job: dict[str, Any], account: str) -> str:
        """What the one container of a Job's pod prints."""
        [container] = job["template"]["spec"]["containers"]
        assert job["template"]["spec"]["serviceAccountName"] == account
        assert container["args"][0] == "release"
        done = subprocess.run(
            [sys.executable, "-m", "ballast", *container["args"]],
            env=self._environment(container, "job", account),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def granted_writes(self, account: str) -> set[tuple[str, str]]:
        """{(verb, resource)} beyond reading, over all roles bound to the account, wherever they are."""
        found: set[tuple[str, str]] = set()
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        for kind in ("clusterrole", "role"):
            for binding in self.cluster.api.items(f"{rbac}/{kind}bindings"):
                subjects = {(each["name"], each.get("namespace")) for each in binding.get("subjects", [])}
                if (account, self.namespace) in subjects:
                    scope = f"namespaces/{binding['metadata']['namespace']}/" if kind == "role" else ""
                    rules = self.cluster.api.get(f"{rbac}/{scope}{kind}s/{binding['roleRef']['name']}")["rules"]
                    found |= {
                        (verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]
                    }
        return {(verb, resource) for verb, resource in found if verb in WRITING}

    def _environment(self, container: dict[str, Any], pod: str, account: str) -> dict[str, str]:
        fields = {"metadata.name": pod, "metadata.namespace": self.namespace, "status.podIP": "10.9.0.1"}
        given = {
            each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container["env"]
        }
        if "BALLAST_CONFIG_FILE" in given:
            file = self.folder / Path(given["BALLAST_CONFIG_FILE"]).name
            file.write_text(self.cluster.api.get(self.path("configmaps/ballast-config"))["data"][file.name])
            given["BALLAST_CONFIG_FILE"] = str(file)
        token = self.cluster.account_token(self.namespace, account)
        config = write_kubeconfig(
            self.folder / f"{account}.kubeconfig",
            url=self.cluster.url,
            ca=self.cluster.certificates.ca,
            token=token,
            namespace=self.namespace,
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BALLAST_", "KUBE", "POD_"))}
        environment = {**kept, **given, "KUBECONFIG": str(config), "COVERAGE_PROCESS_START": ""}
        if "BALLAST_EXTENDER__TOKEN_FILE" in given:
            made = make_credentials(self.cluster, self.namespace, self.folder, environment)
            environment["BALLAST_EXTENDER__TOKEN_FILE"] = str(made / "token")
        return environment

    def _two(self, selector: str) -> list[str]:
        names = sorted(each["metadata"]["name"] for each in self._items(selector))
        return names if len(names) == 2 else []

    def _items(self, collection: str, group: str = "api/v1") -> list[dict[str, Any]]:
        return self.cluster.api.items(self.path(collection, group))


def make_credentials(cluster: ControlPlane, namespace: str, folder: Path, environment: Mapping[str, str]) -> Path:
    """Runs the init container of the daemon; the folder with its files."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/ballast"
    [container] = cluster.api.get(path)["spec"]["template"]["spec"]["initContainers"]
    _, _, module, _ = container["command"]
    command = [sys.executable, "-m", module, str(folder / "made"), *container["args"]]
    subprocess.run(command, env={**environment, "POD_NAMESPACE": namespace}, check=True, stdout=subprocess.DEVNULL)
    return folder / "made"


def _values(prometheus_url: str, port: int) -> dict[str, Any]:
    def series(value: str) -> str:
        return f'label_replace({value}, "node", "NAME", "", "")'

    query = " or ".join(series(f"vector({load})").replace("NAME", name) for name, load in {**LOADS, LATE: 0.5}.items())
    freshness = " or ".join(series("vector(time())").replace("NAME", name) for name in (*LOADS, LATE))
    resource = {"query": query, "freshness": freshness, "node_label": "node"}
    return {
        "configCheck": {"enabled": False},  # nothing runs the pods of its Job here
        "settings": {
            "prometheus": {"url": prometheus_url},
            "telemetry": {"interval": "1s", "resources": {"cpu": resource}},
            "windows": {"lengths": ["10s"], "min_samples": 3, "max_age": "30s"},
            "publishing": {"taint": True},
            "http": {"host": "127.0.0.1", "port": port},
        },
    }


def _get(url: str) -> bool:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=HUNG).status_code == 200


def writes(calls: list[Call]) -> set[tuple[str, str]]:
    return {(call.verb, call.resource) for call in calls if call.verb in WRITING}


def forbidden(calls: list[Call]) -> set[tuple[str, str]]:
    return {(call.verb, call.uri) for call in calls if call.forbidden}


def hooks(release: Release) -> list[dict[str, Any]]:
    """What Helm would create after an uninstall, as it was rendered."""
    manifests = yaml.safe_load_all(release.helm("get", "hooks", "ballast"))
    return [each for each in manifests if each and each["metadata"]["name"].startswith("ballast-cleanup")]


def create(api: Api, manifest: dict[str, Any], namespace: str) -> None:
    scope = f"namespaces/{namespace}/"
    collection = {
        "ServiceAccount": f"/api/v1/{scope}serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Role": f"/apis/rbac.authorization.k8s.io/v1/{scope}roles",
        "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/{scope}rolebindings",
        "Job": f"/apis/batch/v1/{scope}jobs",
    }[manifest["kind"]]
    api.post(collection, manifest)
