"""The chart's Secrets are filled once, whoever comes first, and what is in them is kept."""

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from ballast.base.errors import BallastError
from ballast.cli.credentials import leave
from ballast.cluster import credentials
from ballast.cluster.client import KubeApi
from ballast.cluster.write import Result, Write, WriteOutcome
from ballast.cluster.writer import Writer

HOSTS = ("localhost", "ballast-extender.ballast.svc")


class Secret:
    """One Secret and its API; `between` is done between a read and the write after it."""

    def __init__(self, between: Callable[[], None] = lambda: None) -> None:
        self.data: dict[str, str] = {}
        self.version, self.writes, self.between = 1, 0, between
        self.answer = Result.DONE

    def get(self, path: str) -> bytes:
        assert path == "/api/v1/namespaces/ballast/secrets/one"
        data = {"data": self.data} if self.data else {}
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}} | data).encode()

    def submit(self, write: Write) -> WriteOutcome:
        between, self.between = self.between, lambda: None
        between()
        if self.answer is not Result.DONE:
            return WriteOutcome(write, self.answer, "secrets is forbidden")
        if write.body["metadata"]["resourceVersion"] != str(self.version):
            return WriteOutcome(write, Result.CONFLICT, "changed meanwhile")
        assert not write.leader_only, "a replica that does not lead starts too"
        self.data |= write.body["data"]
        self.version, self.writes = self.version + 1, self.writes + 1
        return WriteOutcome(write, Result.DONE)

    def fill(self, make: Callable[[], dict[str, bytes]] = credentials.token) -> dict[str, bytes]:
        return credentials.fill(cast(KubeApi, self), cast(Writer, self), "ballast", "one", make)


def test_the_first_pod_makes_it_and_the_next_ones_read_it() -> None:
    secret = Secret()
    made = secret.fill()
    assert secret.fill() == made == {"token": base64.b64decode(secret.data["token"])}
    assert (secret.writes, len(made["token"])) == (1, 40)
    assert made["token"].decode().replace("-", "").replace("_", "").isalnum(), "a URL can hold it"


def test_two_pods_that_start_at_once_agree() -> None:
    secret, first = Secret(), list[dict[str, bytes]]()
    secret.between = lambda: first.append(secret.fill())
    assert secret.fill() == first[0]
    assert secret.writes == 1


def test_what_was_emptied_is_made_again_and_other_keys_stay() -> None:
    secret = Secret()
    secret.data = {"token": "", "mine": "eA=="}
    made = secret.fill()
    assert secret.data["mine"] == "eA=="
    assert base64.b64decode(secret.data["token"]) == made["token"]


def test_a_refused_write_and_a_secret_that_never_rests_are_told() -> None:
    secret = Secret()
    secret.answer = Result.FAILED
    with pytest.raises(BallastError, match="Secret ballast/one cannot be filled: secrets is forbidden"):
        secret.fill()
    secret.answer = Result.CONFLICT
    with pytest.raises(BallastError, match="changes faster"):
        secret.fill()


def test_openssl_believes_the_certificate(tmp_path: Path) -> None:
    with pytest.raises(BallastError, match="--host NAME"):
        credentials.certificate((), 1, datetime.now(UTC))
    files = Secret().fill(lambda: credentials.certificate(HOSTS, 30, datetime.now(UTC)))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    for wanted in (("-verify_hostname", HOSTS[1]), ("-verify_hostname", HOSTS[0]), ("-verify_ip", "127.0.0.1")):
        command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.crt", *wanted]
        subprocess.run([*command, "tls.crt"], cwd=tmp_path, check=True, capture_output=True)
    stranger = ["openssl", "verify", "-CAfile", "ca.crt", "-verify_hostname", "other", "tls.crt"]
    assert subprocess.run(stranger, cwd=tmp_path, check=False, capture_output=True).returncode
    later = str(int((datetime.now(UTC) + timedelta(days=31)).timestamp()))
    late = ["openssl", "verify", "-CAfile", "ca.crt", "-attime", later, "tls.crt"]
    assert subprocess.run(late, cwd=tmp_path, check=False, capture_output=True).returncode


def test_a_pod_whose_sandbox_is_made_anew_leaves_them_again() -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        if root:  # whom no mode of a file stops
            os.seteuid(65532)
        try:
            for content in (b"one", b"two"):
                leave(Path(folder) / "made", {"token": content})
        finally:
            if root:
                os.seteuid(0)
        file = Path(folder) / "made" / "token"
        assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"two", 0o440)
        assert [each.name for each in file.parent.iterdir()] == ["token"]
