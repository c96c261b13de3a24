"""An embedded cluster: Kubernetes API, Prometheus, metrics-server, exporters, scheduler and power feed on real sockets.

with EmbeddedCluster(World(nodes=200, seed=1)) as cluster:
    print(cluster.url, cluster.prometheus_url)
"""

from ballast.simulator.cluster import EmbeddedCluster
from ballast.simulator.faults import Faults
from ballast.simulator.world import SCENES, World

__all__ = ["SCENES", "EmbeddedCluster", "Faults", "World"]
