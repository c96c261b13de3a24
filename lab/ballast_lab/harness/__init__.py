"""A real control plane, Prometheus and node_exporter on free loopback ports; one idea per file."""
