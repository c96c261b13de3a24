"""`scripts/affected` chooses every test that a change can reach, and all of them where it cannot tell."""

import shutil
import subprocess
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = "scripts/affected"
PROJECT = """[project.entry-points."ballast.commands"]
demo = "ballast_lab.cli:demo"
[tool.ruff]
line-length = 120
[tool.pytest]
"""
FILES = {
    "pyproject.toml": PROJECT,
    "Makefile": "test:\n",
    "docs/power.md": "# Power\n",
    "docs/taints.md": "# Taints\n",
    "charts/ballast/values.yaml": "a: 1\n",
    "odd.bin": "?\n",
    "daemon/ballast/__init__.py": "",
    "daemon/ballast/__main__.py": "from ballast.cli.main import main\n",
    "daemon/ballast/base.py": "ONE = 1\n",
    "daemon/ballast/ring.py": "from ballast.base import ONE\n",
    "daemon/ballast/fit.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ballast.ring import RING\n",
    "daemon/ballast/daemon.py": "from ballast.base import ONE\n",
    "daemon/ballast/page.py": "from pathlib import Path\nPAGE = Path(__file__).parent / 'page'\n",
    "daemon/ballast/page/app.js": "let a = 1;\n",
    "daemon/ballast/cli/__init__.py": "",
    "daemon/ballast/cli/lazy.py": "LAB = 'ballast.commands'\n",
    "daemon/ballast/cli/main.py": "def main() -> None:\n    from ballast.cli.app import COMMANDS\n",
    "daemon/ballast/cli/app.py": (
        "import ballast.cli.lazy\n"
        "COMMANDS = {'run': ('ballast.daemon:run', 'Runs.'), 'fit': ('ballast.fit:fit', 'Fits.')}\n"
    ),
    "lab/ballast_lab/__init__.py": "",
    "lab/ballast_lab/cli.py": "",
    "lab/lab_tests/test_lab.py": "import ballast_lab\n",
    "tests/conftest.py": "",
    "tests/worlds.py": "from ballast.base import ONE\n",
    "tests/power/conftest.py": "import ballast.fit\n",
    "tests/power/test_power.py": "PAGE = ROOT / 'docs' / 'power.md'\n",
    "tests/unit/test_base.py": "from tests.worlds import ONE\n",
    "tests/unit/test_ring.py": "from ballast.ring import ONE\n",
    "tests/unit/test_patched.py": "patch('ballast.ring.ONE', 2)\n",
    "tests/unit/test_docs.py": "PAGES = (ROOT / 'docs').rglob('*.md')\n",
    "tests/unit/test_page.py": "from ballast.page import PAGE\n",
    "tests/unit/test_chart.py": "CHART = ROOT / 'charts' / 'ballast'\n",
    "tests/unit/test_run.py": "COMMAND = [sys.executable, '-m', 'ballast', 'run']\n",
    "tests/unit/test_demo.py": "COMMAND = [sys.executable, '-m', 'ballast', 'demo']\n",
}
ALL = sorted(name for name in FILES if "/test_" in name)


class Checkout:
    """A small project in git, with the script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        command = ["git", *who, "-c", "commit.gpgsign=false", *arguments]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a", "--no-verify")
        return self.git("rev-parse", "HEAD")

    def affected(self, *base: str) -> tuple[list[str], str]:
        """The files, and why."""
        done = subprocess.run([self.folder / SCRIPT, *base], capture_output=True, text=True, check=True)
        return done.stdout.split(), done.stderr


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Checkout(tmp_path_factory.mktemp("project"))
    made.write({**FILES, SCRIPT: (ROOT / SCRIPT).read_text()})
    (made.folder / SCRIPT).chmod(0o755)
    made.git("init", "--quiet")
    made.commit()
    return made.folder


@pytest.fixture
def checkout(template: Path, tmp_path: Path) -> Checkout:
    return Checkout(shutil.copytree(template, tmp_path / "project"))


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        ("daemon/ballast/ring.py", ["unit/test_patched", "unit/test_ring"]),
        ("daemon/ballast/fit.py", ["power/test_power"]),
        ("daemon/ballast/daemon.py", ["unit/test_run"]),
        ("daemon/ballast/page/app.js", ["unit/test_page"]),
        ("docs/power.md", ["power/test_power", "unit/test_docs"]),
        ("docs/taints.md", ["unit/test_docs"]),
        ("charts/ballast/values.yaml", ["unit/test_chart"]),
        ("tests/power/conftest.py", ["power/test_power"]),
        ("tests/unit/test_ring.py", ["unit/test_ring"]),
        ("tests/worlds.py", ["unit/test_base"]),
    ],
)
def test_what_imports_or_names_a_changed_file_is_chosen(checkout: Checkout, changed: str, reached: list[str]) -> None:
    checkout.write({changed: FILES[changed] + "\n"})
    tests, why = checkout.affected("HEAD")
    assert tests == [f"tests/{name}.py" for name in reached]
    assert f"{len(reached)} of {len(ALL)} test files: changed since" in why
    assert changed in why
    checkout.commit()
    assert checkout.affected("HEAD~")[0] == tests
    assert checkout.affected("HEAD")[0] == []


def test_base_reaches_what_imports_it_through_others_and_what_is_started(checkout: Checkout) -> None:
    checkout.write({"daemon/ballast/base.py": "ONE = 2\n"})
    assert checkout.affected("HEAD")[0] == [f"tests/unit/test_{name}.py" for name in ("base", "patched", "ring", "run")]


def test_a_command_of_the_lab_is_reached_by_its_entry_point(checkout: Checkout) -> None:
    checkout.write({"lab/ballast_lab/cli.py": "A = 1\n"})
    assert checkout.affected("HEAD")[0] == ["tests/unit/test_demo.py"]


def test_what_a_link_leads_to_is_named_by_the_place_of_the_link_too(checkout: Checkout) -> None:
    (checkout.folder / "charts" / "ballast" / "pages").symlink_to("../../docs", target_is_directory=True)
    checkout.commit()
    checkout.write({"docs/taints.md": "# Other\n"})
    assert checkout.affected("HEAD")[0] == ["tests/unit/test_chart.py", "tests/unit/test_docs.py"]


def test_new_files_count_although_git_does_not_track_them(checkout: Checkout) -> None:
    checkout.write({"tests/unit/test_new.py": ""})
    assert checkout.affected("HEAD")[0] == ["tests/unit/test_new.py"]


def _removed(one: Checkout) -> None:
    (one.folder / "docs" / "power.md").unlink()


def _renamed(one: Checkout) -> None:
    one.git("mv", "docs/power.md", "docs/watts.md")


def _unknown(one: Checkout) -> None:
    one.write({"odd.bin": "!\n"})


def _unknown_kind(one: Checkout) -> None:
    one.write({"daemon/ballast/page/new.wasm": "?"})


def _without_git(one: Checkout) -> None:
    shutil.rmtree(one.folder / ".git")


def _broken(one: Checkout) -> None:
    one.write({"daemon/ballast/ring.py": "def (\n"})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_removed, "docs/power.md was removed, renamed or changed its kind"),
        (_renamed, "docs/power.md was removed, renamed or changed its kind"),
        (_unknown, "no code names odd.bin"),
        (_unknown_kind, "daemon/ballast/page/new.wasm is of a kind that was not there before"),
        (_without_git, "git"),
        (_broken, "invalid syntax"),
    ],
)
def test_what_cannot_be_placed_chooses_everything(checkout: Checkout, spoil: Any, why: str) -> None:
    spoil(checkout)
    tests, said = checkout.affected("HEAD")
    assert tests == ALL
    assert f"{len(ALL)} of {len(ALL)} test files: everything, because" in said
    assert why in said


@pytest.mark.parametrize("name", ["Makefile", SCRIPT])
def test_what_decides_how_tests_run_chooses_everything(checkout: Checkout, name: str) -> None:
    checkout.write({name: (checkout.folder / name).read_text() + "\n"})
    assert checkout.affected("HEAD") == (
        ALL,
        f"{len(ALL)} of {len(ALL)} test files: everything, because {name} decides how every test runs\n",
    )


@pytest.mark.parametrize(("before", "after", "everything"), [("120", "99", False), ("[tool.pytest]", "[a]", True)])
def test_settings_of_linters_reach_no_test(checkout: Checkout, before: str, after: str, everything: bool) -> None:
    checkout.write({"pyproject.toml": PROJECT.replace(before, after)})
    assert checkout.affected("HEAD")[0] == (ALL if everything else [])


def test_a_commit_that_is_not_there_chooses_everything(checkout: Checkout) -> None:
    tests, said = checkout.affected("no-such-commit")
    assert tests == ALL
    assert "everything, because git rev-parse" in said


def test_on_a_branch_the_base_is_where_it_left_main(checkout: Checkout) -> None:
    checkout.git("checkout", "--quiet", "-b", "mine")
    checkout.write({"daemon/ballast/ring.py": "A = 1\n"})
    checkout.commit()
    assert checkout.affected()[0] == ["tests/unit/test_patched.py", "tests/unit/test_ring.py"]


def test_on_main_the_base_is_what_was_verified(checkout: Checkout) -> None:
    tests, said = checkout.affected()
    assert tests == ALL
    assert "it is unknown where this branch left main, and .ci/verified is missing" in said
    checkout.write({".ci/verified": checkout.git("rev-parse", "HEAD") + "\n", "docs/taints.md": "# Other\n"})
    assert checkout.affected()[0] == ["tests/unit/test_docs.py"]
    checkout.commit()
    assert checkout.affected()[0] == ["tests/unit/test_docs.py"]


@pytest.mark.parametrize("commit", ["0" * 40, "", "not a commit"])
def test_a_verified_commit_that_is_no_ancestor_chooses_everything(checkout: Checkout, commit: str) -> None:
    checkout.write({".ci/verified": commit})
    tests, said = checkout.affected()
    assert tests == ALL
    assert "in .ci/verified is no ancestor of this one" in said


@pytest.mark.slow
def test_every_file_of_the_project_has_a_place() -> None:
    loader = SourceFileLoader("affected", str(ROOT / SCRIPT))
    spec = spec_from_loader("affected", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    tree = module.Tree(module.git("ls-files", "-z").split("\0")[:-1])
    assert [file for file in tree.files if not module.is_code(file) and not tree.readers(file)] == []
    assert tree.reach("tests/unit/cli/test_run.py") >= {
        "daemon/ballast/runtime/daemon.py",
        "tests/conftest.py",
        "lab/ballast_lab/simulator/__init__.py",
    }
    assert "daemon/ballast/doctor/__init__.py" not in tree.reach("tests/unit/windows/test_ring.py")
