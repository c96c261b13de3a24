"""Preset `node-exporter`: raw metrics of node_exporter, as its mixin reads them."""

from __future__ import annotations

from ballast.telemetry.exporters.terms import BYTES, Exporter, Terms

_DISKS = 'device=~"(/dev/)?(mmcblk.+|nvme.+|rbd.+|sd.+|vd.+|xvd.+|dm-.+|md.+|dasd.+)"'
_VIRTUAL_LINKS = (
    "veth|docker|cni|flannel|cali|cilium|lxc|eni|azv|gke|br|virbr|tun|tap|vxlan|geneve|ovs|ifb|dummy|wg|kube"
)
PHYSICAL_LINKS = f'device!~"lo|({_VIRTUAL_LINKS}|nodelocaldns).*"'
_BUSY = 'mode!~"idle|iowait|steal"'
_IDLE = 'mode="idle"'


def _queries(terms: Terms) -> dict[str, str]:
    # Not one minus the modes at rest, which needs fewer series: while a counter is younger than the range of the rate,
    # the rate is too small, and a node that has just joined would look fully loaded.
    busy = f"sum without (cpu, mode) ({terms.rate('node_cpu_seconds_total', _BUSY)})"
    cpus = f"count without (cpu, mode) ({terms.pick('node_cpu_seconds_total', _IDLE)})"
    free = " + ".join(terms.pick(f"node_memory_{part}_bytes") for part in ("Buffers", "Cached", "MemFree", "Slab"))
    available = f"({terms.pick('node_memory_MemAvailable_bytes')} or ({free}))"
    received = terms.rate("node_network_receive_bytes_total", PHYSICAL_LINKS)
    sent = terms.rate("node_network_transmit_bytes_total", PHYSICAL_LINKS)
    traffic = f"({received} > {sent} or {sent})"
    link = f"({terms.pick('node_network_speed_bytes', PHYSICAL_LINKS)} > 0)"
    network = terms.newest(f"{traffic} / {link}")
    return {
        "cpu": terms.newest(f"{busy} / {cpus}"),
        "memory": terms.newest(f"1 - {available} / {terms.pick('node_memory_MemTotal_bytes')}"),
        "disk": terms.newest(terms.rate("node_disk_io_time_seconds_total", _DISKS)),
        "network": terms.either(network, terms.amount(terms.newest(traffic), BYTES)) if terms.speeds else network,
    }


EXPORTER = Exporter(_queries, raw=("node_memory_MemTotal_bytes",))
