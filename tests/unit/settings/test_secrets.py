import os
from pathlib import Path

import pytest

from ballast.base.errors import SettingsError
from ballast.settings.secrets import SecretFile

VARIABLE = "BALLAST_PROMETHEUS__TOKEN_FILE"


def test_trailing_line_ends_are_no_part_of_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b" a b \r\n\n")
    assert SecretFile(path).read() == " a b "


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    secret = SecretFile(path)
    assert secret.read() == "one"
    path.write_text("longer")
    assert secret.read() == "longer"
    replaced = tmp_path / "new"
    replaced.write_text("second")
    os.utime(replaced, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    replaced.replace(path)
    assert secret.read() == "second"


def test_a_projected_volume_that_swaps_its_link_is_read_again(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "token").symlink_to("..data/token")
    secret = SecretFile(tmp_path / "token")
    assert secret.read() == "one"
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert secret.read() == "two"


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    secret, status = SecretFile(path), path.stat()
    assert secret.read() == "one"
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert secret.read() == "one"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"", "empty"), (b"\n", "empty"), (b"\xff\xfe", "UTF-8"), (b"a\nb", "one line"), (b"a\x00b", "one line")],
)
def test_a_file_without_a_usable_secret_is_refused_without_its_content(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=rf'{VARIABLE} is ".*token": expected .*{expected}'):
        SecretFile(path, VARIABLE).read()


def test_a_missing_file_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf'{VARIABLE} is ".*token": expected a readable file'):
        SecretFile(tmp_path / "token", VARIABLE).read()
