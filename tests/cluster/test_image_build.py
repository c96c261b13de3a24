"""The Dockerfile's own steps, run in an empty directory: what they leave starts without anything else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from ballast import __version__
from ballast_lab.simulator import EmbeddedCluster, World
from tests.unit.install.test_image import argument, stages
from tests.worlds.chart import ROOT

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")


def environment() -> dict[str, str]:
    """Without this checkout; `python` is the one that runs the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BALLAST", "VIRTUAL"))}
    return {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def copy(sources: list[str], target: Path) -> None:
    several = len(sources) > 1
    for source in sources:
        origin = ROOT / source
        if origin.is_dir():
            shutil.copytree(origin, target, ignore=LEFT_OUT, dirs_exist_ok=True)
        else:
            place = target / origin.name if several or target.is_dir() else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, place)


def build(root: Path) -> None:
    """The steps of the first stage, with `root` in the place of /."""
    here = root
    for word, rest in stages()[0]:
        if word == "WORKDIR":
            here = root / rest.lstrip("/")
            here.mkdir(parents=True)
        elif word == "COPY":
            *sources, target = rest.split()
            copy(sources, here / target)
        elif word == "RUN":
            command = rest.replace("/opt/", f"{root}/opt/")
            done = subprocess.run(
                ["sh", "-ec", command], cwd=here, env=environment(), capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        else:
            assert word in ("FROM", "ENV", "ARG"), f"{word} is new here"


def test_the_steps_of_the_dockerfile_make_a_ballast_that_starts(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    build(root)
    shutil.rmtree(root / "src")
    shutil.rmtree(root / "opt" / "build")
    empty = tmp_path / "empty"
    empty.mkdir()
    [entry] = json.loads(argument(stages()[-1], "ENTRYPOINT"))
    assert json.loads(argument(stages()[-1], "CMD")) == ["run"]
    program = str(root / entry.lstrip("/"))
    bare = {"PATH": f"{root}/opt/ballast/bin", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(empty)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], cwd=empty, env=bare, capture_output=True, text=True, check=False)

    assert __version__ in run("--version").stdout
    assert "BALLAST_PROMETHEUS__URL" in run("run").stderr, "it asks for the one setting it cannot do without"
    demo = run("demo", "--headless")
    assert (demo.returncode, demo.stdout) == (2, "")
    assert "The command demo needs the package ballast_lab" in demo.stderr
    with EmbeddedCluster(World(5, 1, scene="calm")) as cluster:
        settings = cluster.environment(cluster.kubeconfig(tmp_path / "kubeconfig"))
        settings |= {"BALLAST_HTTP__HOST": "127.0.0.1", "BALLAST_HTTP__PORT": "0", "BALLAST_HTTP__HEALTH_PORT": "0"}
        daemon = subprocess.Popen(
            [program, "run"],
            cwd=empty,
            env=bare | settings | {"BALLAST_TELEMETRY__INTERVAL": "5s"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            assert daemon.stdout is not None
            assert any("know 5 of 5 nodes" in line for line in daemon.stdout), "it ended before it knew the nodes"
        finally:
            daemon.kill()
            daemon.communicate()
    assert not list(empty.iterdir())
