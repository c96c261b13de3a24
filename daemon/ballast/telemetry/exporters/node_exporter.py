"""Preset `node-exporter`: raw metrics of node_exporter, as its mixin reads them."""

from ballast.telemetry.exporters.terms import BYTES, Exporter, Terms

_DISKS = 'device=~"(/dev/)?(mmcblk.+|nvme.+|rbd.+|sd.+|vd.+|xvd.+|dm-.+|md.+|dasd.+)"'
_VIRTUAL_LINKS = (
    "veth|docker|cni|flannel|cali|cilium|lxc|eni|azv|gke|br|virbr|tun|tap|vxlan|geneve|ovs|ifb|dummy|wg|kube"
)
PHYSICAL_LINKS = f'device!~"lo|({_VIRTUAL_LINKS}|nodelocaldns).*"'
_AT_REST = 'mode=~"idle|iowait|steal"'
_STOLEN = 'mode="steal"'
_LOST = 'mode=~"iowait|steal"'
_IDLE = 'mode="idle"'
_USER = 'mode="user"'


def _queries(terms: Terms) -> dict[str, str]:
    rest = f"sum without (mode) (avg without (cpu) ({terms.rate('node_cpu_seconds_total', _AT_REST)}))"
    lived = _lived(terms)
    busy = f"clamp_min(1 - {rest} / {lived}, 0)"
    free = " + ".join(terms.pick(f"node_memory_{part}_bytes") for part in ("Buffers", "Cached", "MemFree", "Slab"))
    available = f"({terms.pick('node_memory_MemAvailable_bytes')} or ({free}))"
    received = terms.rate("node_network_receive_bytes_total", PHYSICAL_LINKS)
    sent = terms.rate("node_network_transmit_bytes_total", PHYSICAL_LINKS)
    traffic = f"({received} > {sent} or {sent})"
    link = f"({terms.pick('node_network_speed_bytes', PHYSICAL_LINKS)} > 0)"
    network = terms.newest(f"{traffic} / {link}")
    return {
        "cpu": terms.effective(busy, f"{stolen(terms)} / {lived}", waiting(terms)),
        "memory": terms.newest(f"1 - {available} / {terms.pick('node_memory_MemTotal_bytes')}"),
        "disk": terms.newest(terms.rate("node_disk_io_time_seconds_total", _DISKS)),
        "network": terms.either(network, terms.amount(terms.newest(traffic), BYTES)) if terms.speeds else network,
    }


def stolen(terms: Terms) -> str:
    """The share of time that the hypervisor gave to others, per exporter."""
    return f"avg without (cpu, mode) ({terms.rate('node_cpu_seconds_total', _STOLEN)})"


def waiting(terms: Terms) -> str:
    """Witnesses of starvation: time stolen, time waiting for disks, and time in which all tasks stalled (PSI)."""
    lost = f"avg without (cpu) ({terms.rate('node_cpu_seconds_total', _LOST)})"
    disks, memory = (terms.rate(f"node_pressure_{name}_stalled_seconds_total") for name in ("io", "memory"))
    return f'{lost} or {disks} or label_replace({memory}, "mode", "memory", "", "")'


def _lived(terms: Terms) -> str:
    """Per exporter, what `rate` gives for one second a second: less than 1 while samples do not fill its range.

    A node that has just joined would look fully loaded, and one whose exporter flaps busier than it is: the same rate
    of the exporter's clock takes that out, or of all the time of one core where nobody stores this clock. Where
    only time at rest is stored either, it is 1.
    """
    cpu, core = "node_cpu_seconds_total", 'cpu=~"0|"'
    clock = terms.rate("node_time_seconds")
    whole = f"sum without (cpu, mode) ({terms.rate(cpu, core)})"
    stored = f"group without (cpu, mode) ({terms.pick(cpu, core, _USER)})"
    one = f"group without (cpu, mode) ({terms.pick(cpu, _IDLE)})"
    return f"(clamp_max({clock} or ({whole} and {stored}), 1) or {one})"


EXPORTER = Exporter(_queries, raw=("node_memory_MemTotal_bytes",))
