"""Preset `psi`: the share of time in which some task waited for cpu, memory or io, from node_exporter's collector."""

from __future__ import annotations

from ballast.telemetry.exporters.terms import Exporter, Terms


def _queries(terms: Terms) -> dict[str, str]:
    return {
        f"psi-{name}": terms.newest(terms.rate(f"node_pressure_{name}_waiting_seconds_total"))
        for name in ("cpu", "memory", "io")
    }


EXPORTER = Exporter(_queries, raw=("node_pressure_cpu_waiting_seconds_total",))
