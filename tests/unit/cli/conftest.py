from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from ballast.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ballast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line; gives the exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ballast", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run
