"""From a pod on the wire to its template: where it may run, and what it keeps on its node."""

from collections.abc import Iterable, Iterator

import msgspec

from ballast.cluster.objects import wire
from ballast.cluster.objects.node_signs import image_name
from ballast.model.selector import Requirement, Selector
from ballast.model.template import HostPort, NodeTerm, PodTerm, Template, TopologySpread

_encode = msgspec.json.Encoder().encode
_MEMORY = "Memory"


def template_key(pod: wire.Pod) -> object:
    """Equal for pods with equal templates; None where a template would say nothing."""
    spec = pod.spec
    ports = _host_ports(spec)
    keeps = any(
        volume.empty_dir is not None
        or volume.host_path is not None
        or volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        for volume in spec.volumes or ()
    )
    ends, grouped = not _restarts(spec), _grouped(spec)
    looks = spec.affinity or spec.topology_spread_constraints
    unpulled = _unpulled(spec)
    sites = spec.node_selector or spec.tolerations or looks or ports or unpulled
    counted = spec.priority_class_name or spec.active_deadline_seconds is not None
    if not (sites or keeps or spec.resource_claims or ends or grouped or counted):
        return None
    return (
        tuple((spec.node_selector or {}).items()),
        spec.tolerations,
        (pod.metadata.namespace, _encode((spec.affinity, spec.topology_spread_constraints)), _keyed(pod))
        if looks
        else None,
        ports,
        (tuple(_local(spec)), _claims(spec), _mounted(pod), _ephemeral(spec)) if keeps else None,
        _device_claims(spec) if spec.resource_claims else None,
        ends,
        grouped,
        unpulled,
        (spec.priority_class_name, spec.active_deadline_seconds is not None) if counted else None,
    )


def to_template(pod: wire.Pod) -> Template:
    """The scheduling constraints and local data of a pod."""
    spec = pod.spec
    affinity = spec.affinity or wire.Affinity()
    own, named = _device_claims(spec)
    return Template(
        node_selector=tuple(sorted((spec.node_selector or {}).items())),
        node_affinity=_required(affinity.node_affinity),
        preferred=_preferred(affinity.node_affinity),
        tolerations=spec.tolerations or (),
        host_ports=_host_ports(spec),
        affinity=tuple(_pod_terms(pod, affinity.pod_affinity)),
        anti_affinity=tuple(_pod_terms(pod, affinity.pod_anti_affinity)),
        spread=_spreads(pod, hard=True),
        preferred_pods=(
            *_preferred_pods(pod, affinity.pod_affinity, 1),
            *_preferred_pods(pod, affinity.pod_anti_affinity, -1),
        ),
        preferred_spread=_spreads(pod, hard=False),
        local_volumes=tuple(name for name, _ in _local(spec)),
        scratch_volumes=tuple(name for name, medium in _local(spec) if medium is not None),
        memory_volumes=tuple(name for name, medium in _local(spec) if medium == _MEMORY),
        volume_claims=_claims(spec),
        resource_claims=bool(spec.resource_claims),
        claims=_mounted(pod),
        ephemeral=_ephemeral(spec),
        device_claims=own,
        shared_devices=bool(named),
        named_claims=named,
        restarts=_restarts(spec),
        grouped=_grouped(spec),
        unpulled=_unpulled(spec),
        priority_class=spec.priority_class_name,
        deadline=spec.active_deadline_seconds is not None,
    )


def node_terms(source: wire.NodeSelector) -> tuple[NodeTerm, ...]:
    """The alternatives of a node selector."""
    return tuple(map(node_term, source.node_selector_terms or ()))


def node_term(term: wire.NodeSelectorTerm) -> NodeTerm:
    """One alternative of a node selector."""
    labels, names = term.match_expressions or (), term.match_fields or ()
    return NodeTerm(tuple(map(_requirement, labels)), tuple(map(_requirement, names)))


def to_selector(selector: wire.LabelSelector | None) -> Selector | None:
    """A label selector of the model; None selects nothing."""
    return None if selector is None else Selector(tuple(_requirements(selector)))


def _requirements(selector: wire.LabelSelector) -> Iterator[Requirement]:
    for key, value in sorted((selector.match_labels or {}).items()):
        yield Requirement(key, "In", (value,))
    yield from map(_requirement, selector.match_expressions or ())


def _requirement(source: wire.LabelRequirement) -> Requirement:
    return Requirement(source.key, source.operator, tuple(source.values or ()))


def _required(affinity: wire.NodeAffinity | None) -> tuple[NodeTerm, ...] | None:
    return None if affinity is None or affinity.required is None else node_terms(affinity.required)


def _preferred(affinity: wire.NodeAffinity | None) -> tuple[tuple[int, NodeTerm], ...]:
    """A term without requirements means no node (component-helpers scheduling/corev1/nodeaffinity)."""
    return tuple(
        (preferred.weight, node_term(preferred.preference))
        for preferred in (affinity.preferred if affinity else None) or ()
    )


def _pod_terms(pod: wire.Pod, affinity: wire.PodAffinity | None) -> Iterator[PodTerm]:
    for term in (affinity.required if affinity else None) or ():
        yield _pod_term(pod, term)


def _pod_term(pod: wire.Pod, term: wire.PodAffinityTerm) -> PodTerm:
    listed = tuple(term.namespaces or ())
    chosen = to_selector(term.namespace_selector)
    return PodTerm(
        topology_key=term.topology_key,
        selector=_narrowed(pod, term.label_selector, term.match_label_keys, term.mismatch_label_keys),
        namespaces=listed if listed or chosen else (pod.metadata.namespace,),
        namespace_selector=chosen,
    )


def _preferred_pods(pod: wire.Pod, affinity: wire.PodAffinity | None, sign: int) -> Iterator[tuple[int, PodTerm]]:
    for preferred in (affinity.preferred if affinity else None) or ():
        yield sign * preferred.weight, _pod_term(pod, preferred.pod_affinity_term)


def _spreads(pod: wire.Pod, *, hard: bool) -> tuple[TopologySpread, ...]:
    return tuple(
        _spread(pod, constraint)
        for constraint in pod.spec.topology_spread_constraints or ()
        if (constraint.when_unsatisfiable == "DoNotSchedule") == hard
    )


def _spread(pod: wire.Pod, source: wire.TopologySpreadConstraint) -> TopologySpread:
    return TopologySpread(
        topology_key=source.topology_key,
        max_skew=source.max_skew,
        selector=_narrowed(pod, source.label_selector, source.match_label_keys, None),
        min_domains=source.min_domains or 1,
        honour_affinity=source.node_affinity_policy != "Ignore",
        honour_taints=source.node_taints_policy == "Honor",
    )


def _narrowed(
    pod: wire.Pod, selector: wire.LabelSelector | None, same: list[str] | None, other: list[str] | None
) -> Selector | None:
    """matchLabelKeys and mismatchLabelKeys add the pod's own values to the selector."""
    if selector is None:
        return None
    labels = pod.metadata.labels or {}
    extra = [Requirement(key, "In", (labels[key],)) for key in same or () if key in labels]
    extra += [Requirement(key, "NotIn", (labels[key],)) for key in other or () if key in labels]
    return Selector((*_requirements(selector), *extra))


def _keyed(pod: wire.Pod) -> tuple[tuple[str, str | None], ...]:
    """The labels that terms take from the pod itself."""
    affinity = pod.spec.affinity or wire.Affinity()
    preferred_terms = (
        *((affinity.pod_affinity and affinity.pod_affinity.preferred) or ()),
        *((affinity.pod_anti_affinity and affinity.pod_anti_affinity.preferred) or ()),
    )
    terms: Iterable[wire.PodAffinityTerm | wire.TopologySpreadConstraint] = (
        *((affinity.pod_affinity and affinity.pod_affinity.required) or ()),
        *((affinity.pod_anti_affinity and affinity.pod_anti_affinity.required) or ()),
        *(preferred.pod_affinity_term for preferred in preferred_terms),
        *(pod.spec.topology_spread_constraints or ()),
    )
    keys = {key for term in terms for key in term.match_label_keys or ()}
    keys |= {key for term in terms if isinstance(term, wire.PodAffinityTerm) for key in term.mismatch_label_keys or ()}
    labels = pod.metadata.labels or {}
    return tuple((key, labels.get(key)) for key in sorted(keys))


def _host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.host_port, port.protocol, port.host_ip or HostPort(0).address)
        for container in (*(spec.containers or ()), *(spec.init_containers or ()))
        if container.ports
        for port in container.ports
        if port.host_port > 0
    )


def _unpulled(spec: wire.PodSpec) -> tuple[str, ...]:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    return tuple(image_name(each.image) for each in containers if each.image_pull_policy == "Never" and each.image)


def _local(spec: wire.PodSpec) -> Iterator[tuple[str, str | None]]:
    """The name of each volume that is lost, and the medium of an emptyDir, None for any other volume."""
    for volume in spec.volumes or ():
        if volume.empty_dir is not None:
            yield volume.name, str(volume.empty_dir.get("medium") or "")
        elif volume.host_path is not None or volume.ephemeral is not None:
            yield volume.name, None


def _claims(spec: wire.PodSpec) -> bool:
    return any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes or ())


def _mounted(pod: wire.Pod) -> tuple[tuple[str, str], ...]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes or ())
    return tuple((pod.metadata.namespace, str(source.get("claimName", ""))) for source in sources if source is not None)


def _ephemeral(spec: wire.PodSpec) -> tuple[tuple[str, str | None], ...]:
    """A class of "" means none; without the field it is the default class."""
    claims = []
    for volume in spec.volumes or ():
        if volume.ephemeral is not None:
            template = volume.ephemeral.get("volumeClaimTemplate")
            inner = template.get("spec") if isinstance(template, dict) else None
            named = inner.get("storageClassName") if isinstance(inner, dict) else None
            claims.append((volume.name, None if named is None else str(named)))
    return tuple(claims)


def _device_claims(spec: wire.PodSpec) -> tuple[int, tuple[str, ...]]:
    """How many resource claims are its own, and the names of others."""
    claims = spec.resource_claims or ()
    named = tuple(str(claim["resourceClaimName"]) for claim in claims if "resourceClaimName" in claim)
    return len(claims) - len(named), named


def _restarts(spec: wire.PodSpec) -> bool:
    return spec.restart_policy in ("", "Always")


def _grouped(spec: wire.PodSpec) -> bool:
    return bool(spec.workload_ref or spec.scheduling_group)
