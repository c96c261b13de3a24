"""Preset `node-exporter`: raw metrics of node_exporter, as its mixin reads them."""

from ballast.telemetry.exporters.core_times import CoreTimes
from ballast.telemetry.exporters.terms import BYTES, Exporter, Terms

_DISKS = 'device=~"(/dev/)?(mmcblk.+|nvme.+|rbd.+|sd.+|vd.+|xvd.+|dm-.+|md.+|dasd.+)"'
_VIRTUAL_LINKS = (
    "veth|docker|cni|flannel|cali|cilium|lxc|eni|azv|gke|br|virbr|tun|tap|vxlan|geneve|ovs|ifb|dummy|wg|kube"
)
PHYSICAL_LINKS = f'device!~"lo|({_VIRTUAL_LINKS}|nodelocaldns).*"'
CORES = CoreTimes(
    "node_cpu_seconds_total",
    core="cpu",
    modes=("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"),
    rest=("idle", "iowait"),
    work="user",
    stolen="steal",
    clock="node_time_seconds",
)


def _queries(terms: Terms) -> dict[str, str]:
    free = " + ".join(terms.pick(f"node_memory_{part}_bytes") for part in ("Buffers", "Cached", "MemFree", "Slab"))
    available = f"({terms.pick('node_memory_MemAvailable_bytes')} or ({free}))"
    # ZFS keeps files in memory of its own: half of a node's by default. It gives way down to a floor, as the page cache
    # does, but the kernel does not count it as available.
    total = terms.pick("node_memory_MemTotal_bytes")
    cache = f"({terms.pick('node_zfs_arc_size')} - {terms.pick('node_zfs_arc_c_min')} > 0 or 0 * {total})"
    received = terms.rate("node_network_receive_bytes_total", PHYSICAL_LINKS)
    sent = terms.rate("node_network_transmit_bytes_total", PHYSICAL_LINKS)
    traffic = f"({received} > {sent} or {sent})"
    link = f"({terms.pick('node_network_speed_bytes', PHYSICAL_LINKS)} > 0)"
    network = terms.newest(f"{traffic} / {link}")
    return {
        "cpu": terms.beside(terms.newest(CORES.load(terms)), waiting(terms)),
        "memory": terms.beside(terms.newest(f"1 - ({available} + {cache}) / {total}"), working_set(terms)),
        "disk": terms.newest(terms.rate("node_disk_io_time_seconds_total", _DISKS)),
        "network": terms.either(network, terms.amount(terms.newest(traffic), BYTES)) if terms.speeds else network,
    }


def working_set(terms: Terms) -> str:
    """The most that kubelets and metrics-server call used: all but free memory and page cache that is not active.

    Newer kubelets count anonymous memory and page cache alone, without slab.
    """
    free, cold = (terms.pick(f"node_memory_{part}_bytes") for part in ("MemFree", "Inactive_file"))
    return f"1 - ({free} + {cold}) / {terms.pick('node_memory_MemTotal_bytes')}"


def waiting(terms: Terms) -> str:
    """Witnesses of starvation: time stolen, time waiting for disks, and time in which all tasks stalled (PSI)."""
    disks, memory = (terms.rate(f"node_pressure_{name}_stalled_seconds_total") for name in ("io", "memory"))
    lost = CORES.lost(terms, "iowait", "steal")
    return f'{lost} or {disks} or label_replace({memory}, "mode", "memory", "", "")'


EXPORTER = Exporter(_queries, raw=("node_memory_MemTotal_bytes",))
