"""A real Prometheus and real node_exporters."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import requests
import yaml

from ballast.telemetry.exporters.terms import WITNESS_LABEL
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import HUNG


@dataclass(frozen=True)
class Target:
    """`address` is host:port, `instance` what the series will be called."""

    address: str
    instance: str
    path: str = "/metrics"


class Prometheus:
    def __init__(self, url: str, process: Process) -> None:
        self.url = url
        self.process = process

    def query(self, promql: str, at: float) -> dict[str, float]:
        """{instance: value} at a Unix time; without the witnesses of starvation that a preset's answer carries."""
        return {
            one["metric"].get("instance", ""): float(one["value"][1])
            for one in self.series(promql, at)
            if WITNESS_LABEL not in one["metric"]
        }

    def series(self, promql: str, at: float | None = None) -> list[dict[str, Any]]:
        """The vector of an expression, now or at a Unix time."""
        with requests.Session() as session:
            session.trust_env = False
            when = {} if at is None else {"time": f"{at:.3f}"}
            found = session.post(f"{self.url}/api/v1/query", data={"query": promql, **when}, timeout=HUNG)
        answer = found.json()
        assert answer["status"] == "success", answer
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result


def answers(url: str) -> bool:
    """Whether a GET is answered with 200."""
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=HUNG).status_code == 200


def import_past(tools: Tools, folder: Path, lines: Sequence[str]) -> None:
    """Stores samples of the past where `prometheus` in this folder finds them: OpenMetrics without its last line."""
    (folder / "past.om").write_text("\n".join([*lines, "# EOF", ""]))
    command = [tools.prometheus / "promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "past.om"]
    subprocess.run([*command, folder / "tsdb"], check=True, capture_output=True)


@contextmanager
def prometheus(
    tools: Tools,
    folder: Path,
    targets: Sequence[Target],
    *,
    interval: str = "1s",
    rules: Path | None = None,
    native: bool = False,
    remote: Sequence[str] = (),
) -> Iterator[Prometheus]:
    """Scrapes the targets, and evaluates `rules`, until the block ends.

    `native`: it scrapes itself too, whose histograms are native. `remote`: URLs of others that its queries read too.
    """
    port = free_port()
    jobs = {"node-exporter": targets, **({"itself": [Target(f"127.0.0.1:{port}", "itself")]} if native else {})}
    config = folder / "prometheus.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {
                    "scrape_interval": interval,
                    "scrape_timeout": interval,
                    "evaluation_interval": interval,
                    "scrape_native_histograms": native,
                },
                "rule_files": [] if rules is None else [str(rules)],
                "scrape_configs": [
                    {"job_name": job, "static_configs": _groups(scraped)} for job, scraped in jobs.items()
                ],
                "remote_read": [{"url": f"{url}/api/v1/read", "read_recent": True} for url in remote],
            }
        )
    )
    url = f"http://127.0.0.1:{port}"
    command = [
        tools.prometheus / "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]

    ready = partial(answers, f"{url}/-/ready")
    process = Process("prometheus", command, folder / "prometheus.log", ready=ready, port=port)
    try:
        yield Prometheus(url, process)
    finally:
        process.stop()


def _groups(targets: Sequence[Target]) -> list[dict[str, Any]]:
    return [
        {"targets": [target.address], "labels": {"instance": target.instance, "__metrics_path__": target.path}}
        for target in targets
    ]


class NodeExporter(Process):
    """Debian's prometheus-node-exporter, telling about this machine."""

    def __init__(self, folder: Path, name: str) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"

        ready = partial(answers, f"http://{self.address}/")
        command = ["prometheus-node-exporter", f"--web.listen-address={self.address}", "--log.level=warn"]
        super().__init__(f"node_exporter of {name}", command, folder / f"{name}.log", ready=ready, port=port)
