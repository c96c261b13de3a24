"""A throw-away authority: the API server's certificate and the key that signs ServiceAccount tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True)
class Certificates:
    ca: Path
    server: Path
    server_key: Path
    account_key: Path

    @classmethod
    def issue(cls, folder: Path) -> Certificates:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        server = authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
        made = cls(folder / "ca.pem", folder / "server.pem", folder / "server.key", folder / "account.key")
        authority.cert_pem.write_to_path(made.ca)
        made.server.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
        server.private_key_pem.write_to_path(made.server_key)
        authority.issue_cert("accounts", key_type=trustme.KeyType.RSA).private_key_pem.write_to_path(made.account_key)
        return made
