"""Preset `psi`: the share of time in which some task waited for cpu, memory or io, from node_exporter's collector.

A container that its CPU quota throttles waits too, though no cpu is short: the kernel counts its tasks as waiting. So
psi-cpu is what is left of a node's pressure S beside the throttling T that cadvisor tells: if both come independently,
S = T + (1 - T) · contention. Of a node without containers that have quotas, or whose kubelet has another address than
its exporter, the pressure counts as it is.
"""

from ballast.telemetry.exporters.terms import CONTAINERS, Exporter, Terms

HOST = "ballast_host"
_WITHOUT_PORT = r"(\\[.+\\]|[^:]+|.*:.*:.*)(?::[^:]+)?"
_PERIOD = 0.1
"""Seconds of the kubelet's CPU quota period."""
_MOST = 0.99
"""Of a container that is always throttled nothing can be told."""


def _queries(terms: Terms) -> dict[str, str]:
    pressure = {
        name: terms.newest(terms.rate(f"node_pressure_{name}_waiting_seconds_total"))
        for name in ("cpu", "memory", "io")
    }
    return {"psi-cpu": _contention(terms, pressure["cpu"])} | {
        f"psi-{name}": pressure[name] for name in ("memory", "io")
    }


def _contention(terms: Terms, pressure: str) -> str:
    """(S - T) / (1 - T); 0 where throttling alone explains more than S; S where T is not known."""
    on = f"on ({HOST}, cluster) group_left ()"
    raw, idle = _by_host(terms, pressure), _unthrottled(terms)
    left = f"1 - (1 - {raw}) / {on} ({idle})"
    # T is a sum of shares that are independent by assumption, so it may be more than S without anything being wrong.
    return terms.newest(f"{left} >= 0 or 0 * ({left}) or {raw}")


def _unthrottled(terms: Terms) -> str:
    """1 - T per host: the chance that no container is throttled.

    A container is throttled at most for the time that is counted, summed over cpus, and for its throttled periods.
    """
    container = f"namespace, pod, container, id, {terms.node}"
    seconds = f"max by ({container}) ({terms.rate('container_cpu_cfs_throttled_seconds_total', *CONTAINERS)})"
    periods = f"max by ({container}) ({terms.rate('container_cpu_cfs_throttled_periods_total', *CONTAINERS)})"
    share = f"{seconds} < {_PERIOD} * {periods} or {_PERIOD} * {periods} or {seconds}"
    # The chance that it is awake is not 0: nothing would be left to divide by.
    awake = f"ln(1 - (({share}) < {_MOST} or 0 * ({share}) + {_MOST}))"
    return f"exp(sum by ({HOST}, cluster) ({_by_host(terms, awake)}))"


def _by_host(terms: Terms, expression: str) -> str:
    """The same series, with the node's name or address without a port in a label of its own."""
    label = terms.labels[0]
    return f'label_replace({expression}, "{HOST}", "$1", "{label}", "{_WITHOUT_PORT}")'


EXPORTER = Exporter(_queries, raw=("node_pressure_cpu_waiting_seconds_total",))
