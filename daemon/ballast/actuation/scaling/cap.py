"""Caps on autoscalers: the largest number of replicas they may ask for; how they are set, and given back.

Two annotations remember the cap before Ballast's (`original-max-replicas`) and Ballast's own (`power-cap`). They are
written in the same patch as the cap.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ballast.actuation.scaling.scale import retry_on_conflict
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.base.parts import Part
from ballast.cluster.client import KubeApi
from ballast.cluster.objects.decoding import Shared
from ballast.cluster.workloads import WireAutoscaler, WireScaledObject, to_autoscaler, to_scaled_object
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import Writer
from ballast.model.workload import Autoscaler

ORIGINAL = "original-max-replicas"
SET = "power-cap"
PART = Part.POWER
_PAUSED = "autoscaling.keda.sh/paused"
_PAUSED_AT = "autoscaling.keda.sh/paused-replicas"


@dataclass(frozen=True)
class Form:
    """Where an autoscaler keeps its cap: the collection under its API group, and the field of its spec."""

    api_version: str
    plural: str
    field: str
    decode: Callable[[bytes], Autoscaler]

    def path(self, autoscaler: Autoscaler) -> str:
        """API path of this autoscaler."""
        collection = f"/apis/{self.api_version}/namespaces/{autoscaler.namespace}/{self.plural}"
        return object_path(collection, autoscaler.own_name)

    def write(self, autoscaler: Autoscaler, prefix: str, cap: int, reason: str, *, aggregated: bool = False) -> Write:
        """Sets the cap, at most to the original, against the version of `autoscaler`. Raises as `original` does.

        The original stays noted when it is reached: as long as a policy has the target, the cap counts.
        """
        before = ceiling(autoscaler, prefix)
        annotations: dict[str, str | None] = {
            f"{prefix}/{ORIGINAL}": str(before),
            f"{prefix}/{SET}": str(min(cap, before)),
        }
        return self._patch(autoscaler, annotations, min(cap, before), reason, aggregated)

    def forget(self, autoscaler: Autoscaler, prefix: str, reason: str, *, cap: int | None = None) -> Write:
        """Removes Ballast's annotations and sets `cap`; None leaves the cap as it is."""
        return self._patch(autoscaler, {f"{prefix}/{ORIGINAL}": None, f"{prefix}/{SET}": None}, cap, reason)

    def _patch(
        self,
        autoscaler: Autoscaler,
        annotations: dict[str, str | None],
        cap: int | None,
        reason: str,
        aggregated: bool = False,
    ) -> Write:
        target = WriteTarget(
            autoscaler.own_kind, autoscaler.own_name, autoscaler.namespace, autoscaler.uid, self.api_version
        )
        return Write(
            kind="cap",
            part=PART,
            method="PATCH",
            path=self.path(autoscaler),
            target=target,
            reason=reason,
            body={
                "metadata": {"resourceVersion": autoscaler.version, "annotations": annotations},
                **({} if cap is None else {"spec": {self.field: cap}}),
            },
            content_type=MERGE_PATCH,
            event="CapForPower",
            done_event="CapChanged",
            aggregated=aggregated,
        )


def original(autoscaler: Autoscaler, prefix: str) -> int | None:
    """The cap before Ballast's, None where none is noted. Raises ValueError where it is not a decimal number."""
    text = autoscaler.annotations.get(f"{prefix}/{ORIGINAL}")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{prefix}/{ORIGINAL} is {text!r}, expected a decimal number")
    return int(text)


def ceiling(autoscaler: Autoscaler, prefix: str) -> int:
    """The largest cap that a budget may set: the original of its own cap, else the cap there is. Raises likewise."""
    before = original(autoscaler, prefix)
    return before if before is not None and is_ours(autoscaler, prefix) else autoscaler.maximum


def is_ours(autoscaler: Autoscaler, prefix: str) -> bool:
    """Whether the cap in force is the one that Ballast set. Raises as `original` does.

    Without a note of what was set, a cap below its original counts as ours.
    """
    before, noted = original(autoscaler, prefix), autoscaler.annotations.get(f"{prefix}/{SET}")
    if before is None:
        return False
    return autoscaler.maximum < before if noted is None else noted == str(autoscaler.maximum)


def least(autoscaler: Autoscaler) -> int:
    """The lowest cap that its own minimum allows, at least 1."""
    return max(1, autoscaler.minimum)


class Pause(NamedTuple):
    """What pauses a ScaledObject: the key of an annotation, and a sentence part with it."""

    key: str
    text: str


def paused(scaled_object: Autoscaler) -> Pause | None:
    """Why a cap has no effect now, or None: KEDA removes the autoscaler of a paused ScaledObject."""
    for key in (_PAUSED, _PAUSED_AT):
        value = scaled_object.annotations.get(key)
        if value is not None and (key == _PAUSED_AT or value != "false"):
            return Pause(key, f'ScaledObject {scaled_object.own_name} is paused ({key}: "{value}")')
    return None


def form_of(autoscaler: Autoscaler) -> Form:
    """The form of this autoscaler's kind."""
    return form_named(autoscaler.own_kind)


def form_named(kind: str) -> Form:
    """The form of a kind, HorizontalPodAutoscaler or ScaledObject."""
    return SCALED_OBJECT if kind == "ScaledObject" else HPA


def _decoder(form: type[msgspec.Struct], build: Callable[..., Autoscaler]) -> Callable[[bytes], Autoscaler]:
    """Decodes one object with all its annotations. Raises msgspec.DecodeError."""
    decoder = msgspec.json.Decoder(form)
    return lambda body: build(decoder.decode(body), Shared(), lambda key: True)


HPA = Form("autoscaling/v2", "horizontalpodautoscalers", "maxReplicas", _decoder(WireAutoscaler, to_autoscaler))
"""Its controller obeys a lowered `maxReplicas` at its next sync, whatever the metrics say."""

SCALED_OBJECT = Form(
    "keda.sh/v1alpha1", "scaledobjects", "maxReplicaCount", _decoder(WireScaledObject, to_scaled_object)
)
"""KEDA carries `maxReplicaCount` into the HorizontalPodAutoscaler it owns, and undoes any edit there.

It also copies the annotations of the ScaledObject to that autoscaler, Ballast's included (controllers/keda/hpa.go).
"""


def give_back(
    api: KubeApi, writer: Writer, autoscalers: Iterable[Autoscaler], prefix: str, *, reason: str
) -> list[WriteOutcome]:
    """Restores every cap that is still Ballast's; where someone else has set another since, only the annotations go.

    Ends where the writer refuses; that outcome is the last.
    """
    outcomes: list[WriteOutcome] = []
    for autoscaler in autoscalers:
        if outcomes and outcomes[-1].result is Result.REFUSED:
            break
        if carries(autoscaler, prefix):
            outcomes.append(_one(api, writer, autoscaler, prefix, reason))
    return outcomes


def carries(autoscaler: Autoscaler, prefix: str) -> bool:
    """Whether it has Ballast's annotations. Those that KEDA copied to the autoscaler it owns do not count."""
    copied = autoscaler.owner is not None and autoscaler.owner.kind == "ScaledObject"
    return not copied and any(f"{prefix}/{key}" in autoscaler.annotations for key in (ORIGINAL, SET))


def read_autoscaler(api: KubeApi, form: Form, path: str) -> Autoscaler:
    """The autoscaler at this API path. Raises ClusterError."""
    body = api.get(path)
    try:
        return form.decode(body)
    except NOT_JSON as error:
        raise ClusterError(f"GET {path}: not an autoscaler ({error})") from error


def _one(api: KubeApi, writer: Writer, autoscaler: Autoscaler, prefix: str, reason: str) -> WriteOutcome:
    form = form_of(autoscaler)

    def decide(seen: Autoscaler) -> Write | WriteOutcome:
        try:
            before, ours = original(seen, prefix), is_ours(seen, prefix)
        except ValueError as error:
            return WriteOutcome(form.forget(seen, prefix, reason), Result.FAILED, f"{error}. Set the cap by hand.")
        return form.forget(seen, prefix, reason, cap=before if ours else None)

    return retry_on_conflict(writer, autoscaler, decide, lambda: read_autoscaler(api, form, form.path(autoscaler)))
