"""Commands of the documentation do what they say, executed against a simulated cluster with the real daemon."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast.base.clock import SystemClock
from ballast.runtime.daemon import Daemon
from ballast.settings import load
from ballast_lab.harness.waiting import HUNG, eventually
from ballast_lab.simulator import EmbeddedCluster, World
from tests.unit.docs.pages import NAMES
from tests.unit.docs.test_commands import all_calls

pytestmark = pytest.mark.slow

LIVE = ("status", "top", "doctor", "explain", "plan", "profile", "config", "report")
"""Commands that need nothing but a cluster and its daemon."""

ELSEWHERE = ("--cluster", "--metrics", "--peak", "--problem", "-f", "place", "--url", "check", "power-feed")
"""Words of calls that need a file, an address or settings of the reader's own."""

CALLS = sorted(
    {
        tuple(call)
        for name in NAMES
        for call in all_calls(name)
        if call[0] == "ballast" and len(call) > 1 and call[1] in LIVE
        if not any(word.startswith(ELSEWHERE) or "<" in word or word.isupper() for word in call[2:])
    }
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """That of a person whose kubeconfig leads to the cluster, beside a daemon that has seen some cycles."""
    folder: Path = tmp_path_factory.mktemp("live")
    with EmbeddedCluster(World(nodes=6, scene="calm"), scrape_seconds=1) as cluster:
        settings = cluster.environment(cluster.kubeconfig(folder / "kubeconfig")) | {
            "BALLAST_TELEMETRY__INTERVAL": "1s",
            "BALLAST_HTTP__HOST": "127.0.0.1",
            "BALLAST_HTTP__PORT": "0",
            "BALLAST_PUBLISHING__MODE": "on",
        }
        daemon = Daemon(load(settings), clock=SystemClock())
        daemon.start()
        try:
            eventually("the first nodes are known", lambda: daemon.board.snapshot and daemon.board.snapshot.known.any())
            pod = next(f"{namespace}/{name}" for namespace, name in cluster.world.members)
            yield {**os.environ, **settings, "URL": daemon.url, "POD": pod}
        finally:
            daemon.stop()


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_command_of_the_pages_answers(call: tuple[str, ...], environment: dict[str, str]) -> None:
    words = [environment["POD"] if "/" in word and not word.startswith("-") else word for word in call[1:]]
    words = [word for word in words if word != "--live"]
    live = ["--url", environment["URL"]] if call[1] in ("status", "top", "explain", "plan", "report") else []
    command = [sys.executable, "-m", "ballast", *words, *live]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HUNG, check=False)
    assert done.returncode in (0, 1), f"{done.stdout[-500:]}\n{done.stderr[-1500:]}"
    assert (done.stdout + done.stderr).strip()
    assert "Traceback" not in done.stderr
