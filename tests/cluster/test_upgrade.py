"""From the last release to this one and back: Helm upgrades the real objects, and each daemon lives with its rights."""

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from ballast_lab.harness.release import ROOT, Release, forbidden
from ballast_lab.harness.waiting import eventually

SETTINGS = "publishing.mode=on"


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def last_release() -> str:
    """The last tag; before the first one the commit that wrote the last version down. Skips without a history."""
    try:
        tags = git("tag", "--list", "v*", "--sort=-version:refname", "--merged").decode().split()
        written = git("log", "--format=%H", "-S## 0.1.0", "--", "CHANGELOG.md").decode().split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a clone with its history")
    if not (found := [*tags, *written[-1:]]):
        pytest.skip("needs a clone with its history")
    return found[0]


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The chart of the last release."""
    with tarfile.open(fileobj=io.BytesIO(git("archive", last_release()))) as archive:  # its link needs dashboards/
        archive.extractall(tmp_path / "earlier", filter="data")
    return tmp_path / "earlier" / "charts" / "ballast"


def accepted(release: Release, chart: Path) -> Path:
    """The values of the tests without what an earlier chart does not know."""
    known = yaml.safe_load((chart / "values.yaml").read_text())
    wanted: dict[str, Any] = yaml.safe_load((release.folder / "values.yaml").read_text())
    file = release.folder / "earlier.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in wanted.items() if key in known}))
    return file


def kinds(release: Release) -> set[tuple[str, str]]:
    manifests = yaml.safe_load_all(release.helm("get", "manifest", "ballast"))
    return {(each["kind"], each["metadata"]["name"]) for each in manifests if each}


def _pods(release: Release, selector: str) -> list[str]:
    return [each["metadata"]["name"] for each in release.cluster.api.items(selector)]


def works(release: Release, old: set[str]) -> None:
    """A new pod does; nothing runs the pods here, so Kubernetes keeps the old ones."""
    begun = release.cluster.audit.here()
    selector = release.path("pods?labelSelector=app.kubernetes.io/component=daemon")
    new = eventually("a pod of the new version", lambda: [each for each in _pods(release, selector) if each not in old])
    with release.daemon(new[0]) as daemon:
        eventually("it labels both nodes", lambda: "labels current on 2 of 2 nodes" in daemon.log.read_text())
    assert daemon.code == 0
    assert not forbidden(release.cluster.audit.calls(user=release.user("ballast"), since=begun))


def test_helm_upgrades_from_the_last_release_and_rolls_back(release: Release, earlier: Path) -> None:
    values = accepted(release, earlier)
    release.helm("install", "ballast", earlier, "--values", values, "--set", f"settings.{SETTINGS}")
    before, old = kinds(release), set(release.pods())
    release.upgrade("--set", f"settings.{SETTINGS}")
    after = kinds(release)
    assert ("Deployment", "ballast") in before & after
    works(release, old)
    release.helm("rollback", "ballast", "1", "--no-hooks")
    assert kinds(release) == before
    for kind, collection, group in (
        ("Role", "roles", "apis/rbac.authorization.k8s.io/v1"),
        ("ConfigMap", "configmaps", "api/v1"),
        ("Service", "services", "api/v1"),
        ("NetworkPolicy", "networkpolicies", "apis/networking.k8s.io/v1"),
    ):
        there = {each["metadata"]["name"] for each in release.cluster.api.items(release.path(collection, group))}
        assert {name for owner, name in before if owner == kind} <= there
        assert not {name for owner, name in after - before if owner == kind} & there
    release.upgrade("--set", f"settings.{SETTINGS}")
    assert kinds(release) == after
