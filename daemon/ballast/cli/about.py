"""`ballast version`, `ballast help` and `ballast completion`."""

from enum import StrEnum
from typing import Annotated

import typer
from typer._completion_shared import get_completion_script

from ballast import __version__


class Shell(StrEnum):
    """Shells that complete commands and options."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def version() -> None:
    """Print the version."""
    typer.echo(f"ballast {__version__}")


def help_of(
    ctx: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Such as plan relieve.")] = None,
) -> None:
    """Show the help of a command."""
    root = ctx.find_root()
    root.command.main([*(command or ()), "--help"], prog_name=root.info_name)


def completion(
    ctx: typer.Context, shell: Annotated[Shell, typer.Argument(help="The shell that is to complete.")]
) -> None:
    """Print a script that completes commands and options: source <(ballast completion bash)."""
    name = ctx.find_root().info_name or "ballast"
    variable = f"_{name}_COMPLETE".replace("-", "_").replace(" ", "_").upper()
    typer.echo(get_completion_script(prog_name=name, complete_var=variable, shell=shell.value))
