"""The GitHub Action that rehearses a change of values, run by bash. `pip` and `gh` are stand-ins."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
ACTION = ROOT / "contrib" / "rehearse-action"
TOOLS = {
    "python": '[ "$1" = -m ] && mkdir -p "$3/bin" && cp "$TOOLS/pip" "$TOOLS/../python" "$3/bin"',
    "pip": 'echo "$@" > "$OUT/pip"',
    "gh": 'cp "${@: -1}" "$OUT/comment"',
}


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"]
    done = subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits: values with eviction off, then in dry-run."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for mode in ("off", "dry-run"):
        (folder / "values.yaml").write_text(
            f"settings:\n  eviction:\n    mode: {mode!r}\n    rate: null\n  power: null\n"
        )
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", mode)
    return folder


def act(repository: Path, out: Path, base: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    [step] = yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]
    out.mkdir()
    tools = out / "tools"
    tools.mkdir()
    for file, script in {**TOOLS, "../python": f'exec {sys.executable} "$@"'}.items():
        (tools / file).write_text(f"#!/bin/bash\n{script}\n")
        (tools / file).chmod(0o755)
    given = {"VALUES": "values.yaml", "PROMETHEUS": "", "RECORDING": "", "FROM": "2d", "BASE": base, "NUMBER": "7"}
    action = {"GITHUB_ACTION_PATH": str(ACTION), "GITHUB_STEP_SUMMARY": str(out / "summary")}
    paths = {"PATH": f"{tools}:{os.environ['PATH']}", "TOOLS": str(tools), "OUT": str(out), "TMPDIR": str(out)}
    environment = os.environ | given | inputs | action | paths
    return subprocess.run(
        ["bash", "-c", step["run"]], cwd=repository, env=environment, capture_output=True, text=True, check=False
    )


def test_no_expression_of_github_stands_in_a_script() -> None:
    for step in yaml.safe_load((ACTION / "action.yml").read_text())["runs"]["steps"]:
        assert "${{" not in step["run"], "what somebody else wrote would be run"


def test_without_a_history_it_says_so_and_succeeds(repository: Path, tmp_path: Path) -> None:
    done = act(repository, tmp_path / "out", git(repository, "rev-parse", "HEAD~1"))
    assert done.returncode == 0, done.stderr
    assert "No history can be read here" in (tmp_path / "out" / "comment").read_text()


def test_a_rehearsal_that_fails_says_why_where_it_is_read(repository: Path, tmp_path: Path) -> None:
    done = act(repository, tmp_path / "out", git(repository, "rev-parse", "HEAD~1"), RECORDING="-nowhere")
    assert done.returncode == 1
    for place in ("comment", "summary"):
        told = (tmp_path / "out" / place).read_text()
        assert "The rehearsal failed" in told
        assert "nowhere" in told


def test_where_nothing_is_merged_nothing_was_before(repository: Path, tmp_path: Path) -> None:
    assert act(repository, tmp_path / "out", base="").returncode == 0


def test_a_shallow_clone_has_what_was_before(repository: Path, tmp_path: Path) -> None:
    base = git(repository, "rev-parse", "HEAD~1")
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repository}", str(clone))
    assert act(clone, tmp_path / "out", base).returncode == 0
    [before] = (tmp_path / "out").glob("tmp.*/base.yaml")
    assert "'off'" in before.read_text()
