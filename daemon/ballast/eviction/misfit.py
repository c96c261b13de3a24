"""Whether a pod still fits where it is to go as the API server would create it now."""

from collections.abc import Callable, Sequence

from ballast.model.attachments import Attachments
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.shape import Amounts, Shape
from ballast.placement.attachment_constraints import AttachmentConstraints
from ballast.placement.node_constraints import NodeConstraints

Fits = Callable[[str, Shape], bool | None]
"""Whether a node, by name, has room for a shape beside all that counts there; None where that is not known."""


def misfit(pod: Pod, comes: Pod, nodes: Sequence[Node], attachments: Attachments, fits: Fits) -> str | None:
    """Why none of the nodes would take `comes`, which would be created for `pod`, or None. Names both sizes."""
    grown = comes.shape.requests != pod.shape.requests
    rooms = [node for node in nodes if not grown or _has_room(node, comes, fits)]
    where = nodes[0].name if len(nodes) == 1 else "no node"
    if not rooms:
        asks, asked = _differing(comes.shape.requests, pod.shape.requests)
        has = f"{where} has no room for that" if len(nodes) == 1 else "no node has room for that"
        return f"its replacement would ask for {asks} instead of {asked}, and {has}"
    changed = _places(comes) != _places(pod)
    allowed = NodeConstraints(rooms).allowed(comes.template) if changed else ()
    if changed and not any(allowed):
        return f"its replacement would have another selector, affinity or tolerations, which {where} does not satisfy"
    if _claims(comes) != _claims(pod):
        mounted = AttachmentConstraints(rooms, [comes], attachments).allowed(0, -1)
        if not any(mounted):
            return f"its replacement would mount volumes that it does not have, which {where} does not reach"
    return None


def _has_room(node: Node, comes: Pod, fits: Fits) -> bool:
    there, requests = node.allocatable, comes.shape.requests
    whole = not there or all(amount <= there.get(name, 0.0) for name, amount in requests.items() if amount)
    return whole and fits(node.name, comes.shape) is not False


def _places(pod: Pod) -> object:
    template = pod.template
    return template.node_selector, template.node_affinity, template.tolerations


def _claims(pod: Pod) -> object:
    template = pod.template
    return template.claims, template.ephemeral, template.device_claims, template.named_claims


def _differing(some: Amounts, others: Amounts) -> tuple[str, str]:
    names = sorted(name for name in {**some, **others} if some.get(name, 0.0) != others.get(name, 0.0))
    return _in_words(some, names), _in_words(others, names)


def _in_words(amounts: Amounts, names: Sequence[str]) -> str:
    return " and ".join(f"{_amount(name, amounts.get(name, 0.0))} {name}" for name in names)


def _amount(name: str, amount: float) -> str:
    if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
        return f"{amount / 2**20:,.0f}Mi"
    return f"{amount:g}"
