"""The daemon with the rights of its chart, machines whose load the test sets, and a scheduler that asks it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ballast.cluster.state import SCHEMA
from ballast.jobs.eviction.day_peak import DAY_KEY, EVERY
from ballast.model.duration import DAY
from ballast.publishing.scheduler_profiles import extender_profile
from ballast_lab.harness.chart import Installed, install, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import clear
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.rebalancing import Size, settings
from ballast_lab.harness.scheduler import scheduler

NODES = [f"n{number}" for number in range(4)]
SIZE = Size(nodes=4, apps=1, replicas=2, moves=100, window=4, interval=1, cpu=False)
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


def _know_a_day(cluster: ControlPlane, namespace: str) -> None:
    """As if a daemon had seen the nodes for a day, at the load that they have now."""
    used = {"": {"cpu": 4.0, "memory": 0.3 * len(NODES) * 32 * 2**30}}
    now = int(time.time())
    day = {str(now - ago): used for ago in range(0, int(DAY + 2 * EVERY), int(EVERY))}
    cluster.api.post(
        f"/api/v1/namespaces/{namespace}/configmaps",
        {"metadata": {"name": "ballast-state"}, "data": {"schema": SCHEMA, DAY_KEY: json.dumps(day)}},
    )


@contextmanager
def acting(
    cluster: ControlPlane, folder: Path, planners: str, **more: Any
) -> Iterator[tuple[Daemon, Machines, Installed]]:
    """Four machines, the daemon with the rights of its chart, and a scheduler that asks it."""
    values = {
        "settings": {
            "prometheus": {"url": "http://127.0.0.1:9090"},
            "publishing": {"mode": "off"},
            "power": {"mode": "off"},
            "eviction": {"mode": "on", "planners": planners, **more},
        }
    }
    clear(cluster.api)
    installed = install(cluster, values)
    kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
    add_nodes(cluster.api, [node(name, cpu="16", memory="32Gi", labels={"disk": "ssd"}) for name in NODES])
    if planners == "consolidate":
        _know_a_day(cluster, installed.namespace)
    since = cluster.audit.here()
    try:
        with (
            Machines(NODES, memory=0.3) as machines,
            prometheus(cluster.tools, folder, machines.targets()) as server,
            Daemon(
                cluster,
                "acts",
                kubeconfig,
                {
                    **installed.settings,
                    **settings(SIZE, "on"),
                    "POD_NAMESPACE": installed.namespace,
                    "BALLAST_PROMETHEUS__URL": server.url,
                    "BALLAST_EVICTION__PLANNERS": planners,
                    "BALLAST_EVICTION__CONFIRMATIONS": "1",
                    "BALLAST_EVICTION__HIGH": "0.8",
                    "BALLAST_EVICTION__TARGET_HIGH": "0.7",
                },
            ) as daemon,
            scheduler(cluster, extender_profile(daemon.url, "default-scheduler", filtering=True), patient=True),
        ):
            yield daemon, machines, installed
            calls = cluster.audit.calls(user=installed.user, since=since)
            # A webhook of a test may refuse evictions.
            refused = [call for call in calls if call.resource == "pods/eviction" and call.permitted]
            assert [call.uri for call in calls if call.forbidden and call not in refused] == []
    finally:
        clear(cluster.api)
        cluster.api.delete(HPAS)
        uninstall(cluster, values)
