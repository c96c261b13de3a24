"""Kubeconfig files: one user with a token."""

from __future__ import annotations

from pathlib import Path

import yaml


def write_kubeconfig(path: Path, *, url: str, ca: Path, token: str, namespace: str = "default") -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
        "current-context": "test",
    }
    path.write_text(yaml.safe_dump(document))
    path.chmod(0o600)
    return path
