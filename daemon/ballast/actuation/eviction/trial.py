"""Tries the replacement of a pod before the pod is evicted: a create that the API server judges and does not store.

Admission judges it as it would the real one: quotas, PodSecurity, LimitRanges, priority classes, webhooks, policies.
Its answer is the replacement: what policies, autoscalers and injectors make of what the owner would create now.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import structlog

from ballast.actuation.eviction.requests import PART
from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared, to_pod
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget
from ballast.cluster.writer import Writer
from ballast.eviction.revisions import STATEFUL_HASH
from ballast.model.pod import Pod

TRIAL = "replacement-trial"
"""What metrics and audit lines call it."""

UNTRIED_FOR = 3600.0
"""Seconds until a right that was refused is asked for again."""

_SAID = 300
"""Characters of what the API server said that are kept."""
_NO_DRY_RUN = "does not support dry run"
"""The end of what the API server says where a webhook has side effects (apiserver admission/plugin/webhook/errors)."""
_ASSIGNED = ("nodeName", "priority", "preemptionPolicy", "ephemeralContainers")
"""Fields of a running pod's spec that it got at its creation or later."""

_log = structlog.get_logger("eviction")


class Tried(NamedTuple):
    """What a trial found out: `refusal` says why the pod could not come back as what it is; `comes` is the pod that
    would come, None where nothing could be tried."""

    refusal: str | None = None
    comes: Pod | None = None


UNTRIED = Tried()


class ReplacementTrial:
    """Used by the job of evictions alone."""

    def __init__(self, api: KubeApi, writer: Writer, clock: Clock) -> None:
        self._api, self._writer, self._clock = api, writer, clock
        self._untried_until = 0.0

    def replacement(self, pod: Pod, patience: float) -> Tried:
        """What would come for the pod, within `patience` seconds.

        UNTRIED without the right to try: what is known of quotas and failing workloads has to do then.
        """
        if self._clock.monotonic() < self._untried_until:
            return UNTRIED
        try:
            stored = self._stored(pod)
            manifest = None if stored is None else created(self._owner(stored), stored)
        except (ClusterError, *NOT_JSON) as error:
            return Tried(f"its replacement could not be tried: {error}"[:_SAID])
        if stored is None or manifest is None:
            return UNTRIED
        outcome = self._writer.submit(
            Write(
                kind=TRIAL,
                part=PART,
                method="POST",
                path=_collection(pod),
                target=WriteTarget("Pod", pod.name, pod.namespace, pod.uid),
                reason="whether its replacement could be created; nothing is stored",
                body=manifest,
                query={"dryRun": "All"},
            ),
            deadline=self._writer.within(patience),
        )
        if outcome.done:
            return _read(outcome.body, stored)
        return Tried(self._refusal(outcome))

    def _refusal(self, outcome: WriteOutcome) -> str | None:
        if outcome.result in (Result.CONFLICT, Result.DRY_RUN):
            return None
        if outcome.status == 403 and not outcome.admission:
            self._untried_until = self._clock.monotonic() + UNTRIED_FOR
            _log.warning(f"replacements are not tried before evictions, for an hour: {outcome.reason}")
            return None
        if outcome.status == 400 and _NO_DRY_RUN in outcome.reason:
            _log.warning(f"{outcome.write.target} is evicted without a trial of its replacement: {outcome.reason}")
            return None
        return f"a replacement could not be created: {outcome.reason}"[:_SAID]

    def _stored(self, pod: Pod) -> dict[str, Any] | None:
        """None where it is gone or another one has its name."""
        return self._named(_collection(pod), pod.name, pod.uid)

    def _owner(self, stored: dict[str, Any]) -> dict[str, Any] | None:
        """The ReplicaSet or StatefulSet that created it; None for other owners, of which no form is known."""
        references = stored["metadata"].get("ownerReferences") or ()
        owner: dict[str, Any] = next((each for each in references if each.get("controller")), {})
        plural = {"ReplicaSet": "replicasets", "StatefulSet": "statefulsets"}.get(owner.get("kind", ""))
        if plural is None or owner.get("apiVersion") != "apps/v1":
            return None
        path = f"/apis/apps/v1/namespaces/{stored['metadata']['namespace']}/{plural}"
        return self._named(path, owner["name"], owner.get("uid"))

    def _named(self, collection: str, name: str, uid: str | None) -> dict[str, Any] | None:
        """By a list, for which no further right is needed."""
        body = self._api.get(collection, query={"fieldSelector": f"metadata.name={name}"})
        items = msgspec.json.decode(body, type=_Listed).items
        return items[0] if items and items[0]["metadata"].get("uid") == uid else None


class _Listed(msgspec.Struct):
    items: list[dict[str, Any]]


def _read(body: bytes, stored: Mapping[str, Any]) -> Tried:
    """The pod that the API server would have created."""
    try:
        answer = msgspec.json.decode(body)
        before, now = _images(stored["spec"]), _images(answer["spec"])
        comes = to_pod(msgspec.convert(answer, wire.Pod), Shared(), lambda key: False)
    except (KeyError, TypeError, AttributeError, ValueError, *NOT_JSON) as error:
        return Tried(f"what the API server would create cannot be read: {error!r}"[:_SAID])
    changed = next((name for name in before if now.get(name, before[name]) != before[name]), None)
    if changed is not None:
        return Tried(f"it runs image {before[changed]} and would come back with {now[changed]} ({changed})"[:_SAID])
    return Tried(comes=comes)


def _images(spec: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("image", "") for each in spec.get("containers") or ()}


def _collection(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods"


def created(owner: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod as its owner would create it now, under another name: of the owner's template, where that is what it
    creates pods of, else as it is."""
    meta, spec = pod["metadata"], pod["spec"]
    labels, notes = meta.get("labels"), meta.get("annotations")
    if owner is not None and (own := _template(owner, pod)) is not None:
        template = own.get("metadata") or {}
        # Names of pods and revisions stand in labels that the template does not have.
        labels, notes = {**(labels or {}), **(template.get("labels") or {})}, template.get("annotations")
        spec = own["spec"]
    owners = [
        {key: value for key, value in each.items() if key != "blockOwnerDeletion"}
        for each in meta.get("ownerReferences") or ()
    ]
    kept = {"labels": labels, "annotations": notes, "ownerReferences": owners}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{meta['name'][:240].rstrip('-.')}-trial",
            "namespace": meta["namespace"],
            **{key: value for key, value in kept.items() if value},
        },
        "spec": {key: value for key, value in spec.items() if key not in _ASSIGNED},
    }


def _template(owner: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the owner creates pods of; None where that is another revision than the template of a StatefulSet."""
    template: dict[str, Any] | None = (owner.get("spec") or {}).get("template")
    if template is None or "spec" not in template:
        return None
    if "volumeClaimTemplates" not in owner["spec"] and "serviceName" not in owner["spec"]:
        return template
    meta = pod["metadata"]
    if (meta.get("labels") or {}).get(STATEFUL_HASH) != (owner.get("status") or {}).get("updateRevision"):
        return None
    # As its controller completes it (pkg/controller/statefulset, updateIdentity and updateStorage).
    claims = [each["metadata"]["name"] for each in owner["spec"].get("volumeClaimTemplates") or ()]
    volumes = [each for each in template["spec"].get("volumes") or () if each["name"] not in claims]
    volumes += [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{meta['name']}"}} for name in claims]
    identity = {key: pod["spec"][key] for key in ("hostname", "subdomain") if key in pod["spec"]}
    return {**template, "spec": {**template["spec"], **identity, **({"volumes": volumes} if volumes else {})}}
