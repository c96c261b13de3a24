import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import requests

from ballast.base.errors import UsageError
from ballast.runtime.daemon import Daemon
from ballast.settings import load
from ballast_lab.demo import running as demo
from ballast_lab.demo.running import Options, run
from ballast_lab.harness.waiting import HUNG, until
from ballast_lab.scaled_clock import ScaledClock
from ballast_lab.simulator import EmbeddedCluster, World


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("BALLAST_", "POD_"))}
    command = [sys.executable, "-m", "ballast", "demo", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


LABELLED = r"labels current on \d+ of 30 nodes \(\d+ changed, 2 unknown\); next in 5 s"


def ended_by(pattern: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines up to the first that matches, which has to come."""
    for line in lines:
        yield line
        if re.search(pattern, line):
            return
    raise AssertionError(f"no line matches {pattern}")


def test_a_headless_demo_prints_one_object_and_its_sentences_apart() -> None:
    process = start("--headless", "--nodes", "30", "--speed", "10", "-o", "json")
    assert process.stderr is not None
    sentences = [line.rstrip("\n") for line in ended_by(LABELLED, process.stderr)]
    process.send_signal(signal.SIGINT)
    printed, rest = process.communicate(timeout=HUNG)
    sentences += rest.splitlines()
    assert process.returncode == 0, sentences
    summary = json.loads(printed)
    assert set(summary) == {"cycles", "queries", "reads", "writes", "nodes", "unknown_nodes", "scores", "sentences"}
    assert summary["nodes"] == 30
    assert summary["unknown_nodes"] == 2, "one node went dark, one exporter sends NaN"
    assert all(type(summary[key]) is int and summary[key] > 0 for key in ("cycles", "queries", "reads"))
    assert all(type(count) is int for count in summary["writes"].values())
    assert summary["writes"]["labels"] >= 28
    assert len(summary["scores"]) == 28
    assert all(type(score) is int and 0 <= score <= 100 for score in summary["scores"].values())
    assert all(type(sentence) is str for sentence in summary["sentences"])
    assert any("know 28 of 30 nodes" in sentence for sentence in sentences)
    assert any(sentence.endswith(summary["sentences"][-1]) for sentence in sentences)
    assert not any("Traceback" in sentence for sentence in sentences)


def test_ctrl_c_ends_a_demo_with_its_summary_and_the_page_answers_before() -> None:
    process = start("--listen", "127.0.0.1:0", "--nodes", "5", "--scene", "calm")
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    address = next(found.group() for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+/", line)))
    assert requests.get(address, timeout=HUNG).status_code == 200
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=HUNG)
    assert process.returncode == 0
    assert "Traceback" not in said
    assert re.search(r"^nodes +5$", printed, re.MULTILINE)


def test_a_stopped_demo_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    stop = threading.Event()
    sentences: list[str] = []

    def say(sentence: str) -> None:
        sentences.append(sentence)
        if "labels current on " in sentence:
            stop.set()

    summary = run(Options(nodes=6, speed=20.0, headless=True, scene="calm"), stop, say)
    assert summary["nodes"] == len(summary["scores"]) == 6
    until(lambda: not set(threading.enumerate()) - before, "no thread is left")


def test_a_demo_stopped_while_it_starts_begins_no_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    class Recording(Daemon):
        def start(self, stop: threading.Event | None = None) -> None:
            monkeypatch.setattr(self.scheduler, "run", begun.append)
            super().start(stop)

    monkeypatch.setattr(demo, "Daemon", Recording)
    stop = threading.Event()
    stop.set()
    run(Options(nodes=6, headless=True, scene="calm"), stop, print)
    assert begun == []


def test_the_summary_shows_what_was_known_before_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Daemon):
        def stop(self) -> None:
            super().stop()
            self.board.snapshot = None  # as a cycle leaves it whose queries the stop has ended

    monkeypatch.setattr(demo, "Daemon", Interrupted)
    summary = run(Options(nodes=6, seconds=0.0, speed=20.0, headless=True, scene="calm"), threading.Event(), print)
    assert (summary["nodes"], summary["unknown_nodes"]) == (6, 0)


def test_a_server_has_the_machines_time_to_answer_however_fast_the_world_runs(tmp_path: Path) -> None:
    clock = ScaledClock(120.0)
    with EmbeddedCluster(World(3, 1, clock, scene="calm")) as cluster:
        cluster.faults.prometheus_slow(0.2)
        environment = cluster.environment(cluster.kubeconfig(tmp_path / "kubeconfig")) | {
            "BALLAST_HTTP__HOST": "127.0.0.1",
            "BALLAST_HTTP__PORT": "0",
        }
        daemon = Daemon(load(environment), clock=clock)
        try:
            daemon.start()
            first = daemon.board.cycles[0].sentence
        finally:
            daemon.stop()
    assert first == "know 3 of 3 nodes from prometheus, 0 unknown"


@pytest.mark.parametrize("speed", [0.0, -1.0, 1e6])
def test_a_speed_that_cannot_be_is_told(speed: float) -> None:
    with pytest.raises(UsageError, match="--speed"):
        run(Options(speed=speed), threading.Event(), print)
