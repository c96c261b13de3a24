"""Command lines run in this process."""

import sys
from collections.abc import Callable

import pytest

from ballast.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def status(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a command line; gives the exit status."""

    def run(*arguments: object) -> int:
        monkeypatch.setattr(sys, "argv", ["ballast", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


@pytest.fixture
def ballast(status: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; gives the exit status, stdout and stderr."""
    return lambda *arguments: (status(*arguments), *capsys.readouterr())
