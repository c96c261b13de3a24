"""What callers of the extender show and what the daemon serves TLS with, made once and kept in two Secrets.

The chart renders the Secrets empty, so that each rendering is the same; the first pod that starts fills them.
"""

import base64
import ipaddress
import json
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ballast.base.errors import BallastError
from ballast.cluster.client import KubeApi
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteTarget, object_path
from ballast.cluster.writer import Writer

TOKEN = "token"  # noqa: S105
CERTIFICATE = ("ca.crt", "tls.crt", "tls.key")
TOKEN_BYTES = 30
SKEW = timedelta(hours=1)
"""A certificate counts from this long before it was made: clocks differ."""
_TRIES = 5


def fill(
    api: KubeApi, writer: Writer, namespace: str, name: str, make: Callable[[], dict[str, bytes]]
) -> dict[str, bytes]:
    """What Secret `name` holds under the keys that `make` returns; where one is missing all are made, for all pods.

    Raises ClusterError where the Secret cannot be read, BallastError where it cannot be changed.
    """
    path = object_path(f"/api/v1/namespaces/{namespace}/secrets", name)
    made = make()
    for _ in range(_TRIES):
        secret = json.loads(api.get(path))
        held = {key: base64.b64decode(text) for key, text in (secret.get("data") or {}).items()}
        if all(held.get(key) for key in made):
            return {key: held[key] for key in made}
        body = {
            # Two pods may start at once: the second one's version is old by then, and it takes what the first one made.
            "metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]},
            "data": {key: base64.b64encode(value).decode() for key, value in made.items()},
        }
        write = Write(
            kind="credentials",
            part=None,
            method="PATCH",
            path=path,
            target=WriteTarget("Secret", name, namespace),
            reason="made once, and kept",
            body=body,
            content_type=MERGE_PATCH,
            leader_only=False,
        )
        outcome = writer.submit(write)
        if outcome.result is not Result.CONFLICT and not outcome.done:
            raise BallastError(f"Secret {namespace}/{name} cannot be filled: {outcome.reason}")
    raise BallastError(f"Secret {namespace}/{name} changes faster than it can be filled; try again")


def token() -> dict[str, bytes]:
    """A token that a URL can hold."""
    return {TOKEN: secrets.token_urlsafe(TOKEN_BYTES).encode()}


def certificate(hosts: Sequence[str], days: int, now: datetime) -> dict[str, bytes]:
    """An authority and a certificate of it for these names and 127.0.0.1, valid for `days`.

    The authority's key is not kept: nothing else can be signed with it.

    Raises BallastError without a name.
    """
    if not hosts:
        raise BallastError("a certificate needs a host name: --host NAME")
    key, authority_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _named("ballast-ca")
    authority = (
        _unsigned(issuer, issuer, authority_key, days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = [*map(x509.DNSName, hosts), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    own = (
        _unsigned(_named("ballast"), issuer, key, days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return dict(zip(CERTIFICATE, (authority.public_bytes(pem), own.public_bytes(pem), private), strict=True))


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(**wanted: bool) -> x509.KeyUsage:
    names = [
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ]
    return x509.KeyUsage(**{name: wanted.get(name, False) for name in names})
