"""Preset `windows-exporter`: prometheus-community/windows_exporter, also older versions' names of the same metrics."""

from ballast.telemetry.exporters.core_times import CoreTimes
from ballast.telemetry.exporters.terms import BYTES, Exporter, Terms
from ballast.telemetry.intake import LARGEST_ROUNDING

_VIRTUAL = 'nic!~"(?i).*(isatap|hyper-v|vethernet|loopback).*"'
_TOTALS = ("windows_memory_physical_total_bytes", "windows_cs_physical_memory_bytes", "windows_os_visible_memory_bytes")
_CORES = CoreTimes(
    "windows_cpu_time_total", core="core", modes=("idle", "privileged", "user"), rest=("idle",), work="user"
)
"""Time of interrupts is part of privileged time."""
_VOLUMES = 'volume!~"HarddiskVolume.+"'


def _queries(terms: Terms) -> dict[str, str]:
    # Of several volumes the busiest counts, but one that cannot be is not hidden by another.
    volumes = f"1 - {terms.rate('windows_logical_disk_idle_seconds_total', _VOLUMES)}"
    disk = terms.either(f"min by ({terms.by}) ({volumes}) < -{LARGEST_ROUNDING}", terms.newest(volumes))
    total = " or ".join(map(terms.pick, _TOTALS))
    received = terms.rate("windows_net_bytes_received_total", _VIRTUAL)
    sent = terms.rate("windows_net_bytes_sent_total", _VIRTUAL)
    traffic = f"({received} > {sent} or {sent})"
    link = (
        f"(({terms.pick('windows_net_current_bandwidth_bytes', _VIRTUAL)}"
        f" or {terms.pick('windows_net_current_bandwidth', _VIRTUAL)} / 8) > 0)"
    )
    network = terms.newest(f"{traffic} / {link}")
    return {
        "cpu": terms.newest(_CORES.load(terms)),
        "memory": terms.newest(f"1 - {terms.pick('windows_memory_available_bytes')} / ({total})"),
        "disk": disk,
        "network": terms.either(network, terms.amount(terms.newest(traffic), BYTES)) if terms.speeds else network,
    }


EXPORTER = Exporter(_queries, raw=("windows_memory_available_bytes",))
