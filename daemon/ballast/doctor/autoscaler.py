"""Check of cluster-autoscaler beside the labels of Ballast."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ballast.doctor.cluster_view import CheckNotPossible, part, text, title
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.publishing.node_keys import NodeKeys
from ballast.settings import Mode

_BALANCE = "balance-similar-node-groups"
_IGNORE = "balancing-ignore-label"
_COMPARE = "balancing-label"


def autoscaler_labels(evidence: Evidence) -> Iterator[Finding]:
    """Whether cluster-autoscaler still sees node groups as similar beside the score and class labels.

    Found: `--balance-similar-node-groups` is set, and Ballast's labels are not ignored.
    Fix: `kubectl -n kube-system patch deployment cluster-autoscaler --type=json -p '[...]'` with
    `--balancing-ignore-label=ballast.dev/score` and `--balancing-ignore-label=ballast.dev/load`
    """
    publishing = evidence.settings.publishing
    if publishing.mode is Mode.OFF:
        raise CheckNotPossible("BALLAST_PUBLISHING__MODE is off: no label is written")
    keys = NodeKeys.of(publishing.prefix)
    for deployment in evidence.cluster.all("/apis/apps/v1/deployments"):
        containers = part(deployment, "spec", "template", "spec", "containers") or ()
        for index, container in enumerate(containers):
            field = "args" if container.get("args") else "command"
            flags = _flags([*(container.get("command") or ()), *(container.get("args") or ())])
            if not _on(flags.get(_BALANCE, ["false"])) or _COMPARE in flags:
                continue
            missing = [key for key in (keys.score, keys.load) if key not in flags.get(_IGNORE, [])]
            if missing:
                path = f"/spec/template/spec/containers/{index}/{field}/-"
                added = [{"op": "add", "path": path, "value": f"--{_IGNORE}={key}"} for key in missing]
                namespace, name = (text(deployment, "metadata", key) for key in ("namespace", "name"))
                yield Finding(
                    "autoscaler-labels",
                    "fail" if publishing.mode is Mode.ON else "warn",
                    title(deployment),
                    f"it balances similar node groups and compares {' and '.join(missing)}, which differ between nodes:"
                    " no two groups are similar any more",
                    (f"kubectl -n {namespace} patch deployment {name} --type=json -p '{json.dumps(added)}'",),
                )


def _flags(words: list[str]) -> dict[str, list[str]]:
    """Flags as Go reads them: one or two dashes, and a value only after `=` or as the next word."""
    found: dict[str, list[str]] = {}
    lone = [each for word in words for each in str(word).split()]
    for index, word in enumerate(lone):
        if word.startswith("-"):
            name, given, value = word.lstrip("-").partition("=")
            after = lone[index + 1] if index + 1 < len(lone) and not lone[index + 1].startswith("-") else "true"
            found.setdefault(name, []).append((value if given else after).strip("\"'"))
    return found


def _on(values: list[str]) -> bool:
    return values[-1].lower() not in ("false", "f", "0")
