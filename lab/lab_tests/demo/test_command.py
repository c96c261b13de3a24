import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from ballast.base.errors import UsageError
from ballast.cli.app import app
from ballast_lab.harness.waiting import HUNG


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("BALLAST_")}
    command = [sys.executable, "-m", "ballast", "demo", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_cluster_alone_says_how_to_watch_it_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    process = start("--cluster-only", "--nodes", "3", "-o", "json", "--kubeconfig", str(kubeconfig))
    assert process.stdout is not None
    printed: dict[str, Any] = json.loads(process.stdout.readline())
    environment = printed["environment"]
    assert environment["BALLAST_CLUSTER__KUBECONFIG"] == str(kubeconfig)
    assert environment["BALLAST_PROMETHEUS__URL"] == printed["prometheus"]
    server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    assert server == printed["kubernetes"]
    assert len(requests.get(f"{server}/api/v1/nodes", timeout=HUNG).json()["items"]) == 3
    process.send_signal(number)
    rest, errors = process.communicate(timeout=HUNG)
    assert (process.returncode, rest) == (0, "")
    assert errors == "stopped\n"


def test_in_words_it_prints_exports_and_ends_after_some_seconds() -> None:
    process = start("--cluster-only", "--nodes", "2", "--seconds", "0.1", "--listen", "127.0.0.1:0", "--scene", "calm")
    words, errors = process.communicate(timeout=HUNG)
    assert process.returncode == 0, errors
    assert "An embedded cluster of 2 nodes and 30 pods" in words
    assert "export BALLAST_CLUSTER__KUBECONFIG=" in words
    assert "export BALLAST_PROMETHEUS__URL=http://127.0.0.1:" in words
    kubeconfig = next(line.partition("=")[2] for line in words.splitlines() if "KUBECONFIG" in line)
    assert not Path(kubeconfig).exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "2020"], "--listen 2020 cannot be used: HOST:PORT is expected"),
        (["--cluster-only", "--listen", "127.0.0.1:99999"], "HOST:PORT is expected"),
        (["--speed", "0"], "--speed 0 cannot be used"),
        (["--speed", "1000"], "at most 300 is allowed"),
    ],
)
def test_wrong_use_is_refused_with_a_reason(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert isinstance(result.exception, UsageError)
    assert words in str(result.exception)


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(app, ["demo", "--cluster-only", "--listen", address, "--nodes", "1"])
    assert address in str(result.exception)
    assert "Address already in use" in str(result.exception)
