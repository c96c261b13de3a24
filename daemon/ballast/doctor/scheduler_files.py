"""Configurations of schedulers that can be seen: those in ConfigMaps of kube-system and of Ballast's namespace."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from ballast.base.yaml_loader import TreeLoader
from ballast.doctor.cluster_view import CheckNotPossible, ClusterView, Document, part, text, title

_KIND = "KubeSchedulerConfiguration"
TRIMARAN = {
    "LoadVariationRiskBalancing": "watcherAddress",
    "TargetLoadPacking": "watcherAddress",
    "LowRiskOverCommitment": "watcherAddress",
    "Peaks": "WatcherAddress",
}
"""Where each of Trimaran's plugins has the address of its load watcher."""


class SchedulerFile(NamedTuple):
    """One KubeSchedulerConfiguration and the ConfigMap it is in."""

    where: str
    document: Document

    @property
    def profiles(self) -> tuple[Document, ...]:
        """Its profiles."""
        return _documents(self.document.get("profiles"))

    @property
    def extenders(self) -> tuple[Document, ...]:
        """Its extenders."""
        return _documents(self.document.get("extenders"))

    def arguments(self, plugin: str) -> Iterator[Document]:
        """The arguments of a plugin, in every profile that has them."""
        for profile in self.profiles:
            for entry in _documents(profile.get("pluginConfig")):
                if entry.get("name") == plugin and isinstance(entry.get("args"), dict):
                    yield entry["args"]

    def enables(self, plugin: str) -> bool:
        """Whether a profile enables a plugin at any point."""
        points = [part(profile, "plugins") or {} for profile in self.profiles]
        enabled = [
            entry for point in points for value in point.values() for entry in _documents(part(value, "enabled"))
        ]
        return any(entry.get("name") == plugin for entry in enabled)

    def label_keys(self) -> set[str]:
        """Node labels that the plugin NodeAffinity prefers for every pod."""
        plugins = set()
        for args in self.arguments("NodeAffinity"):
            terms = part(args, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
            for term in _documents(terms):
                for expression in _documents(part(term, "preference", "matchExpressions")):
                    plugins.add(text(expression, "key"))
        return plugins


def scheduler_files(cluster: ClusterView) -> tuple[SchedulerFile, ...]:
    """All of them. Raises CheckNotPossible where neither namespace's ConfigMaps can be read."""
    maps: list[Document] = []
    missing = None
    for namespace in dict.fromkeys(("kube-system", cluster.namespace)):
        try:
            maps += cluster.all(f"/api/v1/namespaces/{namespace}/configmaps")
        except CheckNotPossible as error:
            missing = error
    if missing is not None and not maps:
        raise CheckNotPossible(f"configurations of schedulers {missing}; run it as somebody who may read ConfigMaps")
    return tuple(file for config_map in maps for file in _in(config_map))


def _in(configmap: Document) -> Iterator[SchedulerFile]:
    for content in (part(configmap, "data") or {}).values():
        if not isinstance(content, str) or _KIND not in content:
            continue
        try:
            documents = list(yaml.load_all(content, TreeLoader))
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        for item in _documents(documents):
            if item.get("kind") == _KIND:
                yield SchedulerFile(title(configmap), item)


def _documents(value: Any) -> tuple[Document, ...]:
    return tuple(item for item in value if isinstance(item, dict)) if isinstance(value, list | tuple) else ()
