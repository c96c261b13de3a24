"""Who this process is in the cluster."""

import os
import secrets
import socket
from pathlib import Path

_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def own_namespace(lease_namespace: str | None) -> str:
    """POD_NAMESPACE, else BALLAST_LEASE__NAMESPACE, else the service account's, else `default`."""
    return known_namespace(lease_namespace) or "default"


def known_namespace(lease_namespace: str | None) -> str | None:
    """As `own_namespace`, but None without any of these."""
    if namespace := os.environ.get("POD_NAMESPACE") or lease_namespace:
        return namespace
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text().strip() or None
    except OSError:
        return None


def own_identity() -> str:
    """A name unique to this process, even among restarts in one pod."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
