"""Whose a name or an address is. A kubelet writes the addresses of its own Node, so several Nodes may claim one."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from ballast.model.node import Node
from ballast.model.node_state import is_down

AMBIGUOUS: Final = -2
GUESSED: Final = "short-name"
_SHORTEST_ID = 6
"""Characters of a machine's id in a cloud. A shorter one, such as the number in a scale set, is no name."""

_NAME_KINDS = frozenset(("Hostname", "InternalDNS"))
_EXTERNAL_KINDS = frozenset(("ExternalIP", "ExternalDNS"))
_KINDS = _NAME_KINDS | _EXTERNAL_KINDS | {"InternalIP"}


class Basis(IntEnum):
    """What a claim stands on, the strongest first."""

    NAME = 0
    """metadata.name: nobody can write that of another node."""
    IDENTITY = 1
    """The node label that the operator named."""
    PART_OF_NAME = 2
    """A guess: the host name of an FQDN, or an FQDN that begins with the name."""
    LISTED = 3
    """status.addresses."""
    PROVIDER = 4
    """spec.providerID, whole or what stands after its last slash: series of clouds call machines so."""
    PART_OF_LISTED = 5
    """A guess by a listed host name."""


MATCHED_BY: Final = {
    Basis.NAME: "name",
    Basis.IDENTITY: "label",
    Basis.LISTED: "address",
    Basis.PROVIDER: "provider-id",
    Basis.PART_OF_NAME: GUESSED,
    Basis.PART_OF_LISTED: GUESSED,
}
"""What `/api/v1/nodes` calls it."""


class AddressClaim(NamedTuple):
    """What one node has to say for a name or an address of its own."""

    basis: Basis
    place: int = 0
    """How many addresses of that kind and family stand before it: a node's own come first, floating ones after it."""
    external: bool = False

    def beside(self, other: "AddressClaim") -> "AddressClaim":
        """Both together: a short name that is listed too is more than a guess."""
        return AddressClaim(
            min(self.basis, other.basis), min(self.place, other.place), self.external and other.external
        )


_NAME, _PART_OF_NAME = AddressClaim(Basis.NAME), AddressClaim(Basis.PART_OF_NAME, 1)


class Contest(NamedTuple):
    """An address or a name of a series that several living nodes claim."""

    key: str
    owner: str
    """The node that has it; empty where nothing tells whose it is."""
    others: tuple[str, ...]
    """Who claims it beside the owner."""
    liars: tuple[str, ...]
    """Those of the others whose claim is no chance: they are disputed."""


def claims_of(node: Node, identity: str | None, *, guessing: bool) -> Iterator[tuple[str, AddressClaim]]:
    """What this node answers to. A key with a dot at its end stands for all FQDNs that begin with it."""
    name = canonical(node.name)
    yield name, _NAME
    if guessing and not is_address(name):
        yield _part(name), _PART_OF_NAME
    if identity and (value := node.labels.get(identity)):
        yield canonical(value), AddressClaim(Basis.IDENTITY)
    if node.provider_id:
        whole = canonical(node.provider_id)
        machine = whole.rpartition("/")[2]
        yield whole, AddressClaim(Basis.PROVIDER)
        # An address has a list of its own, where the order tells whose it is.
        if len(machine) >= _SHORTEST_ID and machine != name and not is_address(machine):
            yield machine, AddressClaim(Basis.PROVIDER)
    places: dict[tuple[str, bool], int] = {}
    for kind, address in node.addresses:
        if kind not in _KINDS:
            continue
        key = name if address == node.name else canonical(address)
        group = kind, ":" in key
        place = places.get(group, 0)
        places[group] = place + 1
        # An address where a name belongs, or a name where an address does, is never the first of its kind.
        place += (group[1] or key.replace(".", "").isdigit()) is not kind.endswith("IP")
        yield key, _listed(place, kind in _EXTERNAL_KINDS)
        if guessing and kind in _NAME_KINDS and key != name and not is_address(key):
            yield _part(key), AddressClaim(Basis.PART_OF_LISTED, place)


@lru_cache(maxsize=256)
def _listed(place: int, external: bool) -> AddressClaim:
    return AddressClaim(Basis.LISTED, place, external)


def standing(node: Node, identity: str | None, *, guessing: bool) -> dict[str, AddressClaim]:
    """`claims_of`, the best of each key."""
    best: dict[str, AddressClaim] = {}
    for key, claim in claims_of(node, identity, guessing=guessing):
        best[key] = claim.beside(best[key]) if key in best else claim
    return best


def basis_of(node: Node, key: str, identity: str | None, *, guessing: bool) -> str:
    """What MATCHED_BY calls the claim of this node to the key; a guess only where it claims it in no other way."""
    found = [MATCHED_BY[claim.basis] for own, claim in claims_of(node, identity, guessing=guessing) if own == key]
    return next((each for each in found if each != GUESSED), GUESSED)


def owner_of(claims: Mapping[int, AddressClaim], nodes: Sequence[Node], holder: str) -> int:
    """The row whose claim is the strongest, AMBIGUOUS where nothing tells two apart.

    `claims` are by row; `holder` is the node that was measured under it first, empty where there is none.
    """
    ranks = {row: _rank(claim, nodes[row], holder) for row, claim in claims.items()}
    best = min(ranks, key=lambda row: ranks[row])
    return best if sum(rank == ranks[best] for rank in ranks.values()) == 1 else AMBIGUOUS


def _rank(claim: AddressClaim, node: Node, holder: str) -> tuple[float, ...]:
    # Age decides at a start, and only about what is each node's own. An external address may be one NAT of many
    # machines, a node label may name a rack, a short name may be any domain's: there it would be a guess.
    aged = claim.basis is Basis.LISTED and not claim.external
    return (
        min(claim.basis, Basis.PART_OF_NAME),
        not is_machine(node),
        is_down(node),
        # Before the place: who was measured under an address keeps it, whatever another writes at the head of its list.
        node.name != holder,
        claim.basis,
        # A kubelet that lists the whole subnet has one first address like everybody else.
        claim.place,
        claim.external,
        (node.created or float("inf")) if aged else 0.0,
    )


def contest(key: str, claims: Mapping[int, AddressClaim], nodes: Sequence[Node], owner: int) -> Contest | None:
    """Who claims what another has. None where no living machine does, or only by a guess.

    A Node that is gone, or is no machine, is no liar: its address went to another and nobody took it off its list.
    A loser is a liar only where that cannot be chance: a floating address (keepalived, kube-vip) stands behind the
    owner's own, one NAT is external for both. What the owner lists first, and is measured under, is nobody else's.
    """
    living = [row for row, claim in claims.items() if row != owner and _speaks(claim, nodes[row])]
    if not living or (owner < 0 and len(living) < 2):
        return None
    others = tuple(sorted(nodes[row].name for row in living))
    if owner < 0:
        return Contest(key, "", others, ())
    own = claims[owner]
    first = own.place == 0 or own.basis in (Basis.NAME, Basis.PART_OF_NAME)
    liars = [nodes[row].name for row in living if first and not (own.external and claims[row].external)]
    return Contest(key, nodes[owner].name, others, tuple(sorted(liars)) if not is_down(nodes[owner]) else ())


def _speaks(claim: AddressClaim, node: Node) -> bool:
    return claim.basis in (Basis.IDENTITY, Basis.LISTED, Basis.PROVIDER) and is_machine(node) and not is_down(node)


def is_machine(node: Node) -> bool:
    """False for the Nodes of virtual kubelets and of KWOK: the addresses they list are those of other machines."""
    return node.labels.get("type") not in ("virtual-kubelet", "kwok") and not any(
        taint.key.startswith("virtual-kubelet.io/") for taint in node.taints
    )


def canonical(value: str) -> str:
    """The one spelling of a name or an address."""
    lowered = value.strip().rstrip(".").lower()
    value = value if lowered == value else lowered  # Of each name there is one string already.
    if value.count(":") > 1:
        try:
            return str(ipaddress.ip_address(value.strip("[]")))
        except ValueError:
            pass
    return value


def is_address(value: str) -> bool:
    """Whether this canonical text is an IP address."""
    if ":" not in value and not value[:1].isdigit():
        return False
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _part(name: str) -> str:
    host, dot, _ = name.partition(".")
    return host if dot else f"{host}."
