import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from ballast.cli import groups
from ballast.cli.app import app
from ballast.cli.lazy import LazyCommand
from ballast.cli.main import main
from ballast_lab.cli import experiment
from ballast_lab.harness.waiting import HUNG

HEAVY = (
    "apscheduler",
    "kubernetes",
    "numpy",
    "prometheus_api_client",
    "prometheus_client",
    "pydantic_settings",
    "requests",
    "scipy",
    "starlette",
    "structlog",
    "urllib3",
    "uvicorn",
    "yaml",
)
DAEMON = ("ballast.cluster", "ballast.telemetry", "ballast.serving", "ballast.runtime", "ballast.extender")


def imported_by(*arguments: str) -> set[str]:
    """The modules in memory after one command line."""
    code = (
        "import json, sys\n"
        "from ballast.cli.main import main\n"
        f"sys.argv = ['ballast', *{list(arguments)!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HUNG)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--help", "-h", "--version", "plan -h", "power -h", "experiment -h"])
def test_help_imports_nothing_of_the_daemon(arguments: str) -> None:
    found = imported_by(*arguments.split())
    assert sorted(found & {*HEAVY, *DAEMON}) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["status", "top"])
def test_live_commands_import_no_client_of_kubernetes(command: str) -> None:
    found = imported_by(command, "--url", "http://127.0.0.1:1")
    assert "requests" in found
    unused = {"numpy", "scipy", "kubernetes", "uvicorn", "pydantic_settings", "ballast.cluster", "ballast.runtime"}
    assert sorted(found & unused) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["profile labels", "profile extender", "config show"])
def test_a_command_about_settings_imports_these_alone(command: str) -> None:
    found = imported_by(*command.split())
    assert "pydantic_settings" in found
    assert not found & {"numpy", "scipy", "kubernetes", "uvicorn", "requests", "ballast.runtime", "ballast.serving"}


@pytest.mark.slow
def test_the_daemon_imports_no_library_that_no_setting_needs() -> None:
    code = "import json, sys, ballast.cli.run, ballast.runtime.daemon; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HUNG)
    imported = set(json.loads(done.stdout))
    assert {"numpy", "uvicorn", "prometheus_api_client"} <= imported
    unused = {"scipy", "pandas", "matplotlib", "dateparser", "regex", "pytz", "joblib", "pyarrow", "typer"}
    assert sorted(imported & (unused | {"ballast.doctor", "ballast.cli.planning", "ballast_lab"})) == []
    assert not [name for name in imported if name.startswith("kubernetes.client.models.")]


def lazy_commands(group: typer.Typer, path: str = "") -> Iterator[tuple[str, LazyCommand]]:
    whole = get_command(group)
    context = whole.make_context("ballast", [], resilient_parsing=True)
    for name in whole.list_commands(context):  # type: ignore[attr-defined]
        command = whole.get_command(context, name)  # type: ignore[attr-defined]
        if isinstance(command, LazyCommand):
            yield f"{path}{name}", command


GROUPS = {"plan": groups.plan, "power": groups.power, "experiment": experiment.app}
ALL = dict(lazy_commands(app)) | {
    path: command for name, group in GROUPS.items() for path, command in lazy_commands(group, f"{name} ")
}


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_list_describes_a_command_as_its_own_help_does(name: str) -> None:
    command = ALL[name]
    loaded = command.loaded()
    assert " ".join((loaded.help or "").split()).startswith(command.short_help.rstrip("."))


@pytest.mark.parametrize("name", ["plan", "power"])
def test_a_lazy_group_has_every_command(name: str) -> None:
    real = import_module(getattr(groups, name.upper()).partition(":")[0]).app
    listed = {path.partition(" ")[2] for path in ALL if path.startswith(f"{name} ")}
    there = set(get_command(real).commands)  # type: ignore[attr-defined]
    assert listed - {"place", "pledge"} == there, "place is a command of the lab, and pledge imports less"
    lazy = get_command(GROUPS[name])
    context = lazy.make_context(name, [], resilient_parsing=True)
    assert [command for command in there if lazy.get_command(context, command) is None] == []  # type: ignore[attr-defined]
    assert lazy.get_command(context, "none-such") is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_command_knows_the_short_option_of_help(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "-h"], prog_name="ballast")
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: ballast {name} ")
    assert "-h, --help" in result.output


@pytest.mark.parametrize(("typed", "expected"), [("ballast st", "status"), ("ballast plan reb", "rebalance")])
def test_the_shell_completes_names(typed: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['ballast']; from ballast.cli.main import main; main()"],
        env={
            **os.environ,
            "_BALLAST_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(typed.count(" ")),
        },
        capture_output=True,
        text=True,
        timeout=HUNG,
        check=False,
    )
    assert done.stdout.split() == [expected]


def test_completion_can_be_installed() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"]).output


def test_the_version_is_a_command_too() -> None:
    told = [CliRunner().invoke(app, [word]).output for word in ("version", "--version")]
    assert told[0] == told[1]


@pytest.mark.parametrize("command", ["", "plan", "plan relieve", "config check", "help", "experiment"])
def test_help_of_a_command_is_what_the_command_says_of_itself(command: str) -> None:
    told, own = (
        CliRunner().invoke(app, words, prog_name="ballast")
        for words in (["help", *command.split()], [*command.split(), "--help"])
    )
    assert (told.exit_code, told.output) == (0, own.output)


def test_help_of_what_is_no_command_names_the_nearest() -> None:
    result = CliRunner().invoke(app, ["help", "pln"])
    assert result.exit_code == 2
    assert "Did you mean plan" in result.output


@pytest.mark.parametrize(
    ("shell", "line"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --command")]
)
def test_a_completion_is_printed_for_each_shell(shell: str, line: str) -> None:
    result = CliRunner().invoke(app, ["completion", shell], prog_name="ballast")
    assert result.exit_code == 0
    assert line in result.output
    assert "_BALLAST_COMPLETE=complete_" in result.output


def test_a_plugin_of_kubectl_is_named_as_it_is_called() -> None:
    code = "import sys; sys.argv = ['/bin/kubectl-ballast', '-h']; from ballast.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HUNG)
    assert done.stdout.startswith("Usage: kubectl ballast ")


@pytest.mark.parametrize("arguments", ["demo", "experiment windows", "plan place", "rehearse"])
def test_where_the_lab_is_missing_a_sentence_says_how_to_get_it(
    arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ballast.cli.lazy.entry_points", lambda **_: ())
    monkeypatch.setattr(sys, "argv", ["ballast", *arguments.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    name = arguments.split()[-1 if arguments.startswith("plan") else 0]
    assert f"The command {name} needs the package ballast_lab" in capsys.readouterr().err


@pytest.mark.parametrize(("typed", "meant"), [("statsu", "status"), ("reprot", "report"), ("rsume", "resume")])
def test_a_mistyped_command_is_answered_with_the_one_that_was_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(app, [typed])
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean {meant}" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("plan place --solver genetik", "genetic"),
        ("demo --scene hotspt", "hotspot"),
        ("status -o jsn", "json"),
        ("pause evicton", "eviction"),
        ("power replay -o jsn", "json"),
        ("profile extendr", "extender"),
        ("doctor --only prometeus", "prometheus"),
    ],
)
def test_a_mistyped_choice_is_answered_with_the_one_that_was_meant(
    arguments: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ballast", *arguments.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert f"Did you mean {meant}" in capsys.readouterr().err


def test_a_choice_that_is_near_to_none_is_answered_with_all() -> None:
    result = CliRunner().invoke(app, ["pause", "everything"])
    assert "'everything' is not one of publishing, power, eviction, batch.\n" in result.stderr
