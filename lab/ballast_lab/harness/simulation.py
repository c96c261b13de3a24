"""`ballast demo --cluster-only` as a child process: its exporters, for a real Prometheus to scrape."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ballast_lab.harness.api import Api
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.prometheus import Target


class Simulation(Process):
    """`about` is what the command says: addresses, the kubeconfig, the environment for a daemon."""

    def __init__(self, folder: Path, nodes: int) -> None:
        port = free_port()
        self.about: dict[str, Any] = {}
        command = [sys.executable, "-m", "ballast", "demo", "--cluster-only", "-o", "json"]
        size = ["--nodes", nodes, "--listen", f"127.0.0.1:{port}", "--kubeconfig", folder / "simulated.kubeconfig"]
        super().__init__("simulator", [*command, *size], folder / "simulator.log", ready=self._said, port=port)

    def targets(self) -> list[Target]:
        """One exporter a node."""
        address = self.about["kubernetes"].removeprefix("http://")
        with Api(self.about["kubernetes"], self._token(), Path()) as api:
            names = [node["metadata"]["name"] for node in api.items("/api/v1/nodes")]
        return [Target(address, name, f"/metrics/node/{name}") for name in names]

    def _said(self) -> bool:
        text = self.log.read_text()
        if text.count("{") and text.count("{") == text.count("}"):
            self.about = json.loads(text)
        return bool(self.about)

    def _token(self) -> str:
        return str(json.loads(Path(self.about["kubeconfig"]).read_text())["users"][0]["user"]["token"])
