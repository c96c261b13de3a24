"""What keeps the code readable: one idea a file, few parameters, one class per name. Ruff checks complexity."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import ballast

ROOT = Path(ballast.__file__).parent
LINES, PARAMETERS = 600, 8


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for file in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                yield f"{file.relative_to(ROOT)}: {node.name}", node


def test_no_file_has_two_ideas() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in ROOT.rglob("*.py")}
    assert {name: lines for name, lines in lengths.items() if lines > LINES} == {}


def test_no_constructor_takes_many_parameters() -> None:
    taken = {
        name: len(method.args.args) + len(method.args.kwonlyargs) - 1
        for name, node in classes()
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    }
    assert {name: count for name, count in taken.items() if count > PARAMETERS} == {}


def test_a_class_name_stands_for_one_thing() -> None:
    forms = {"Node": 3, "Pod": 2, "Scores": 2}  # the model's or the core's, Kubernetes' and the API's
    counts = Counter(node.name for _, node in classes())
    assert {name: count for name, count in counts.items() if count > 1} == forms
