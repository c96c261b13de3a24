"""Whether moving it helps, and whether the loads for that are known."""

from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse


def node_fit(case: CheckInput) -> CheckResult:
    if case.outlook.fits is False:
        crowded = "all other nodes that have room for it would be too loaded"
        return refuse(crowded if case.outlook.crowded else "no other node can take it")
    return allow("another node can take it" if case.outlook.fits else "no target was searched for")


def debounce(case: CheckInput) -> CheckResult:
    if case.history.confirmed is None or not case.rules.needs_confirmation:
        return allow("no windows in a row are required")
    if case.pod.node in case.history.overloaded:
        return allow("its node is overloaded")
    windows, needed = case.history.confirmed.get(case.pod.node, 0), case.rules.confirmations
    if windows < needed:
        return refuse("its node was not too loaded for long enough", windows=windows, at_least=needed)
    return allow("its node was too loaded for long enough", windows=windows)


def gain(case: CheckInput) -> CheckResult:
    if case.outlook.unpaid is not None:
        return refuse(case.outlook.unpaid)
    return allow("nothing says that moving it does not pay")


def relieved(case: CheckInput) -> CheckResult:
    if case.outlook.spared is not None:
        return refuse(case.outlook.spared)
    return allow("moving it gains more than it costs")


def stale(case: CheckInput) -> CheckResult:
    if not case.rules.moves:
        return allow("no load decides")
    if case.pod.node in case.facts.unknown:
        return refuse(f"the load of {case.pod.node} is unknown")
    if not case.outlook.used:
        return refuse("its resource usage is unknown")
    if case.outlook.only_unknown:
        return refuse("only nodes of unknown load could take it")
    return allow("the loads are known")
