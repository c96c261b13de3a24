"""The formats in which commands print their answer."""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
