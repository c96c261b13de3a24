"""The validation of the API server: names, labels, taints and immutable fields.

Messages follow k8s.io/apimachinery pkg/api/validate/content and pkg/apis/core/validation of Kubernetes 1.36.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from ballast_lab.simulator.kube.api_errors import ErrorCause, invalid, invalid_value
from ballast_lab.simulator.kube.kinds import Kind

_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_POD_IMMUTABLE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check(kind: Kind, new: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Raises ApiError (422) with a cause for every invalid field; `old` is None on create."""
    causes = [*_metadata(new["metadata"])]
    if kind.name == "Node":
        causes += _taints(new.get("spec", {}).get("taints") or [])
    if kind.name == "Lease":
        causes += _lease(new.get("spec") or {})
    if kind.name == "Pod" and old is not None and _frozen(new) != _frozen(old):
        causes.append(ErrorCause("FieldValueForbidden", "Forbidden: " + _POD_IMMUTABLE_TEXT, "spec"))
    if kind.name == "Pod" and old is not None:
        causes += [_added_gate(gate) for gate in _gates(new) if gate not in _gates(old)]
    if kind.name == "Pod" and not new.get("spec", {}).get("containers"):
        causes.append(ErrorCause("FieldValueRequired", "Required value", "spec.containers"))
    if kind.name == "HorizontalPodAutoscaler":
        causes += _autoscaler(new.get("spec") or {})
    replicas = new.get("spec", {}).get("replicas") if "scale" in kind.subresources else None
    if replicas is not None and replicas < 0:
        causes.append(invalid_value("spec.replicas", replicas, "must be greater than or equal to 0"))
    if causes:
        raise invalid(kind.group, kind.name, new["metadata"]["name"], causes)


def _metadata(metadata: dict[str, Any]) -> Iterable[ErrorCause]:
    name = metadata["name"]
    if not re.fullmatch(_SUBDOMAIN, name):
        yield invalid_value("metadata.name", name, _SUBDOMAIN_TEXT)
    elif len(name) > 253:
        yield invalid_value("metadata.name", name, "must be no more than 253 bytes")
    for key, value in (metadata.get("labels") or {}).items():
        yield from _label_key("metadata.labels", key)
        yield from _label_value("metadata.labels", value)
    for key in metadata.get("annotations") or {}:
        yield from _label_key("metadata.annotations", key.lower())


def _label_key(path: str, key: str) -> Iterable[ErrorCause]:
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        yield invalid_value(path, key, "prefix part must be non-empty")
    elif slash and not re.fullmatch(_SUBDOMAIN, prefix):
        yield invalid_value(path, key, "prefix part " + _SUBDOMAIN_TEXT)
    if not name:
        yield invalid_value(path, key, "name part must be non-empty")
    elif len(name) > 63:
        yield invalid_value(path, key, "name part must be no more than 63 bytes")
    if not re.fullmatch(_KEY, name):
        yield invalid_value(path, key, "name part " + _KEY_TEXT)


def _label_value(path: str, value: str) -> Iterable[ErrorCause]:
    if len(value) > 63:
        yield invalid_value(path, value, "must be no more than 63 bytes")
    if not re.fullmatch(_VALUE, value):
        yield invalid_value(path, value, _VALUE_TEXT)


def _taints(taints: list[dict[str, str]]) -> Iterable[ErrorCause]:
    seen = set()
    for at, taint in enumerate(taints):
        path, key, effect = f"metadata.taints[{at}]", taint.get("key", ""), taint.get("effect", "")
        yield from _label_key(f"{path}.key", key)
        yield from _label_value(f"{path}.value", taint.get("value", ""))
        if not effect:
            yield ErrorCause("FieldValueRequired", "Required value", f"{path}.effect")
        elif effect not in _EFFECTS:
            listed = ", ".join(json.dumps(allowed) for allowed in _EFFECTS)
            yield ErrorCause(
                "FieldValueNotSupported",
                f"Unsupported value: {json.dumps(effect)}: supported values: {listed}",
                f"{path}.effect",
            )
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": None}
            listed = json.dumps(shown, separators=(",", ":"))
            text = f"Duplicate value: {listed}: taints must be unique by key and effect pair"
            yield ErrorCause("FieldValueDuplicate", text, path)
        seen.add((key, effect))


def _lease(spec: dict[str, Any]) -> Iterable[ErrorCause]:
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if (spec.get("leaseTransitions") or 0) < 0:
        text = "must be greater than or equal to 0"
        yield invalid_value("spec.leaseTransitions", spec["leaseTransitions"], text)


def _autoscaler(spec: dict[str, Any]) -> Iterable[ErrorCause]:
    most, least = spec.get("maxReplicas", 0), spec.get("minReplicas", 1)
    if most < 1:
        yield ErrorCause("FieldValueRequired", "Required value: must be set and greater than 0", "spec.maxReplicas")
    if most < least:
        yield invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _gates(pod: dict[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod.get("spec", {}).get("schedulingGates") or ()]


def _added_gate(gate: str) -> ErrorCause:
    text = f"Forbidden: only deletion is allowed, but found new scheduling gate '{gate}'"
    return ErrorCause("FieldValueForbidden", text, "spec.schedulingGates")


def _frozen(pod: dict[str, Any]) -> dict[str, Any]:
    """The part of a pod's spec that no update may change."""
    spec = {key: value for key, value in pod.get("spec", {}).items() if key not in _POD_MUTABLE}
    for list_name in ("containers", "initContainers"):
        spec[list_name] = [{**container, "image": ""} for container in spec.get(list_name) or ()]
    return spec
