"""Which of many pods could go to another node as things stand."""

from collections.abc import Callable, Hashable, Iterator

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.frontier import fit_elsewhere

# Fewer pods are asked one by one sooner.
_SEVERAL = 4


def can_move(placement: SimulatedPlacement, pods: Ints) -> Bools:
    """[pod]: whether `open_to` has a node for it.

    Room below the ceiling is looked for like any other kind of room.
    """
    layout = placement.layout
    below = (placement.ceiling - placement.load) * np.where(layout.whole > 0, layout.whole, np.nan)
    room = np.concatenate([np.maximum(placement.free, 0), below], axis=1)
    amounts = np.concatenate([layout.asked[pods], layout.used[pods]], axis=1)
    return _search(placement, pods, placement.targets & (below >= 0).all(axis=1), amounts, room, placement.open_among)


def fits_on(placement: SimulatedPlacement, pods: Ints, nodes: Bools) -> Bools:
    """[pod]: whether another one of `nodes`, of its pool, has room for it, whatever the load."""
    room = np.maximum(placement.free, 0).astype(float)
    requests = placement.layout.asked[pods].astype(float)
    return _search(placement, pods, nodes, requests, room, lambda pod, rows: placement.feasible(pod)[rows])


def _search(
    placement: SimulatedPlacement,
    pods: Ints,
    nodes: Bools,
    wanted: Floats,
    room: Floats,
    look: Callable[[int, Ints], Bools],
) -> Bools:
    """`look` says of one pod on which rows it could be; it is asked only where other pods may forbid them."""
    layout, homes = placement.layout, placement.on[pods]
    movable, certain = np.zeros((2, len(pods)), bool)
    for allowed, members in _alike(placement, pods):
        for number in np.unique(layout.pool[homes[members]]).tolist():
            rows = np.flatnonzero(nodes & allowed & (layout.pool == number))
            mine = members[layout.pool[homes[members]] == number]
            if len(rows):
                movable[mine] = fit_elsewhere(wanted[mine], homes[mine], room, rows)
            candidates = mine[movable[mine]]
            candidates = candidates[[placement.neighbours.matters(pod) for pod in pods[candidates].tolist()]]
            for places in _together(placement, pods, candidates):
                surely = rows[placement.neighbours.surely(int(pods[places[0]]))[rows]]
                if len(surely):
                    certain[places] = fit_elsewhere(wanted[places], homes[places], room, surely)
            for place in candidates[~certain[candidates]].tolist():
                movable[place] = look(int(pods[place]), rows[rows != homes[place]]).any()
    return movable


def _together(placement: SimulatedPlacement, pods: Ints, places: Ints) -> Iterator[Ints]:
    """Places of pods that other pods leave the same nodes to, as far as is certain."""
    groups: dict[Hashable, list[int]] = {}
    for place in places.tolist():
        key = placement.alike(int(pods[place]))
        if key is not None:
            groups.setdefault(key, []).append(place)
    yield from (np.array(group, np.int64) for group in groups.values() if len(group) >= _SEVERAL)


def _alike(placement: SimulatedPlacement, pods: Ints) -> Iterator[tuple[Bools, Ints]]:
    """Places of pods that the same nodes are allowed to, by what nodes are."""
    masks: dict[bytes, tuple[Bools, list[int]]] = {}
    by_template: dict[int, list[int]] = {}
    for place, pod in enumerate(pods.tolist()):
        template = placement.layout.pods[pod].template
        places = by_template.get(id(template))
        if places is None:
            mask = placement.sites.allowed(template)
            places = by_template[id(template)] = masks.setdefault(mask.tobytes(), (mask, []))[1]
        places.append(place)
    for mask, places in masks.values():
        yield mask, np.array(places, np.int64)
