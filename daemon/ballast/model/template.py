"""What a pod's template says beside its resources: where it may run, and what it keeps on its node."""

import msgspec

from ballast.model.selector import Requirement, Selector


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """One alternative of a required node affinity; `names` are requirements on the node's name. Empty: no node."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()


class PodTerm(msgspec.Struct, frozen=True, gc=False):
    """An (anti-)affinity to pods; without `selector` it means no pod at all.

    `namespaces` is never empty unless `namespace_selector` is there; the pod's own namespace is already filled in.
    """

    topology_key: str
    selector: Selector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None


class TopologySpread(msgspec.Struct, frozen=True, gc=False):
    """A topology spread constraint."""

    topology_key: str
    max_skew: int
    selector: Selector | None
    min_domains: int = 1
    honour_affinity: bool = True
    honour_taints: bool = False


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """An empty key tolerates every taint, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port that a container takes on its node."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"  # noqa: S104 - any address, as Kubernetes fills it in


class RunsOn(msgspec.Struct, frozen=True):
    """Where the pods of a workload are known to run: systems of nodes, standing signs that keep none away, and nodes
    where its images are in use, whether the nodes tell of them or not."""

    systems: frozenset[str]
    signs: frozenset[str]
    holders: frozenset[str] = frozenset()


class Template(msgspec.Struct, frozen=True, gc=False):
    """The scheduling constraints and local data of a pod, shared between the pods of one workload."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeTerm, ...] | None = None
    """The alternatives, of which one has to hold; None where there is no requirement."""
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    """Preferred node affinity: (weight, term)."""
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[TopologySpread, ...] = ()
    """Those with whenUnsatisfiable DoNotSchedule."""
    preferred_pods: tuple[tuple[int, PodTerm], ...] = ()
    """Preferred affinity to pods: (weight, term); the weight is negative for anti-affinity."""
    preferred_spread: tuple[TopologySpread, ...] = ()
    """Those with whenUnsatisfiable ScheduleAnyway."""
    local_volumes: tuple[str, ...] = ()
    """The names of the volumes whose data ends with the pod, or stays behind: emptyDir, hostPath and ephemeral."""
    scratch_volumes: tuple[str, ...] = ()
    """Those of them that are emptyDir."""
    memory_volumes: tuple[str, ...] = ()
    """Those of them that are emptyDir in memory."""
    volume_claims: bool = False
    """Whether it has a persistent or an ephemeral volume claim."""
    resource_claims: bool = False
    """Whether it claims devices."""
    claims: tuple[tuple[str, str], ...] = ()
    """(namespace, name) of the PersistentVolumeClaims that it mounts."""
    ephemeral: tuple[tuple[str, str | None], ...] = ()
    """(volume, storage class) of the claims that are made for the pod and deleted with it; None: the default class."""
    device_claims: int = 0
    """How many resource claims are made for the pod."""
    shared_devices: bool = False
    """Whether it uses a resource claim that is not its own."""
    named_claims: tuple[str, ...] = ()
    """The names of these claims, in the namespace of the pod."""
    restarts: bool = True
    """Whether its containers are always started again (restartPolicy Always), so that it does not run to an end."""
    priority_class: str = ""
    deadline: bool = False
    """Whether it ends by itself after a time (activeDeadlineSeconds)."""
    grouped: bool = False
    """Whether the pod itself names a group that is scheduled together (spec.workloadRef or spec.schedulingGroup)."""
    unpulled: tuple[str, ...] = ()
    """The images that may not be pulled, so that a node has to have them (imagePullPolicy Never), by their whole names.
    """
    runs_on: RunsOn | None = None
    """None: nothing is known, or all nodes are alike."""
    opaque: bool = False
    """Whether the object is larger than Ballast keeps, so that none of these are known."""

    @property
    def looks_at_pods(self) -> bool:
        """Whether other pods decide where it may run."""
        return bool(self.host_ports or self.affinity or self.anti_affinity or self.spread)

    @property
    def independent(self) -> bool:
        """Whether nodes alone decide where it may run, and whether."""
        claims = self.attaches or self.volume_claims or self.resource_claims or self.named_claims
        return not (self.looks_at_pods or claims or self.grouped or self.opaque)

    @property
    def prefers(self) -> bool:
        """Whether it likes some of the nodes that it may run on better than others."""
        return bool(self.preferred or self.preferred_pods or self.preferred_spread)

    @property
    def attaches(self) -> bool:
        """Whether volumes or devices decide where it may run."""
        return bool(self.claims or self.ephemeral or self.device_claims or self.shared_devices)


PLAIN = Template()
OPAQUE = Template(opaque=True)
