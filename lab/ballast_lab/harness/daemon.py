"""`python -m ballast run` as a child process, configured by its environment alone."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests
from urllib3.exceptions import InsecureRequestWarning

from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.waiting import HUNG

FAST = {
    "BALLAST_TELEMETRY__INTERVAL": "1s",
    "BALLAST_WINDOWS__LENGTHS": "10s",
    "BALLAST_WINDOWS__MAX_AGE": "5s",
    "BALLAST_PUBLISHING__MODE": "on",
    "BALLAST_LOG__FORMAT": "text",
}


class Daemon(Process):
    """One replica. Only what is in `settings` (and a wrong REQUESTS_CA_BUNDLE, which must not matter) is told to it."""

    def __init__(self, plane: ControlPlane, name: str, kubeconfig: Path, settings: Mapping[str, str]) -> None:
        port = free_port()
        self.url = f"http{'s' if 'BALLAST_HTTP__TLS_CERT_FILE' in settings else ''}://127.0.0.1:{port}"
        own = settings.get("BALLAST_HTTP__TLS_CERT_FILE") in (None, str(plane.certificates.server))
        self._verify: str | bool = str(plane.certificates.ca) if own else False
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(plane.folder),
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
            "REQUESTS_CA_BUNDLE": str(plane.certificates.server),
            "BALLAST_CLUSTER__KUBECONFIG": str(kubeconfig),
            "BALLAST_HTTP__HOST": "127.0.0.1",
            "BALLAST_HTTP__PORT": str(port),
            **settings,
        }
        super().__init__(
            f"ballast {name}",
            [sys.executable, "-m", "ballast", "run"],
            plane.folder / f"ballast-{name}-{port}.log",
            ready=lambda: self.get("/readyz").status_code == 200,
            port=port,
            env=env,
        )

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            error.add_note(self.tail())
        self.stop()

    def get(self, path: str) -> requests.Response:
        with requests.Session() as session, warnings.catch_warnings():
            warnings.simplefilter("ignore", InsecureRequestWarning)  # a certificate of the chart is for its Service
            session.trust_env = False
            return session.get(self.url + path, timeout=HUNG, verify=self._verify)

    def node(self, name: str) -> dict[str, Any]:
        found = self.get(f"/api/v1/nodes/{name}")
        assert found.status_code == 200, found.text
        return dict(found.json())

    def condition(self, kind: str) -> str:
        """Its message, as the API says it; empty where it is not true."""
        conditions = self.get("/api/v1/status").json()["conditions"]
        return next((str(each["message"]) for each in conditions if each["type"] == kind), "")

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """(name, labels, value) of everything in /metrics."""
        from prometheus_client.parser import text_string_to_metric_families

        for family in text_string_to_metric_families(self.get("/metrics").text):
            for sample in family.samples:
                yield sample.name, dict(sample.labels), float(sample.value)

    def leads(self) -> bool:
        return any(name == "ballast_leader" and value == 1 for name, _, value in self.samples())
