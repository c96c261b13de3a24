"""The formats in which commands print their answer."""

import json
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer


class Output(StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    JSON = "json"


class LiveOutput(StrEnum):
    """The values of `--output` of commands that look at a running Ballast."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"

    def text(self, answer: Any, table: Callable[[], str], *, indent: int | None = None) -> str:
        """`answer` in this format; `table` makes the one for people."""
        if self is LiveOutput.TABLE:
            return table()
        if self is LiveOutput.JSON:
            return json.dumps(answer, indent=indent, allow_nan=False)
        import yaml

        dumped: str = yaml.safe_dump(answer, sort_keys=False, allow_unicode=True)
        return dumped.rstrip()


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
LiveOutputOption = Annotated[LiveOutput, typer.Option("--output", "-o", help="Output format.")]


def paint(text: str, colour: str) -> str:
    """In that colour on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    shows = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return typer.style(text, fg=colour) if shows else text
