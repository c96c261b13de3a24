"""Writes charts/ballast/values.schema.json: the chart's own values, and every setting as its model describes it.

With `--check` it only tells whether the file is in step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from compact_json import compact_json
from policy_schema import policy_schema

from ballast.model.duration import PATTERN
from ballast.planners.built_in import planners
from ballast_lab.pages.settings import json_schema

TARGET = Path(__file__).resolve().parent.parent / "charts" / "ballast" / "values.schema.json"

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NAME: Schema = {"type": "string", "minLength": 1}
_MAP: Schema = {"type": "object"}
_LIST: Schema = {"type": "array", "items": {"type": "object"}}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_NULL: Schema = {"type": "null"}
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_QUANTITY: Schema = {
    "type": ["string", "number"],
    "minimum": 0,
    "pattern": r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$",
}
"""As Kubernetes reads it."""
_QUANTITIES: Schema = {"type": "object", "additionalProperties": _QUANTITY}
_CRON: Schema = {
    "type": "string",
    "pattern": r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+"
    r"|([0-9A-Za-z*/,?-]+\s+){4}[0-9A-Za-z*/,?-]+)$",
}
_PLANNER = f"({'|'.join(planner.name for planner in planners())})"
_AMOUNT = r"[0-9]+(\.[0-9]+)?\s*%|[0-9]+(\.0+)?"
_RATE = rf"({_AMOUNT})\s*(/\s*[0-9.]+(ms|[smhd])[0-9.msdh]*)?"
_PRECISE: dict[tuple[str, str], str] = {
    ("eviction", "planners"): rf"^\s*(\[.*\]\s*|[\s,]*({_PLANNER}\s*(,[\s,]*|$))*)$",
    ("eviction", "rate"): rf"^\s*({_RATE}(\s*,\s*{_RATE})*)?\s*$",
    **{("eviction", f"limit_{name}"): rf"^\s*({_AMOUNT})?\s*$" for name in ("node", "namespace", "workload", "total")},
}
"""What texts look like that the daemon takes, by part and field, where its model does not say it."""
_DURATION: Schema = {"type": ["string", "number"], "pattern": PATTERN}


def values_schema() -> Schema:
    parts = json_schema()["properties"]
    for part in parts.values():
        part["additionalProperties"] = False
    for (part, field), pattern in _PRECISE.items():
        described = parts[part]["properties"][field]
        described["anyOf"] = [
            {**kind, "items": {"type": "string", "pattern": f"^{_PLANNER}$"}}
            if kind["type"] == "array"
            else {**kind, "pattern": pattern}
            if "string" in kind["type"]
            else kind
            for kind in described["anyOf"]
        ]
    policies = policy_schema()
    parts["power"]["properties"]["policies"] = {
        "description": "Power policies, as in Ballast's own file.",
        "anyOf": [{"type": "array", "items": policies.pop("policy")}, {"type": "null"}],
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": policies,
        **_closed(
            image=_image(repository=_NAME, tag=_TEXT),
            imagePullSecrets=_LIST,
            replicas=_COUNT,
            settings=_closed(**parts),
            existingSecrets=_closed(**{name: files for name, part in parts.items() if (files := _files(part))}),
            extraEnv={
                "type": "array",
                "items": {"type": "object", "required": ["name"], "properties": {"name": _NAME, "value": _TEXT}},
            },
            extraEnvFrom=_LIST,
            extraVolumes=_LIST,
            extraVolumeMounts=_LIST,
            initContainers=_LIST,
            extraContainers=_LIST,
            extraObjects={"type": "array", "items": {"type": ["object", "string"]}},
            configCheck=_closed(enabled=_FLAG),
            extender=_closed(token=_closed(create=_FLAG)),
            tls=_tls(),
            scheduler=_scheduler(),
            serviceAccount=_closed(create=_FLAG, name=_TEXT, annotations=_TEXTS),
            rbac=_closed(create=_FLAG),
            service=_closed(
                type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
                port=_PORT,
                nodePort={**_PORT, "type": ["integer", "null"]},
                annotations=_TEXTS,
                labels=_TEXTS,
                extender=_closed(annotations=_TEXTS),
            ),
            ingress=_closed(
                enabled=_FLAG,
                className=_TEXT,
                annotations=_TEXTS,
                labels=_TEXTS,
                hosts={"type": "array", "items": _NAME},
                tls=_LIST,
            ),
            **_pods(),
            podDisruptionBudget=_closed(enabled=_FLAG),
            watchdog=_closed(enabled=_FLAG, schedule=_CRON, staleAfter=_DURATION),
            cleanup={"enum": ["auto", "always", "never"]},
            admissionPolicy=_closed(enabled=_FLAG),
            landingPolicy=_closed(enabled=_FLAG),
            serviceMonitor=_monitor(),
            podMonitor=_monitor(),
            prometheusRule=_closed(
                enabled=_FLAG,
                namespace=_TEXT,
                labels=_TEXTS,
                additionalLabels=_TEXTS,
                runbookUrl={"type": "string", "pattern": "^https?://"},
                disabled={"type": "array", "items": _NAME},
                overrides={
                    "type": "object",
                    "additionalProperties": _closed(
                        **{"for": _TEXT, "severity": _TEXT, "expr": _TEXT, "labels": _TEXTS}
                    ),
                },
            ),
            dashboard=_closed(
                enabled=_FLAG,
                namespace=_TEXT,
                labels=_TEXTS,
                annotations=_TEXTS,
                grafanaOperator=_closed(enabled=_FLAG, instanceSelector=_MAP, folder=_TEXT),
            ),
            networkPolicy=_closed(enabled=_FLAG, **{"from": _LIST}, egress=_LIST),
            **{"global": {"type": "object", "properties": {"imageRegistry": _TEXT}}},
        ),
    }


def _image(**more: Schema) -> Schema:
    return _closed(
        registry=_TEXT,
        **more,
        digest={"type": "string", "pattern": "^$|^sha256:[0-9a-f]{64}$"},
        pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
    )


def _tls() -> Schema:
    issuer = {"anyOf": [_closed(name=_NAME, kind=_NAME, group=_NAME), {"type": "null"}]}
    return _closed(
        enabled={"enum": [True, False, "auto"]},
        existingSecret=_TEXT,
        certManager={"anyOf": [_FLAG, _closed(enabled=_FLAG, issuerRef=issuer)]},
        days={"type": "integer", "minimum": 1},
    )


def _scheduler() -> Schema:
    return _closed(
        enabled=_FLAG,
        name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253},
        pairing={"enum": ["labels", "extender", "bin-packing", "trimaran", "crane"]},
        version={"type": "string", "pattern": "^$|^v[0-9]+\\.[0-9]+\\.[0-9]+"},
        image=_image(repository=_NAME),
        config=_TEXT,
        replicas=_COUNT,
        extraArgs={"type": "array", "items": _NAME},
        extraVolumes=_LIST,
        extraVolumeMounts=_LIST,
        resources=_resources(),
        priorityClassName=_TEXT,
        podAnnotations=_TEXTS,
        podLabels=_TEXTS,
        nodeSelector=_TEXTS,
        tolerations=_LIST,
        affinity=_MAP,
        podDisruptionBudget=_closed(enabled=_FLAG),
        podMonitor=_closed(enabled=_FLAG, interval=_DURATION, labels=_TEXTS),
        optIn=_closed(namespaceSelector={"anyOf": [_closed(matchLabels=_TEXTS, matchExpressions=_LIST), _NULL]}),
    )


def _monitor() -> Schema:
    return _closed(
        enabled=_FLAG,
        namespace=_TEXT,
        interval=_DURATION,
        scrapeTimeout={"anyOf": [{"const": ""}, _DURATION]},
        labels=_TEXTS,
        additionalLabels=_TEXTS,
        relabelings=_LIST,
        metricRelabelings=_LIST,
        tlsConfig=_MAP,
        sampleLimit=_COUNT,
    )


def _pods() -> dict[str, Schema]:
    """What a pod's or a Deployment's specification has."""
    return {
        "commonLabels": _TEXTS,
        "deploymentAnnotations": _TEXTS,
        "nameOverride": {"type": "string", "maxLength": 63},
        "fullnameOverride": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 52},
        "resources": _resources(),
        "jobResources": _resources(),
        "podSecurityContext": {"type": ["object", "null"]},
        "securityContext": {"type": ["object", "null"]},
        "podAnnotations": _TEXTS,
        "podLabels": _TEXTS,
        "priorityClassName": _TEXT,
        "nodeSelector": _TEXTS,
        "tolerations": _LIST,
        "affinity": _MAP,
        "topologySpreadConstraints": {"anyOf": [_LIST, _NULL]},
        "terminationGracePeriodSeconds": _COUNT,
        "strategy": _MAP,
        "revisionHistoryLimit": _COUNT,
        "hostNetwork": _FLAG,
        "dnsPolicy": {"enum": ["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]},
        "dnsConfig": _MAP,
        "lifecycle": _MAP,
        "startupProbe": _MAP,
        "livenessProbe": _MAP,
        "readinessProbe": _MAP,
    }


def _resources() -> Schema:
    claims = {"type": "array", "items": {"type": "object", "required": ["name"]}}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES, "claims": claims},
    }


def _closed(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _files(part: Schema) -> Schema | None:
    """The settings that name a file, each to be taken from one key of an existing Secret."""
    reference = {**_closed(name=_NAME, key=_NAME), "required": ["name", "key"]}
    fields = {name: reference for name, field in part["properties"].items() if '"path"' in json.dumps(field)}
    return _closed(**fields) if fields else None


def main() -> None:
    text = compact_json(values_schema()) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        sys.exit("charts/ballast/values.schema.json is out of step: run .venv/bin/python scripts/values_schema.py")


if __name__ == "__main__":
    main()
