"""Whether moving it helps, and whether that is known."""

from __future__ import annotations

from ballast.eviction.check_input import CheckInput, Finding, allow, refuse


def node_fit(case: CheckInput) -> Finding:
    if case.outlook.fits is False:
        crowded = "all other nodes that have room for it would be too loaded"
        return refuse(crowded if case.outlook.crowded else "no other node can take it")
    return allow("another node can take it" if case.outlook.fits else "where it could go has not been looked at")


def debounce(case: CheckInput) -> Finding:
    if case.history.confirmed is None or not case.rules.needs_confirmation:
        return allow("windows in a row do not matter")
    seen, wanted = case.history.confirmed.get(case.pod.node, 0), case.rules.confirmations
    if seen < wanted:
        return refuse("its node was not too loaded for long enough", windows=seen, at_least=wanted)
    return allow("its node was too loaded for long", windows=seen)


def relieved(case: CheckInput) -> Finding:
    if case.outlook.spared is not None:
        return refuse(case.outlook.spared)
    return allow("it is worth it")


def stale(case: CheckInput) -> Finding:
    if case.pod.node in case.facts.unknown:
        return refuse(f"the load of {case.pod.node} is unknown")
    if not case.outlook.used:
        return refuse("nothing is known of what it uses")
    if case.outlook.only_unknown:
        return refuse("only nodes of unknown load could take it")
    return allow("the loads are known")
