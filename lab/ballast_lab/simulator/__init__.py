"""An embedded cluster: Kubernetes API, Prometheus, metrics-server, exporters, scheduler and power feed on real sockets.

with EmbeddedCluster(World(nodes=200, seed=1)) as cluster:
    print(cluster.url, cluster.prometheus_url)
"""

from ballast_lab.simulator.cluster import EmbeddedCluster
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.world import SCENES, World

__all__ = ["SCENES", "EmbeddedCluster", "Faults", "World"]
