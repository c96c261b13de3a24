"""What a node says about itself beside its load: its system, and standing signs that something is wrong with it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from ballast.cluster.objects import wire

MOST_SIGNS = 16
"""Signs of one node that are kept."""

MOST_IMAGES = 256
"""Names of images of one node that are kept; a kubelet tells of 50 images (nodeStatusMaxImages)."""

_MARK = re.compile(
    r"(^|[-_.])(reboot\w*|drain\w*|delet\w+|remov\w+|shutdown|terminat\w+|maintenance|decommission\w*|evacuat\w+)($|[-_.])"
)
"""Words of keys by which tools mark a node that is about to restart or to go."""
_NO = frozenset({"", "false", "no", "none", "0", "done", "completed", "finished"})
_SYSTEM = ("kubernetes.io/os", "kubernetes.io/arch")
_VIRTUAL = ("type", "virtual-kubelet")


def system_of(node: wire.Node) -> str:
    """Its operating system and architecture, such as "linux/amd64"; "" where it tells neither."""
    info, labels = node.status.node_info, node.metadata.labels or {}
    told = (info.operating_system, info.architecture) if info else ("", "")
    parts = [own or labels.get(key, "") for own, key in zip(told, _SYSTEM, strict=True)]
    return "/".join(parts) if any(parts) else ""


def signs_of(node: wire.Node, ready_at: float) -> tuple[str, ...]:
    """The first standing signs, in order: conditions, marks of reboot and removal, and that it is no machine.

    Taints are looked at where they count: the model has them whole.
    """
    labels, notes = node.metadata.labels or {}, node.metadata.annotations or {}
    virtual = ["it is no machine"] if labels.get(_VIRTUAL[0]) == _VIRTUAL[1] else []
    signs = {*_conditions(node.status.conditions or ()), *_marks(labels, ready_at), *_marks(notes, ready_at), *virtual}
    return tuple(sorted(signs)[:MOST_SIGNS])


def images_of(node: wire.Node) -> tuple[str, ...]:
    """The names of the images that it has."""
    names = [name for image in node.status.images or () for name in image.names or ()]
    return tuple(map(image_name, names[:MOST_IMAGES]))


def image_name(name: str) -> str:
    """The whole name of an image, as a kubelet tells it: with registry, and with a tag unless it has a digest.

    Source: https://github.com/distribution/reference, ParseNormalizedNamed and TagNameOnly.
    """
    first, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{first}/{rest}"
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"


def _conditions(conditions: Iterable[wire.Condition]) -> Iterator[str]:
    """By convention True is bad news, but of types that name something good."""
    for condition in conditions:
        good = condition.type.endswith(("Ready", "Healthy"))
        if condition.type != "Ready" and condition.status == ("False" if good else "True"):
            yield f"condition {condition.type}"


def _marks(values: Mapping[str, str], ready_at: float) -> Iterator[str]:
    """A mark whose value is a time counts until the node has been Ready anew since."""
    for key, value in values.items():
        if value.lower() not in _NO and _MARK.search(key.rpartition("/")[2].lower()):
            at = _time(value)
            if at is None or at > ready_at:
                yield key


def _time(value: str) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None
