"""Every command line of the documentation is one that the program accepts."""

import re
import shlex
from typing import Any

import pytest
from typer.main import get_command

from ballast.cli.app import app
from ballast.cli.lazy import LazyCommand
from ballast.settings.model import VARIABLES
from tests.unit.docs.pages import NAMES, ROOT, blocks

SHELL = ("sh", "bash", "shell", "console")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ENDS = {"|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "2>&1", ")"}


def lines(block: str) -> list[str]:
    """The commands of a block, without prompts, comments and output."""
    joined = block.replace("\\\n", " ")
    prompted = [line.strip()[2:] for line in joined.splitlines() if line.strip().startswith("$ ")]
    return prompted or [
        line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#")
    ]


def calls(line: str) -> list[list[str]]:
    """The simple commands of a line, as words; assignments before a command are left out."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words = list(lexer)
    except ValueError:
        return []
    found: list[list[str]] = [[]]
    skip = False
    for word in words:
        if word in ENDS or set(word) <= set("|&;<>()"):
            skip = set(word) <= {">", "<"}
            if not skip:
                found.append([])
        elif skip:
            skip = False
        elif found[-1] or not re.match(r"[A-Za-z_]\w*=", word):
            found[-1].append(word)
    return [call for call in found if call]


def all_calls(name: str) -> list[list[str]]:
    return [call for block in blocks(name, *SHELL) for line in lines(block) for call in calls(line)]


def problem(words: list[str]) -> str | None:
    """Why the program would refuse these words before it runs; None if it would not."""
    command: Any = get_command(app)
    path = "ballast"
    words = list(words)
    while hasattr(command, "list_commands"):
        context = command.make_context(path, [], resilient_parsing=True)
        while words and words[0].startswith("-"):
            option = next((each for each in command.get_params(context) if words[0] in each.opts), None)
            if option is None:
                return f"{path}: no option {words[0]}"
            words = words[1 if option.is_flag else 2 :]
        if not words or words[0] in ("…", "..."):
            return None
        found = command.get_command(context, words[0])
        if found is None:
            return f"{path}: no command {words[0]}"
        path, words = f"{path} {words[0]}", words[1:]
        command = found.loaded() if isinstance(found, LazyCommand) else found
    options = {option: each for each in command.params for option in (*each.opts, *each.secondary_opts)}
    options |= dict.fromkeys(("-h", "--help"))
    for word in words:
        option = word.partition("=")[0]
        if option.startswith("-") and option not in options and not re.fullmatch(r"-\d+(\.\d+)?", option):
            return f"{path}: no option {option}"
    return None


@pytest.mark.parametrize("name", NAMES)
def test_every_command_exists_with_its_options(name: str) -> None:
    found = []
    for call in all_calls(name):
        program = call[0].rpartition("/")[2]
        if program == "kubectl" and call[1:2] == ["ballast"]:
            found.append(problem(call[2:]))
        elif program == "ballast":
            found.append(problem(call[1:]))
        elif program == "make":
            goals = [word for word in call[1:] if "=" not in word and not word.startswith("-")]
            found += [f"make: no goal {goal}" for goal in goals if not re.search(rf"^{goal}:", MAKEFILE, re.MULTILINE)]
            given = [word.partition("=")[2] for word in call[1:] if word.startswith("ARGS=")]
            if goals == ["demo"]:
                found += [problem(["demo", *shlex.split(arguments)]) for arguments in given]
    assert [each for each in found if each] == []


def test_the_parser_of_this_test_finds_what_is_wrong() -> None:
    assert calls("A=1 ballast plan relieve --live > x.json | jq . && make demo # now") == [
        ["ballast", "plan", "relieve", "--live"],
        ["jq", "."],
        ["make", "demo"],
    ]
    assert problem(["plan", "relieve", "--live"]) is None
    assert problem(["plan", "relive"]) == "ballast plan: no command relive"
    assert problem(["status", "--address", "x"]) == "ballast status: no option --address"
    assert problem(["stat"]) == "ballast: no command stat"
    assert any(call[:2] == ["ballast", "status"] for call in all_calls("docs/operate.md"))


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_that_is_named_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w$])BALLAST_[A-Z0-9]+__[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_{*])", text))
    assert sorted(named - set(VARIABLES) - OTHERS) == []


OTHERS = frozenset[str]()
