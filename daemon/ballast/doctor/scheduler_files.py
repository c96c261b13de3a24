"""Configurations of schedulers that can be seen: in ConfigMaps of kube-system and of Ballast's namespace, and in those
that pods running a scheduler mount, wherever they are."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import yaml

from ballast.base.text import named
from ballast.base.yaml_loader import TreeLoader
from ballast.doctor.cluster_view import CheckNotPossible, ClusterView, Document, part, text, title

_KIND = "KubeSchedulerConfiguration"
MOST_PODS = 5_000
"""As many are read in a second or two."""
_WORKLOADS = tuple(f"/apis/apps/v1/{kind}" for kind in ("deployments", "statefulsets", "daemonsets"))
_EVERYWHERE = frozenset(("kube-root-ca.crt", "openshift-service-ca.crt"))
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


class SchedulerFiles(NamedTuple):
    """All of them, and where they were looked for, as the end of a sentence."""

    files: tuple[SchedulerFile, ...]
    looked: str


def scheduler_files(cluster: ClusterView) -> SchedulerFiles:
    """Raises CheckNotPossible where no ConfigMap can be read."""
    maps: dict[str, Document] = {}
    missing: list[CheckNotPossible] = []
    namespaces = tuple(dict.fromkeys(("kube-system", cluster.namespace)))
    whole = set()
    for namespace in namespaces:
        try:
            maps |= {title(each): each for each in cluster.all(f"/api/v1/namespaces/{namespace}/configmaps")}
            whole.add(namespace)
        except CheckNotPossible as error:
            missing.append(error)
    schedulers, unread = _schedulers(cluster), []
    for scheduler in schedulers:
        for name in _mounted(scheduler.spec):
            where = f"{scheduler.namespace}/{name}"
            if where in maps or scheduler.namespace in whole:
                continue
            try:
                found = cluster.find(f"/api/v1/namespaces/{scheduler.namespace}/configmaps/{name}")
            except CheckNotPossible as error:
                missing.append(error)
                unread.append(where)
                continue
            if found is not None:
                maps[where] = found
    if missing and not maps:
        raise CheckNotPossible(f"configurations of schedulers {missing[0]}; run it as somebody who may read ConfigMaps")
    files = tuple(file for config_map in maps.values() for file in _in(config_map))
    return SchedulerFiles(files, _looked(namespaces, schedulers, unread))


class _Scheduler(NamedTuple):
    """A pod, or the template of one, that runs a scheduler."""

    namespace: str
    name: str
    spec: Document


def _schedulers(cluster: ClusterView) -> tuple[_Scheduler, ...]:
    """Those that can be seen. In a large cluster the pods of workloads are known by their templates: a list of all pods
    would take longer than the command."""
    found: dict[tuple[str, str], _Scheduler] = {}
    try:
        many = (cluster.count("/api/v1/pods") or 0) > MOST_PODS
    except CheckNotPossible:
        many = True
    for path in (*_WORKLOADS, "/api/v1/namespaces/kube-system/pods") if many else ("/api/v1/pods",):
        try:
            listed = cluster.all(path)
        except CheckNotPossible:
            continue
        for each in listed:
            spec = part(each, "spec", "template", "spec") or part(each, "spec") or {}
            if _runs_scheduler(spec):
                one = _Scheduler(text(each, "metadata", "namespace"), text(each, "metadata", "name"), spec)
                # Replicas are one scheduler.
                found.setdefault((one.namespace, repr(sorted(_mounted(spec))) if _mounted(spec) else one.name), one)
    return tuple(found.values())


def _runs_scheduler(spec: Document) -> bool:
    """By its words: no field of a pod says what it is."""
    for container in _documents(spec.get("containers")):
        image = text(container, "image").rpartition("/")[2]
        words = [text(container, "name"), image, *(container.get("command") or ()), *(container.get("args") or ())]
        if any("scheduler" in str(word).lower() for word in words):
            return True
    return False


def _mounted(spec: Document) -> list[str]:
    """Names of the ConfigMaps that its volumes name."""
    volumes = _documents(spec.get("volumes"))
    sources = [*volumes, *(each for volume in volumes for each in _documents(part(volume, "projected", "sources")))]
    return [name for source in sources if (name := text(source, "configMap", "name")) and name not in _EVERYWHERE]


def _looked(namespaces: Sequence[str], schedulers: Sequence[_Scheduler], unread: Sequence[str]) -> str:
    where = f"looked at the ConfigMaps of {' and '.join(namespaces)}"
    mounting = [f"{each.namespace}/{each.name}" for each in schedulers if _mounted(each.spec)]
    others = [f"{each.namespace}/{each.name}" for each in schedulers if not _mounted(each.spec)]
    if mounting:
        where += f", and at those of {named(mounting)}"
    if others:
        where += f"; {named(others)} mount none: what they read on their nodes cannot be seen"
    if unread:
        where += f"; not readable: {named(unread)}"
    return where


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
