"""Renders the chart as Helm does, and finds things in what comes out."""

import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "ballast"
NAMESPACE = "ballast-system"
RENDERED = "TESTS_RENDERED"
"""Names the folder of what Helm printed in this run."""

MONITORING = ("--api-versions", "monitoring.coreos.com/v1")

Manifest: TypeAlias = dict[str, Any]
Values: TypeAlias = dict[str, Any]

PUBLISHING: Values = {"settings": {"prometheus": {"url": "http://prometheus:9090"}, "publishing": {"mode": "on"}}}
POLICIES: list[Values] = [
    {
        "name": "site-a",
        "feed": {"query": 'sum(site_watts{site!="<b>"}) > 0', "semantics": "available", "floorWatts": 1234567},
        "groups": [
            {
                "name": "web",
                "members": [
                    {"ref": "shop/api", "min": 2, "max": 20, "weight": 0.1},
                    {"ref": "deployments.apps/shop/cart", "max": 8},
                    {"ref": "statefulsets.apps/shop/queue", "max": 3},
                ],
            }
        ],
    },
    {
        "name": "site-b",
        "feed": {"query": "site_b_watts", "semantics": "limit"},
        "independents": [{"ref": "batch/reports", "max": 5}, {"ref": "rollouts.argoproj.io/batch/web", "max": 5}],
    },
]
EVERYTHING: Values = {
    "settings": {
        "prometheus": {"url": "https://prometheus:9090", "username": "ballast", "headers": {"X-Scope-OrgID": "a"}},
        "telemetry": {"resources": {"cpu": {}, "gpu": {"query": 'max by (node) (DCGM_UTIL{a!="<b>"}) / 100'}}},
        "windows": {"lengths": ["15m", "5m"], "max_age": 90},
        "cluster": {"qps": 12.5, "node_selector": "pool=a"},
        "publishing": {"mode": "on", "taint": True, "max_unknown": 0.05},
        "power": {"mode": "on", "policies": POLICIES},
        "eviction": {"mode": "on", "pvc": "refuse"},
        "log": {"level": "debug"},
    },
    "existingSecrets": {
        "prometheus": {
            "password_file": {"name": "prometheus-password", "key": "password"},
            "ca_file": {"name": "prometheus-tls", "key": "ca.crt"},
            "cert_file": {"name": "prometheus-tls", "key": "tls.crt"},
            "key_file": {"name": "prometheus-tls", "key": "tls.key"},
        }
    },
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "image": {"digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": [{"name": "pull"}],
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists"}],
    "podLabels": {"team": "platform"},
    "podAnnotations": {"note": "x"},
    "service": {"annotations": {"note": "x"}},
    "serviceAccount": {"annotations": {"note": "x"}},
    "admissionPolicy": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "from": [{"ipBlock": {"cidr": "10.0.0.0/16"}}],
        "egress": [{"ports": [{"port": 6443}]}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboard": {"enabled": True, "annotations": {"folder": "Ballast"}},
}
SCHEDULER: Values = {
    **PUBLISHING,
    "tls": {"certManager": {"enabled": True}},
    "scheduler": {
        "enabled": True,
        "podMonitor": {"enabled": True},
        "optIn": {"namespaceSelector": {"matchLabels": {"ballast.dev/schedule": "true"}}},
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "extraArgs": ["--v=4"],
    },
}
NEIGHBOURS: Values = {
    **PUBLISHING,
    "global": {"imageRegistry": "registry.example.org"},
    "commonLabels": {"team": "platform"},
    "deploymentAnnotations": {"note": "x"},
    "tls": {"enabled": True, "existingSecret": "mine"},
    "podMonitor": {"enabled": True, "sampleLimit": 5000, "scrapeTimeout": "10s"},
    "ingress": {"enabled": True, "className": "nginx", "hosts": ["ballast.example.org"]},
    "service": {"type": "NodePort", "nodePort": 30020, "extender": {"annotations": {"note": "extender"}}},
    "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    "topologySpreadConstraints": [],
    "hostNetwork": False,
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
    "livenessProbe": {"failureThreshold": 9},
    "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": True}}],
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more", "namespace": NAMESPACE}}],
    "scheduler": {"enabled": True, "pairing": "labels"},
}
MODES = ("off", "dry-run", "on")
POWER: Values = {
    "settings": {
        "publishing": {"mode": "off"},
        "power": {"mode": "on", "policies": POLICIES},
        "eviction": {"mode": "off"},
    }
}


def modes(publishing: str = "dry-run", power: str = "dry-run", eviction: str = "dry-run") -> Values:
    return {"settings": {"publishing": {"mode": publishing}, "power": {"mode": power}, "eviction": {"mode": eviction}}}


def with_source(values: Values) -> Values:
    """The same, with an address of Prometheus where they name no source of load; the chart asks for one."""
    settings = values.get("settings") or {}
    if "source" in (settings.get("telemetry") or {}) or "url" in (settings.get("prometheus") or {}):
        return values
    prometheus = {"url": "http://prometheus:9090", **(settings.get("prometheus") or {})}
    return {**values, "settings": {**settings, "prometheus": prometheus}}


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RenderFailed(Exception):
    """Helm's message."""


@cache
def _output(command: tuple[str, ...], given: str | None) -> str:
    """What Helm prints. The workers of one run share it, so that each set of values is rendered once."""
    if RENDERED not in os.environ:
        return _run(command, given)
    with Path(os.environ[RENDERED], hashlib.sha256(repr((command, given)).encode()).hexdigest()).open("a+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        if not (text := kept.read()):
            text = _run(command, given)
            kept.write(text)
    return text


def _run(command: tuple[str, ...], given: str | None) -> str:
    nowhere = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=nowhere)
    if done.returncode:
        raise RenderFailed(done.stdout + done.stderr)
    return done.stdout


@dataclass(frozen=True)
class Helm:
    binary: Path

    def run(self, *arguments: object, values: Values | None = None) -> str:
        command = [str(part) for part in (self.binary, *arguments)]
        if values is not None:
            command += ["--values", "-"]
        given = None if values is None else yaml.safe_dump(values)
        return _output(tuple(command), given)

    def template(self, values: Values | None = None, *arguments: object) -> list[Manifest]:
        command = ("template", "ballast", CHART, "--namespace", NAMESPACE, *arguments)
        text = self.run(*command, values=with_source(values or {}))
        return [manifest for manifest in yaml.load_all(text, Loader=_LOADER) if manifest]

    def notes(self, values: Values | None = None) -> str:
        """On one line. Helm 4 alone tells them without a cluster."""
        text = self.run(
            "install", "ballast", CHART, "-n", NAMESPACE, "--dry-run=client", values=with_source(values or {})
        )
        return re.sub(r"\s+", " ", text.partition("NOTES:")[2])


def of_kind(manifests: Iterable[Manifest], *kinds: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] in kinds]


def one(manifests: Iterable[Manifest], kind: str, name: str) -> Manifest:
    [found] = [manifest for manifest in of_kind(manifests, kind) if manifest["metadata"]["name"] == name]
    return found


def pod_templates(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    """{kind/name: pod template} of everything that runs."""
    found = {}
    for manifest in manifests:
        template = {
            "Deployment": lambda spec: spec["template"],
            "CronJob": lambda spec: spec["jobTemplate"]["spec"]["template"],
            "Job": lambda spec: spec["template"],
        }.get(manifest["kind"])
        if manifest["kind"] == "Pod":
            found[f"Pod/{manifest['metadata']['name']}"] = manifest
        elif template is not None:
            found[f"{manifest['kind']}/{manifest['metadata']['name']}"] = template(manifest["spec"])
    return found


def environment(container: Manifest) -> dict[str, str | None]:
    """{name: value}, None where the value comes from the pod."""
    return {variable["name"]: variable.get("value") for variable in container["env"]}
