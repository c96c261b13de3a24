"""Which of many pods could go to another node as things stand."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Bools, Ints
from ballast.placement.frontier import fit_elsewhere
from ballast.placement.standing import Standing

_ROOMY = 24


def ways_out(standing: Standing, pods: Ints) -> Bools:
    """[pod]: whether `open_to` has a node for it.

    Most pods fit on one of the roomiest nodes, or do not fit anywhere by requests alone; the others are looked at one
    by one.
    """
    layout = standing.layout
    found = np.zeros(len(pods), bool)
    by_template: dict[int, list[int]] = {}
    for place, pod in enumerate(pods.tolist()):
        by_template.setdefault(id(layout.pods[pod].template), []).append(place)
    free = np.maximum(standing.free, 0)
    for places in by_template.values():
        mine = np.array(places)
        allowed = standing.sites.allowed(layout.pods[int(pods[mine[0]])].template)
        for number in np.unique(layout.pool):
            rows = np.flatnonzero(standing.targets & allowed & (layout.pool == number))
            inside = mine[layout.pool[standing.on[pods[mine]]] == number]
            if len(rows) and len(inside):
                found[inside] = _inside(standing, pods[inside], free, rows)
    return found


def _inside(standing: Standing, pods: Ints, free: Ints, rows: Ints) -> Bools:
    layout, homes = standing.layout, standing.on[pods]
    found = np.zeros(len(pods), bool)
    left = np.flatnonzero(fit_elsewhere(layout.asked[pods], homes, free, rows))
    easy = left[[not standing.neighbours.matters(pod) for pod in pods[left].tolist()]] if len(left) else left
    for row in _roomiest(standing, rows).tolist():
        waiting = easy[~found[easy]]
        if not len(waiting):
            break
        chosen = pods[waiting]
        asked = layout.asked[chosen]
        fits = ((free[row] >= asked) | (asked == 0)).all(axis=1) & (homes[waiting] != row)
        fits &= (standing.load[row] + layout.used[chosen] / layout.whole[row] <= standing.ceiling).all(axis=1)
        found[waiting] = fits
    for place in left[~found[left]].tolist():
        found[place] = standing.open_to(int(pods[place])).any()
    return found


def _roomiest(standing: Standing, rows: Ints) -> Ints:
    """The least loaded, the ones with most room of each kind, and those that are good at all of it."""
    load = standing.load[rows].max(axis=1)
    share = standing.free[rows] / np.maximum(standing.layout.total[rows], 1)
    marks = [load, *(-share).T, np.maximum(load, 1 - share.min(axis=1))]
    best = [rows[np.argsort(mark, kind="stable")[:_ROOMY]] for mark in marks]
    return np.array(list(dict.fromkeys(np.concatenate(best[::-1]).tolist())), np.int64)
