"""Checks of what schedulers are told of Ballast, as far as their configuration can be read."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from ballast.doctor.cluster_view import CheckNotPossible, part, text, title
from ballast.doctor.evidence import Evidence
from ballast.doctor.extender_entry import Remark, doubtful, refused, wrong_fields
from ballast.doctor.finding import Finding
from ballast.doctor.scheduler_files import TRIMARAN, SchedulerFile
from ballast.publishing.node_keys import GUARDED, NodeKeys
from ballast.settings import HttpSettings, Mode
from ballast.settings.model import variable

_CRANE_CONTROLLERS = ("crane-scheduler-controller", "craned")


def labels(evidence: Evidence) -> Iterator[Finding]:
    """Whether a scheduler that prefers nodes by the score labels finds them.

    Found: it reads labels that nobody writes: publishing is not on, or the prefix is another; or no node has a score
    though publishing is on.
    Fix: `BALLAST_PUBLISHING__MODE=on`, `BALLAST_PUBLISHING__LABEL_PREFIX=ballast.dev`
    """
    publishing = evidence.settings.publishing
    keys_of_ours = NodeKeys.of(publishing.prefix, publishing.label_prefix)
    own = keys_of_ours.score
    if publishing.mode is Mode.ON and not any(own in node.labels for node in evidence.nodes):
        message = f"publishing is on, but none of {len(evidence.nodes):,} nodes has the label {own}"
        fix = ("ballast doctor --only rbac,lease,freshness", f"kubectl get nodes -L {own}")
        yield Finding("pairing-labels", "fail", own, message, fix)
    paired = False
    for file in evidence.schedulers.files:
        keys = {key for key in file.label_keys() if key.endswith("/score")}
        paired = paired or bool(keys)
        if keys and publishing.mode is not Mode.ON:
            message = f"it prefers nodes by {', '.join(sorted(keys))}, which nobody writes: publishing is not on"
            yield Finding("pairing-labels", "fail", file.where, message, ("BALLAST_PUBLISHING__MODE=on",))
        for key in sorted(keys - {own}):
            message = f"it reads the label {key}, Ballast writes {own}"
            prefix = variable("publishing", "label_prefix")
            fix = (f"{prefix}={key.removesuffix('/score')}", "ballast profile labels")
            yield Finding("pairing-labels", "fail", file.where, message, fix)
    if publishing.mode is Mode.ON and not keys_of_ours.guarded and any(own in n.labels for n in evidence.nodes):
        message = f"the kubelet of a node may write {own} on it; nobody but you and Ballast may write {GUARDED}/score"
        yield Finding("pairing-labels", "ok", own, message, (f"BALLAST_PUBLISHING__LABEL_PREFIX={GUARDED}",))
    if not paired and (publishing.mode is not Mode.ON or any(own in node.labels for node in evidence.nodes)):
        also = (
            ": scheduler-follows tells by where pods land"
            if publishing.mode is Mode.ON
            else ", and publishing is not on"
        )
        raise CheckNotPossible(
            f"no configuration of a scheduler that can be seen reads the labels{also} ({evidence.schedulers.looked})"
        )


def extender(evidence: Evidence) -> Iterator[Finding]:
    """Whether a scheduler that asks the extender asks at the right address, in the way Ballast answers.

    Found: another port, path or scheme than Ballast serves; a Service that does not exist; a field for which
    kube-scheduler never asks, asks in another way or does not start: `managedResources`, no `weight`, a version that is
    gone, an `httpTimeout` too short to be heard; or pods wait for a scheduler that does not place them.
    Fix: `urlPrefix: http://ballast-extender.ballast:2020/scheduler`, `nodeCacheCapable: true`, `ignorable: true`,
    `managedResources: []`, `weight: 10`, `httpTimeout: 250ms`
    """
    http = evidence.settings.http
    serving = http.of_extender() or http
    port = serving.port
    files = [(file, extender) for file in evidence.schedulers.files for extender in _asking(file, port)]
    if not files:
        raise CheckNotPossible(
            f"no scheduler that can be seen asks an extender of Ballast ({evidence.schedulers.looked}): "
            "ballast profile extender prints one"
        )
    minor = _minor(evidence)
    for file, extender in files:
        url = text(extender, "urlPrefix")
        address = [*_wrong_address(evidence, url, serving)]
        if urlsplit(url).path.split("/")[1:2] != ["scheduler"]:
            address.append(f"the path of {url} is not /scheduler")
        right = f"urlPrefix: {_address(evidence, serving)}/scheduler"
        wrong = (*(Remark(each, right) for each in address), *wrong_fields(extender, serving), *refused(file, minor))
        if remarks := wrong or tuple(doubtful(extender)):
            message = "; ".join(each.problem for each in remarks)
            fix = tuple(dict.fromkeys(each.fix for each in remarks))
            yield Finding("pairing-extender", "fail" if wrong else "warn", file.where, message, fix)
    names = {text(profile, "schedulerName") for file, _ in files for profile in file.profiles}
    yield from _waiting(evidence, "pairing-extender", names)


def trimaran(evidence: Evidence) -> Iterator[Finding]:
    """Whether Trimaran's plugins read their load from Ballast.

    Found: their `watcherAddress` is another port or scheme, a Service that does not exist, or missing (then Trimaran
    asks its own metric provider); or several of its plugins run together.
    Fix: `watcherAddress: http://ballast.ballast:2020`
    """
    arguments = [
        (file, plugin, args)
        for file in evidence.schedulers.files
        for plugin in TRIMARAN
        for args in file.arguments(plugin)
    ]
    if not arguments:
        raise CheckNotPossible(
            f"no scheduler that can be seen has plugins of Trimaran ({evidence.schedulers.looked}): "
            "ballast profile trimaran prints one"
        )
    serving = evidence.settings.http
    for file, plugin, args in arguments:
        key = TRIMARAN[plugin]
        url = text(args, key)
        problems = [*_wrong_address(evidence, url, serving)] if url else [f"{plugin} has no {key}: it asks no Ballast"]
        if problems:
            fix = (f"{key}: {_address(evidence, serving, 'ballast')}",)
            yield Finding("pairing-trimaran", "fail", file.where, "; ".join(problems), fix)
    for file in {file.where: file for file, _, _ in arguments}.values():
        enabled = [plugin for plugin in TRIMARAN if file.enables(plugin)]
        if len(enabled) > 1:
            message = f"{' and '.join(enabled)} run together; their maintainers advise one at a time"
            yield Finding("pairing-trimaran", "warn", file.where, message, ("ballast profile trimaran",))


def crane(evidence: Evidence) -> Iterator[Finding]:
    """Whether crane-scheduler's plugin finds its annotations, and nobody else writes them.

    Found: the plugin Dynamic runs while Ballast does not write the annotations; or crane's own controller writes too.
    Fix: `BALLAST_PUBLISHING__CRANE=true`, `kubectl -n crane-system scale deployment crane-scheduler-controller
    --replicas=0`
    """
    publishing = evidence.settings.publishing
    writes = publishing.crane and publishing.mode is Mode.ON
    reading = [file for file in evidence.schedulers.files if file.enables("Dynamic")]
    for file in reading:
        if not writes:
            message = "its plugin Dynamic reads annotations that nobody writes: every node passes its filter"
            fix = ("BALLAST_PUBLISHING__CRANE=true", "BALLAST_PUBLISHING__MODE=on")
            yield Finding("pairing-crane", "fail", file.where, message, fix)
    if not reading and not writes:
        raise CheckNotPossible(
            f"crane's annotations are not written, and no scheduler that can be seen reads them "
            f"({evidence.schedulers.looked})"
        )
    if not writes:
        return
    for deployment in evidence.cluster.all("/apis/apps/v1/deployments"):
        name = text(deployment, "metadata", "name")
        if name in _CRANE_CONTROLLERS and part(deployment, "spec", "replicas") != 0:
            message = "crane's own controller writes the same annotations as Ballast"
            stop = f"kubectl -n {text(deployment, 'metadata', 'namespace')} scale deployment {name} --replicas=0"
            yield Finding(
                "pairing-crane", "fail", title(deployment), message, (stop, "BALLAST_PUBLISHING__CRANE=false")
            )


def asks_ballast(files: tuple[SchedulerFile, ...], serving: HttpSettings) -> bool:
    """Whether any of these schedulers asks an extender of Ballast."""
    return any(True for file in files for _ in _asking(file, serving.port))


def _asking(file: SchedulerFile, port: int) -> Iterator[dict[str, object]]:
    """Extenders at a host that is named so, or at Ballast's port."""
    for extender in file.extenders:
        parts = urlsplit(text(extender, "urlPrefix"))
        if "ballast" in (parts.hostname or "") or parts.netloc.endswith(f":{port}"):
            yield dict(extender)


def _minor(evidence: Evidence) -> int | None:
    """Of the cluster's version: its schedulers are about as new."""
    digits = re.match(r"\d+", text(evidence.cluster.find("/version") or {}, "minor"))
    return int(digits[0]) if digits else None


def _wrong_address(evidence: Evidence, url: str, serving: HttpSettings) -> Iterator[str]:
    parts = urlsplit(url)
    scheme = "https" if serving.tls_cert_file else "http"
    if parts.scheme != scheme:
        yield f"{url} is {parts.scheme or 'no address'}, Ballast serves {scheme}"
    labels = (parts.hostname or "").split(".")
    if len(labels) < 2 or (len(labels) > 2 and labels[2] != "svc") or labels[0].isdigit():
        return  # not the name of a Service
    service, namespace = labels[0], labels[1]
    target = evidence.cluster.find(f"/api/v1/namespaces/{namespace}/services/{service}")
    if target is None:
        yield f"there is no Service {service} in namespace {namespace}"
        return
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        yield f"the port of {url} is no number"
        return
    served = [entry.get("port") for entry in part(target, "spec", "ports") or ()]
    if served and port not in served:
        yield f"the Service {service} has no port {port}, but {', '.join(map(str, served))}"


def _address(evidence: Evidence, serving: HttpSettings, service: str = "ballast-extender") -> str:
    scheme = "https" if serving.tls_cert_file else "http"
    return f"{scheme}://{service}.{evidence.cluster.namespace}:{serving.port}"


def _waiting(evidence: Evidence, check: str, schedulers: set[str]) -> Iterator[Finding]:
    """Pods that no scheduler has looked at, though its configuration is there: it does not run."""
    pods = evidence.cluster.all("/api/v1/pods", fieldSelector="status.phase=Pending")
    for name in sorted(schedulers - {"", "default-scheduler"}):
        waiting = [
            pod
            for pod in pods
            if text(pod, "spec", "schedulerName") == name
            and not part(pod, "spec", "nodeName")
            and not part(pod, "spec", "schedulingGates")
            and not part(pod, "status", "conditions")
        ]
        if waiting:
            message = f"{len(waiting):,} pods wait for the scheduler {name}, which has looked at none of them"
            fix = ("kubectl get pods -A | grep -i scheduler", "kubectl -n kube-system get leases")
            yield Finding(check, "fail", title(waiting[0]), message, fix)
