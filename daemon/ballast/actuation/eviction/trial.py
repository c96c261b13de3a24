"""Tries the replacement of a pod before the pod is evicted: a create that the API server judges and does not store.

Admission judges it as it would the real one: quotas, PodSecurity, LimitRanges, priority classes, webhooks, policies.
Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run
"""

from typing import Any

import msgspec
import structlog

from ballast.actuation.eviction.requests import PART
from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget
from ballast.cluster.writer import Writer
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


class ReplacementTrial:
    """Used by the job of evictions alone."""

    def __init__(self, api: KubeApi, writer: Writer, clock: Clock) -> None:
        self._api, self._writer, self._clock = api, writer, clock
        self._untried_until = 0.0

    def refusal(self, pod: Pod, patience: float) -> str | None:
        """Why a replacement of the pod could not be created, within `patience` seconds; None where it could.

        None also without the right to try: what is known of quotas and failing workloads has to do then.
        """
        if self._clock.monotonic() < self._untried_until:
            return None
        try:
            manifest = self._manifest(pod)
        except (ClusterError, *NOT_JSON) as error:
            return f"its replacement could not be tried: {error}"[:_SAID]
        if manifest is None:
            return None
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
        return self._read(outcome)

    def _read(self, outcome: WriteOutcome) -> str | None:
        if outcome.result in (Result.DONE, Result.CONFLICT, Result.DRY_RUN):
            return None
        if outcome.status == 403 and not outcome.admission:
            self._untried_until = self._clock.monotonic() + UNTRIED_FOR
            _log.warning(f"replacements are not tried before evictions, for an hour: {outcome.reason}")
            return None
        if outcome.status == 400 and _NO_DRY_RUN in outcome.reason:
            _log.warning(f"{outcome.write.target} is evicted without a trial of its replacement: {outcome.reason}")
            return None
        return f"a replacement could not be created: {outcome.reason}"[:_SAID]

    def _manifest(self, pod: Pod) -> dict[str, Any] | None:
        """By a list, for which no further right is needed; None where it is gone or another one has its name."""
        body = self._api.get(_collection(pod), query={"fieldSelector": f"metadata.name={pod.name}"})
        items = msgspec.json.decode(body, type=_Pods).items
        return replacement_of(items[0]) if items and items[0]["metadata"].get("uid") == pod.uid else None


class _Pods(msgspec.Struct):
    items: list[dict[str, Any]]


def _collection(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods"


def replacement_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod as its owner would create it again, under another name."""
    meta, spec = manifest["metadata"], manifest["spec"]
    owners = [
        {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
        for owner in meta.get("ownerReferences") or ()
    ]
    kept = {"labels": meta.get("labels"), "annotations": meta.get("annotations"), "ownerReferences": owners}
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
