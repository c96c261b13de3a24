"""Preset `kube-prometheus`: the recording rules of prometheus-operator/kube-prometheus."""

from dataclasses import replace

from ballast.settings.prometheus import quoted_label
from ballast.telemetry.exporters.node_exporter import CORES, PHYSICAL_LINKS, waiting, working_set
from ballast.telemetry.exporters.terms import BYTES, Exporter, Terms

CPU = "instance:node_cpu:ratio"
MEMORY = "instance:node_memory_utilisation:ratio"


def _queries(terms: Terms) -> dict[str, str]:
    received = terms.pick("instance:node_network_receive_bytes:rate:sum")
    sent = terms.pick("instance:node_network_transmit_bytes:rate:sum")
    traffic = terms.newest(f"{received} > {sent} or {sent}")
    labels = ", ".join(map(quoted_label, terms.labels))
    link = f"max by ({labels}) ({terms.pick('node_network_speed_bytes', PHYSICAL_LINKS)} > 0)"
    network = f"{traffic} / on ({labels}) group_left () {link}"
    busy = terms.newest(terms.pick(CPU))
    # The rule is a rate of the same counters over up to five minutes.
    unsound = terms.newest(CORES.fell(replace(terms, window="5m")))
    load = terms.either(unsound, f"({busy} / (1 - {terms.newest(CORES.taken(terms))} > 0) or {busy})")
    return {
        "cpu": terms.beside(load, waiting(terms)),
        "memory": terms.beside(terms.newest(terms.pick(MEMORY)), working_set(terms)),
        "disk": terms.newest(terms.pick("instance_device:node_disk_io_time_seconds:rate5m")),
        "network": terms.either(network, terms.amount(traffic, BYTES)) if terms.speeds else network,
    }


EXPORTER = Exporter(_queries, raw=("node_memory_MemTotal_bytes",), rules=(CPU, MEMORY))
