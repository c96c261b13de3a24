"""Preset `windows-exporter`: prometheus-community/windows_exporter, also older versions' names of the same metrics."""

from ballast.telemetry.exporters.terms import BYTES, Exporter, Terms

_VIRTUAL = 'nic!~"(?i).*(isatap|hyper-v|vethernet|loopback).*"'
_TOTALS = ("windows_memory_physical_total_bytes", "windows_cs_physical_memory_bytes", "windows_os_visible_memory_bytes")
_IDLE = 'mode="idle"'
_BUSY = 'mode=~"privileged|user"'
_ALL = 'mode=~"idle|privileged|user"'
"""All of a core's time, so their sum is what `rate` gives for one second a second, also of a node that just joined."""
_VOLUMES = 'volume!~"HarddiskVolume.+"'


def _queries(terms: Terms) -> dict[str, str]:
    idle, busy, lived = (terms.rate("windows_cpu_time_total", modes) for modes in (_IDLE, _BUSY, _ALL))
    share = f"sum without (core, mode) ({busy}) / sum without (core, mode) ({lived})"
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
        "cpu": terms.newest(f"{share} or clamp_min(1 - avg without (core, mode) ({idle}), 0)"),
        "memory": terms.newest(f"1 - {terms.pick('windows_memory_available_bytes')} / ({total})"),
        "disk": terms.newest(f"clamp_min(1 - {terms.rate('windows_logical_disk_idle_seconds_total', _VOLUMES)}, 0)"),
        "network": terms.either(network, terms.amount(terms.newest(traffic), BYTES)) if terms.speeds else network,
    }


EXPORTER = Exporter(_queries, raw=("windows_memory_available_bytes",))
