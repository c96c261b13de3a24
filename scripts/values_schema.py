"""Writes charts/ballast/values.schema.json: the chart's own values, and every setting as its model describes it.

With `--check` it only tells whether the file is in step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ballast.settings.reference import json_schema

TARGET = Path(__file__).resolve().parent.parent / "charts" / "ballast" / "values.schema.json"

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NAME: Schema = {"type": "string", "minLength": 1}
_MAP: Schema = {"type": "object"}
_LIST: Schema = {"type": "array", "items": {"type": "object"}}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def values_schema() -> Schema:
    parts = json_schema()["properties"]
    for part in parts.values():
        part["additionalProperties"] = False
    parts["power"]["properties"]["policies"] = {**_LIST, "description": "Power policies, as in Ballast's own file."}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_closed(
            image=_closed(
                repository=_NAME,
                tag=_TEXT,
                digest={"type": "string", "pattern": "^$|^sha256:[0-9a-f]{64}$"},
                pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            ),
            imagePullSecrets=_LIST,
            replicas=_COUNT,
            settings=_closed(**parts),
            existingSecrets=_closed(**{name: files for name, part in parts.items() if (files := _files(part))}),
            extraEnv={
                "type": "array",
                "items": {"type": "object", "required": ["name"], "properties": {"name": _NAME, "value": _TEXT}},
            },
            extraVolumes=_LIST,
            extraVolumeMounts=_LIST,
            serviceAccount=_closed(create=_FLAG, name=_TEXT, annotations=_TEXTS),
            rbac=_closed(create=_FLAG),
            service=_closed(
                type={"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
                port={"type": "integer", "minimum": 1, "maximum": 65535},
                annotations=_TEXTS,
            ),
            fullnameOverride={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 52},
            resources=_MAP,
            podAnnotations=_TEXTS,
            podLabels=_TEXTS,
            priorityClassName=_TEXT,
            nodeSelector=_TEXTS,
            tolerations=_LIST,
            affinity=_MAP,
            terminationGracePeriodSeconds=_COUNT,
            podDisruptionBudget=_closed(enabled=_FLAG),
            watchdog=_closed(enabled=_FLAG, schedule=_NAME, staleAfter=_NAME),
            cleanup={"enum": ["auto", "always", "never"]},
            admissionPolicy=_closed(enabled=_FLAG),
            serviceMonitor=_closed(enabled=_FLAG, interval=_NAME, labels=_TEXTS),
            prometheusRule=_closed(enabled=_FLAG, labels=_TEXTS),
            dashboard=_closed(enabled=_FLAG, labels=_TEXTS, annotations=_TEXTS),
            networkPolicy=_closed(enabled=_FLAG, **{"from": _LIST}, egress=_LIST),
            **{"global": _MAP},
        ),
    }


def _closed(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _files(part: Schema) -> Schema | None:
    """The settings that name a file, each to be taken from one key of an existing Secret."""
    reference = {**_closed(name=_NAME, key=_NAME), "required": ["name", "key"]}
    fields = {name: reference for name, field in part["properties"].items() if '"path"' in json.dumps(field)}
    return _closed(**fields) if fields else None


def main() -> None:
    text = json.dumps(values_schema(), indent=2) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif not TARGET.exists() or TARGET.read_text() != text:
        sys.exit("charts/ballast/values.schema.json is out of step: run .venv/bin/python scripts/values_schema.py")


if __name__ == "__main__":
    main()
