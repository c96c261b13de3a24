"""One daemon under fault: a process of its own behind a forwarder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from ballast_lab.faults.forwarder import Forwarder
from ballast_lab.faults.nursery import Child, Nursery
from ballast_lab.faults.versions import known
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.process import Process, free_port

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
"""Of Debian's package libfaketime."""
_LITTLE = "1m"


@dataclass(frozen=True)
class Gear:
    """What a daemon is started with: a clock that can be set, a small disk, another version's source."""

    clock: bool = False
    disk: bool = False
    source: Path | None = None

    @property
    def forked(self) -> bool:
        """Whether it needs no process of its own from the beginning."""
        return not self.clock and self.source is None


class Replica:
    """Starts at construction. `name` is what the audit log knows it by."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        name: str,
        namespace: str,
        settings: Mapping[str, str],
        gear: Gear,
        nursery: Nursery,
    ) -> None:
        self.name, self.gear = name, gear
        self.forwarder = Forwarder(plane.url, plane.certificates.ca, name)
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._clock = self._folder / "clock"
        self._disk = self._folder / "disk"
        self._disk.mkdir()
        if gear.disk:
            _mount(self._disk)
        settings = {**settings, "BALLAST_HTTP__HEALTH_PORT": str(free_port())}
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._disk),
            "TMPDIR": str(self._disk),
            "PYTHONPATH": str(gear.source or os.environ.get("PYTHONPATH", "daemon")),
            "POD_NAME": name,
            "POD_NAMESPACE": namespace,
            "POD_IP": "10.9.0.1",
            "BALLAST_CLUSTER__KUBECONFIG": str(self._kubeconfig(plane)),
            "BALLAST_HTTP__HOST": "127.0.0.1",
            "BALLAST_HTTP__PORT": str(free_port()),
            "BALLAST_LOG__FORMAT": "text",
            **(settings if gear.source is None else known(gear.source, settings)),
            **(self._faked_clock() if gear.clock else {}),
        }
        self.process: Process | Child
        if gear.forked:
            self.process = nursery.start(env, self._disk / "log")
        else:
            command = [sys.executable, "-m", *(["ballast_lab.faults.faked"] if gear.clock else ["ballast", "run"])]
            self.process = Process(f"ballast {name}", command, self._disk / "log", env=env)

    def kill(self) -> None:
        """SIGKILL; returns at once. `gone` waits for the end."""
        self.process.signal(signal.SIGKILL)

    def gone(self) -> None:
        self.process.stop()
        self.forwarder.stop()
        if self.gear.disk:
            self._keep_log()
            subprocess.run(["umount", str(self._disk)], check=True)

    def turn_clock(self, seconds: int) -> None:
        """By so many seconds from the true time."""
        fresh = self._folder / "clock.new"
        fresh.write_text(f"{seconds:+d}\n")
        fresh.rename(self._clock)

    def fill_disk(self) -> None:
        with (self._disk / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return

    def empty_disk(self) -> None:
        (self._disk / "ballast").unlink(missing_ok=True)

    def tail(self, lines: int = 30) -> str:
        kept = self._folder / "log"
        if kept.exists():
            return "\n".join(kept.read_text(errors="replace").splitlines()[-lines:])
        return self.process.tail(lines)

    def _keep_log(self) -> None:
        (self._folder / "log").write_bytes((self._disk / "log").read_bytes())

    def _faked_clock(self) -> dict[str, str]:
        self.turn_clock(0)
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def _kubeconfig(self, plane: ControlPlane) -> Path:
        [user] = yaml.safe_load(plane.admin_kubeconfig.read_text())["users"]
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.forwarder.url}}],
            "users": [user],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user["name"]}}],
            "current-context": "test",
        }
        path = self._folder / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path


def _mount(folder: Path) -> None:
    command = ["mount", "-t", "tmpfs", "-o", f"size={_LITTLE}", "tmpfs", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
