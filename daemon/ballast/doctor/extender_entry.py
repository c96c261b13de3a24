"""Whether kube-scheduler accepts an extender of Ballast, whether it asks it, and how: by each field that decides."""

from collections.abc import Iterator
from typing import NamedTuple

from ballast.doctor.cluster_view import Document, part, text
from ballast.doctor.scheduler_files import SchedulerFile
from ballast.model import duration
from ballast.settings import HttpSettings

_GROUP = "kubescheduler.config.k8s.io/"
_GONE = {"v1beta3": 29, "v1beta2": 28}
"""Minor version of Kubernetes since which a version is gone; all older ones are."""
_OTHERS = ("nodeCacheCapable", "ignorable", "weight", "httpTimeout", "managedResources", "enableHTTPS", "tlsConfig")
_OTHER_VERBS = {"filterVerb": "filter", "bindVerb": "", "preemptVerb": ""}
_FIELDS = frozenset(("urlPrefix", "prioritizeVerb", *_OTHER_VERBS, *_OTHERS))
_SHORTEST = 0.1
"""Seconds: on a busy machine one answer of a hundred takes a third of it."""
_LONGEST = 2.0
_DEFAULT_TIMEOUT = 5.0


class Remark(NamedTuple):
    """What is wrong, and the line of the entry, or of its file, that mends it."""

    problem: str
    fix: str


def refused(file: SchedulerFile, minor: int | None = None) -> Iterator[Remark]:
    """Why a kube-scheduler of Kubernetes 1.`minor` does not start with this file; unknown is the newest."""
    version = text(file.document, "apiVersion").removeprefix(_GROUP)
    since = _GONE.get(version, 0)
    if version != "v1" and (minor is None or minor >= since):
        said = f"is gone since Kubernetes 1.{since}" if since else "is none that kube-scheduler knows"
        yield Remark(f"apiVersion {version or 'that is missing'} {said}: it does not start", f"apiVersion: {_GROUP}v1")
    names = [text(profile, "schedulerName") for profile in file.profiles]
    if len(set(names)) < len(names):
        yield Remark(
            "several profiles have one schedulerName: kube-scheduler does not start",
            "kubectl -n {} edit configmap {}".format(*file.where.split("/")),
        )
    if sum(bool(text(each, "bindVerb")) for each in file.extenders) > 1:
        yield Remark("several extenders have a bindVerb: kube-scheduler does not start", 'bindVerb: ""')


def wrong_fields(extender: Document, serving: HttpSettings) -> Iterator[Remark]:
    """Why it is not accepted, never asked, or asked in a way that Ballast does not answer."""
    for name in sorted(map(str, set(extender) - _FIELDS)):
        yield Remark(f"kube-scheduler knows no {name} and does not start", f"# without {name}")
    for key, why in (("nodeCacheCapable", "whole nodes are sent"), ("ignorable", "no pod is placed without it")):
        if extender.get(key) is not True:
            yield Remark(f"without {key}: true {why}", f"{key}: true")
    yield from _wrong_verbs(extender)
    yield from _wrong_timeout(extender)
    weight = extender.get("weight")
    if not isinstance(weight, int) or isinstance(weight, bool) or weight <= 0:
        said = "without a weight" if weight is None else f"weight {weight!r}"
        yield Remark(f"{said} kube-scheduler does not start: it has to be a whole number above 0", "weight: 10")
    if resources := extender.get("managedResources"):
        listed = resources if isinstance(resources, list) else []
        names = ", ".join(text(each, "name") for each in listed if isinstance(each, dict))
        yield Remark(f"managedResources: it is asked for pods that request {names} alone", "managedResources: []")
    if serving.client_ca_file and not (
        part(extender, "tlsConfig", "certFile") or part(extender, "tlsConfig", "certData")
    ):
        yield Remark("Ballast asks for a certificate, tlsConfig has none", "tlsConfig: {certFile: ..., keyFile: ...}")


def doubtful(extender: Document) -> Iterator[Remark]:
    """What may work, but not in every cluster or at every time."""
    seconds = _timeout(extender)
    if seconds is not None and seconds > _LONGEST:
        said = f"httpTimeout is {seconds:g} s: each pod waits as long while Ballast is down"
        yield Remark(said, "httpTimeout: 250ms")
    trusted = part(extender, "tlsConfig", "caFile") or part(extender, "tlsConfig", "caData")
    if text(extender, "urlPrefix").startswith("https:") and not (trusted or extender.get("enableHTTPS") is True):
        said = "without a CA in tlsConfig kube-scheduler trusts the CAs of its image alone"
        yield Remark(
            f"{said}; with enableHTTPS: true and no CA it trusts every certificate", "tlsConfig: {caFile: ...}"
        )


def _wrong_verbs(extender: Document) -> Iterator[Remark]:
    if text(extender, "prioritizeVerb").partition("?")[0] != "prioritize":
        yield Remark("without prioritizeVerb: prioritize it is not asked for scores", "prioritizeVerb: prioritize")
    for key, right in _OTHER_VERBS.items():
        if (verb := extender.get(key)) and verb != right:
            yield Remark(f"{key} {verb}: Ballast answers none of this name", f"{key}: {right or chr(34) * 2}")


def _wrong_timeout(extender: Document) -> Iterator[Remark]:
    seconds = _timeout(extender)
    if seconds is None:
        said = f"httpTimeout {extender['httpTimeout']!r} is no duration such as 250ms: kube-scheduler does not start"
        yield Remark(said, "httpTimeout: 250ms")
    elif seconds < _SHORTEST:
        said = f"httpTimeout {extender['httpTimeout']} is shorter than answers take while much is going on"
        yield Remark(f"{said}: then it is not heard", "httpTimeout: 250ms")


def _timeout(extender: Document) -> float | None:
    """Seconds; None where it is no duration. Nothing, and 0, mean kube-scheduler's default."""
    written = extender.get("httpTimeout")
    if written is None:
        return _DEFAULT_TIMEOUT
    seconds = duration.seconds(written, go=True) if isinstance(written, str) else None
    return seconds if seconds is None else float(seconds) or _DEFAULT_TIMEOUT
