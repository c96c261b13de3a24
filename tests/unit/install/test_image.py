"""The Dockerfile, read as a builder reads it."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.unit.install.test_version import SEMANTIC
from tests.worlds.chart import ROOT, Helm, one

Step = tuple[str, str]


def steps() -> list[Step]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def stages() -> list[list[Step]]:
    found: list[list[Step]] = []
    for step in steps():
        if step[0] == "FROM":
            found.append([])
        if found:
            found[-1].append(step)
    return found


def argument(stage: list[Step], word: str) -> str:
    return [rest for name, rest in stage if name == word][-1]


def copied() -> Iterator[str]:
    for word, rest in stages()[0]:
        if word == "COPY":
            yield from rest.split()[:-1]


def test_both_stages_stand_on_one_base_that_the_builder_chooses() -> None:
    word, base = steps()[0]
    assert word == "ARG"
    assert re.fullmatch(r"BASE=python:3\.13-slim@sha256:[0-9a-f]{64}", base), "a tag may mean another image tomorrow"
    assert [argument(stage, "FROM") for stage in stages()] == ["${BASE} AS build", "${BASE}"]
    assert re.search(r"\w\.\w+/", base) is None, "no registry is named"


@pytest.mark.parametrize("workflow", sorted((ROOT / ".github" / "workflows").iterdir()), ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version_beside(workflow: Path) -> None:
    uses = re.findall(r"uses: (.*)", workflow.read_text())
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_everything_installed_from_outside_is_pinned_by_hash() -> None:
    installs = [part for word, rest in steps() if word == "RUN" for part in rest.split("&&") if "pip" in part]
    outside = [part for part in installs if "--no-index" not in part and "wheel " not in part]
    assert outside
    for part in outside:
        if " install " in part:
            assert "--require-hashes" in part
            assert "--only-binary :all:" in part
            [locked] = re.findall(r"-r (\S+)", part)
            assert "--hash=sha256:" in (ROOT / locked).read_text()


@pytest.mark.parametrize("source", list(copied()))
def test_what_is_copied_exists_and_reaches_the_builder(source: str) -> None:
    assert (ROOT / source).exists()
    ignored = False
    for pattern in (ROOT / ".dockerignore").read_text().splitlines():
        kept = pattern.startswith("!")
        if fnmatch(source, pattern.lstrip("!")) or source.startswith(f"{pattern.lstrip('!')}/"):
            ignored = not kept
    assert not ignored


def test_only_the_installed_package_reaches_the_image() -> None:
    final = stages()[-1]
    assert [rest for word, rest in final if word == "COPY"] == ["--from=build /opt/ballast /opt/ballast"]
    assert not any(word in ("RUN", "ADD") for word, _ in final)


def test_the_image_runs_as_the_user_the_chart_names(helm4: Helm) -> None:
    user = argument(stages()[-1], "USER")
    spec = one(helm4.template(), "Deployment", "ballast")["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{spec['runAsUser']}:{spec['runAsGroup']}"


def test_the_daemon_starts_without_a_shell_and_writes_no_bytecode() -> None:
    final = stages()[-1]
    assert argument(final, "ENTRYPOINT") == '["/opt/ballast/bin/ballast"]'
    assert argument(final, "CMD") == '["run"]'
    assert "PYTHONDONTWRITEBYTECODE=1" in argument(final, "ENV")
    assert "OPENBLAS_NUM_THREADS=1" in argument(final, "ENV")
    assert not any(word == "HEALTHCHECK" for word, _ in final), "Kubernetes has probes"


def test_the_image_says_what_it_is() -> None:
    labels = argument(stages()[-1], "LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in labels
    assert ("ARG", f"VERSION={SEMANTIC}") in steps()
