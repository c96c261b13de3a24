from pathlib import Path

import pytest

from ballast.cluster import identity
from ballast.cluster.identity import own_identity, own_namespace


def test_the_namespace_comes_from_the_pod_then_the_setting_then_the_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "namespace"
    monkeypatch.setattr(identity, "_SERVICE_ACCOUNT_NAMESPACE", file)
    monkeypatch.setenv("POD_NAMESPACE", "of-the-pod")
    assert own_namespace("of-the-lease") == "of-the-pod"
    monkeypatch.delenv("POD_NAMESPACE")
    assert own_namespace("of-the-lease") == "of-the-lease"
    assert own_namespace(None) == "default"
    file.write_text("of-the-account")
    assert own_namespace(None) == "of-the-account"


def test_no_two_processes_share_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "ballast-0")
    one, two = own_identity(), own_identity()
    assert one.startswith("ballast-0_")
    assert one != two
