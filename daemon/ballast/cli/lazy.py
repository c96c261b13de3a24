"""Commands that are imported when they are called, so that help and completion do not import the daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, cast

import typer
from typer import BadParameter
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from typer._click import Command, Context

from ballast.base.errors import UsageError
from ballast.base.text import nearest

HELP_NAMES = ["-h", "--help"]
LAB = "ballast.commands"
"""The entry points that the package `ballast_lab` brings."""


def load_command(name: str) -> Any:
    """The command that the lab brings under this name, imported; raises UsageError where it is not installed."""
    try:
        [point] = entry_points(group=LAB, name=name)
        return point.load()
    except (ValueError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] != "ballast_lab":
            raise
        raise UsageError(
            f"The command {name} needs the package ballast_lab, which is not installed here; the image leaves it out. "
            "Install both on your machine: pip install kube-ballast"
        ) from None


class LazyCommand(TyperCommand):
    """Stands for a command in lists. Parsing its arguments imports it."""

    def __init__(self, name: str, target: str, help_text: str) -> None:
        super().__init__(name, short_help=help_text)
        self._target = target

    def make_context(self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any) -> Any:
        """The context of the command itself."""
        return self.loaded().make_context(info_name, args, parent, **extra)

    def loaded(self) -> Command:
        """The command, imported."""
        module, _, place = self._target.partition(":")
        attribute, _, member = place.partition("/")
        command = load_command(attribute) if module == LAB else getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            command.rich_markup_mode, command._add_completion = None, False
            whole = get_command(command)
            return cast(TyperGroup, whole).commands[member] if member else whole
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(self.name)(cast(Callable[..., Any], command))
        return get_command(alone)


class LazyGroup(TyperGroup):
    """A group with `lazy` commands: the name, then where it is and the description of each.

    It is `module:attribute` of a function or a group, `module:attribute/name` of a command in a group, or
    `ballast.commands:name` of an entry point.
    """

    lazy: ClassVar[Mapping[str, tuple[str, str]]] = {}
    rest: ClassVar[str] = ""
    """`module:attribute` of a group with further commands. Lists do not show them."""

    def list_commands(self, ctx: Context) -> list[str]:
        """All names, those of the table first."""
        return [*self.lazy, *(name for name in super().list_commands(ctx) if name not in self.lazy)]

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        """As in typer, which knows no lazy commands to suggest."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}. {nearest(args[0], self.list_commands(ctx))}".rstrip())
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Context) -> Any:
        """As in typer, which does not say which choice was meant."""
        try:
            return super().invoke(ctx)
        except BadParameter as error:
            _name_choices(error)
            raise

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The command of this name; not imported yet if it is in the table."""
        if cmd_name in self.lazy:
            return LazyCommand(cmd_name, *self.lazy[cmd_name])
        if self.rest:
            whole = cast(TyperGroup, LazyCommand(cmd_name, self.rest, "").loaded())
            return whole.commands.get(cmd_name)
        return super().get_command(ctx, cmd_name)


def _name_choices(error: BadParameter) -> None:
    choices = getattr(getattr(error.param, "type_descriptor", None), "choices", None)
    problems = getattr(error.__cause__, "errors", None)
    if choices and problems is not None:
        typed = str(problems()[0]["input"])
        names = [str(choice.value if isinstance(choice, Enum) else choice) for choice in choices]
        error.message = f"{typed!r} is not one of {', '.join(names)}. {nearest(typed, names)}".rstrip()


def group(commands: Mapping[str, tuple[str, str]], rest: str = "", **options: Any) -> typer.Typer:
    """A group of lazy commands, given as `LazyGroup.lazy` and `LazyGroup.rest`."""
    kind = type("Commands", (LazyGroup,), {"lazy": commands, "rest": rest})
    settings = {"help_option_names": HELP_NAMES}
    group = typer.Typer(cls=kind, no_args_is_help=True, rich_markup_mode=None, context_settings=settings, **options)
    group.callback()(_nothing)
    return group


def _nothing() -> None:
    return None
