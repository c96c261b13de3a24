"""Gives back the caps that Ballast set; the original is in an annotation of the autoscaler."""

from __future__ import annotations

from collections.abc import Iterable

from ballast.actuation.scaling import retry_on_conflict
from ballast.actuation.scaling.cap import ORIGINAL, SET, Form, form_of, is_ours, original
from ballast.base.errors import NOT_JSON, ClusterError
from ballast.cluster.client import KubeApi
from ballast.cluster.write import Result, Write, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.model.workload import Autoscaler


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


def read(api: KubeApi, form: Form, path: str) -> Autoscaler:
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

    return retry_on_conflict.retry_on_conflict(
        writer, autoscaler, decide, lambda: read(api, form, form.path(autoscaler))
    )
