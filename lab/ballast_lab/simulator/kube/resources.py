"""Create, replace, patch and delete by the API server's rules, for HTTP, controllers and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ballast.base.clock import Clock
from ballast_lab.simulator.kube import defaults, managed_fields, patching, validation
from ballast_lab.simulator.kube.api_errors import (
    ApiError,
    ErrorCause,
    GroupResource,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    not_found,
    wrong_kind,
    wrong_name,
)
from ballast_lab.simulator.kube.kinds import NAMESPACE, POD, Kind
from ballast_lab.simulator.kube.store import Store, Stored, stored

Document = dict[str, Any]

DEFAULT_GRACE = 30
_SERVERS_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
)


class ObjectApi:
    """Reads and writes objects. Every method raises ApiError; writes with `dry` validate but store nothing."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self._clock = clock

    def now(self) -> str:
        """The time of the cluster's clock in RFC 3339."""
        return stamp(self._clock.wall())

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        """The object; 404 if it does not exist."""
        found = self.store.get(kind, namespace, name)
        if found is None:
            raise not_found(kind.resource, name)
        return found

    def create(self, kind: Kind, namespace: str, document: Document, *, manager: str = "", dry: bool = False) -> Stored:
        """Creates an object; 409 if the name is taken."""
        given = document.get("kind") or kind.name, document.get("apiVersion") or kind.api_version
        if given != (kind.name, kind.api_version):
            raise wrong_kind(*given, kind.name)
        metadata = dict(document.get("metadata") or {})
        if not kind.namespaced:
            metadata.pop("namespace", None)
        elif metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                missing = ErrorCause(
                    "FieldValueRequired", "Required value: name or generateName is required", "metadata.name"
                )
                raise invalid(kind.group, kind.name, "", [missing])
            metadata["name"] = metadata["generateName"] + self.store.suffix()
        if metadata.get("resourceVersion"):
            raise ApiError(500, "", "resourceVersion should not be set on objects to be created")
        with self.store.lock:
            if kind.namespaced and self.store.get(NAMESPACE, "", namespace) is None:
                raise not_found(NAMESPACE.resource, namespace)
            if self.store.get(kind, metadata.get("namespace", ""), metadata["name"]) is not None:
                raise already_exists(kind.resource, metadata["name"])
            metadata |= {"uid": self.store.new_uid(), "creationTimestamp": self.now()}
            if kind.generation:
                metadata["generation"] = 1
            new = {**document, "apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
            new = defaults.on_create(kind, new)
            validation.check(kind, new, None)
            if manager:
                managed_fields.record(new, None, manager, self.now())
            return self._write(kind, new, dry)

    def replace(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        document: Document,
        *,
        subresource: str = "",
        manager: str = "",
        dry: bool = False,
    ) -> Stored:
        """Replaces an object; kinds with `create_on_update` are created if missing."""
        metadata = document.get("metadata") or {}
        if metadata.get("name", name) != name:
            raise wrong_name(metadata["name"], name)
        if not metadata.get("resourceVersion") and not kind.unconditional:
            cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(kind.group, kind.plural, name, [cause])
        with self.store.lock:
            current = self.store.get(kind, namespace, name)
            if current is None and kind.create_on_update:
                new = {**document, "metadata": {**metadata, "name": name, "resourceVersion": ""}}
                return self.create(kind, namespace, new, manager=manager, dry=dry)
            if current is not None and metadata.get("uid", current.uid) != current.uid:
                raise conflict(kind.resource, name, _uid_mismatch(kind, current, metadata["uid"]))
            return self.update(
                kind, namespace, name, lambda _: document, subresource=subresource, manager=manager, dry=dry
            )

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        content_type: str,
        patch: Any,
        *,
        subresource: str = "",
        manager: str = "",
        dry: bool = False,
    ) -> Stored:
        """Applies a patch of the given content type."""
        return self.update(
            kind,
            namespace,
            name,
            lambda current: patching.apply(content_type, current, patch),
            subresource=subresource,
            manager=manager,
            dry=dry,
        )

    def update(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Document], Document],
        *,
        subresource: str = "",
        manager: str = "",
        dry: bool = False,
    ) -> Stored:
        """Applies `change` to the object.

        A resource version in the result must be the current one. A result equal to the object writes nothing.
        """
        with self.store.lock:
            current = self.get(kind, namespace, name)
            old = current.read()
            new = change(current.read())
            new = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"]}
            defaults.check_types(new)
            new["metadata"] = self._checked_metadata(kind, current, new.get("metadata") or {}, old["metadata"])
            _separate_status(kind, subresource, new, old)
            new = defaults.on_write(kind, new)
            validation.check(kind, new, old)
            if new == old:
                return current
            if kind.generation and new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
            if manager:
                managed_fields.record(new, old, manager, self.now(), subresource)
            return self._write(kind, new, dry)

    def delete(
        self, kind: Kind, namespace: str, name: str, options: Mapping[str, Any] | None = None, *, dry: bool = False
    ) -> Stored:
        """Removes the object; a bound pod is only marked as terminating, and the controllers remove it later."""
        options = options or {}
        with self.store.lock:
            current = self.get(kind, namespace, name)
            check_preconditions(kind, current, options.get("preconditions") or {})
            if dry:
                return current
            grace = self._grace(kind, current, options)
            if grace <= 0:
                return self.store.remove(kind, current)
            document = current.read()
            if "deletionTimestamp" in document["metadata"]:
                return current
            document["metadata"] |= {
                "deletionTimestamp": stamp(self._clock.wall() + grace),
                "deletionGracePeriodSeconds": grace,
            }
            return self.store.put(kind, document)

    def _checked_metadata(self, kind: Kind, current: Stored, metadata: Document, old: Document) -> Document:
        version = metadata.get("resourceVersion")
        if version and version != str(current.revision):
            raise conflict(kind.resource, current.name)
        if metadata.get("name", current.name) != current.name:
            raise wrong_name(metadata["name"], current.name)
        if metadata.get("uid", current.uid) != current.uid:
            cause = invalid_value("metadata.uid", metadata["uid"], "field is immutable")
            raise invalid(kind.group, kind.name, current.name, [cause])
        kept = {key: old[key] for key in _SERVERS_METADATA if key in old}
        given = {key: value for key, value in metadata.items() if key not in _SERVERS_METADATA}
        fixed = {"name": current.name, "resourceVersion": str(current.revision)}
        if current.namespace:
            fixed["namespace"] = current.namespace
        return {**given, **kept, **fixed}

    def _grace(self, kind: Kind, current: Stored, options: Mapping[str, Any]) -> int:
        if kind is not POD or not current.fields["spec.nodeName"]:
            return 0
        if current.fields["status.phase"] in ("Succeeded", "Failed"):
            return 0
        requested = options.get("gracePeriodSeconds")
        default = current.read()["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
        return int(default if requested is None else requested)

    def _write(self, kind: Kind, document: Document, dry: bool) -> Stored:
        if dry:
            document["metadata"].setdefault("resourceVersion", "")
            return stored(kind, document, self.store.revision)
        return self.store.put(kind, document)


def check_preconditions(kind: Kind, current: Stored, preconditions: Mapping[str, str]) -> None:
    """Raises ApiError (409) if the UID or the resource version differs from the precondition."""
    resource = GroupResource(kind.group, kind.name)
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid and uid != current.uid:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({current.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(resource, current.name, why)
    if version and version != str(current.revision):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({current.revision}). The object might have been modified"
        )
        raise conflict(resource, current.name, why)


def _uid_mismatch(kind: Kind, current: Stored, uid: str) -> str:
    key = "/".join(filter(None, ("/registry", kind.plural, current.namespace, current.name)))
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {uid}, UID in object meta: {current.uid}"
    )


def stamp(seconds: float) -> str:
    """A Unix time in RFC 3339, in UTC and whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _separate_status(kind: Kind, subresource: str, new: Document, old: Document) -> None:
    """Restores the status after a write to the object, and everything else after a write to a subresource."""
    if "status" not in kind.subresources:
        return
    kept = (
        [key for key in old if key not in ("status", "metadata", "apiVersion", "kind")] if subresource else ["status"]
    )
    for key in kept:
        if key in old:
            new[key] = old[key]
        else:
            new.pop(key, None)
