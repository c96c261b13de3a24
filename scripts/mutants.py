"""Mutants of two kinds: those of the rules of safety in safety_mutants.diff, and simple ones of any text of Python.

The table is like a diff. `---` names a file and `+++` the tests that notice, for all that follows; `@@` gives a name
and the rule. Lines with `-` are broken by those with `+`, those with a space stay. All but those with `+` stand once.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TREE = Path(__file__).resolve().parent.parent
TABLE = TREE / "scripts" / "safety_mutants.diff"


class Mutant(NamedTuple):
    """`after` in the place of `before`, both whole lines of `file`, breaks the `rule`; `tests` are files or folders."""

    name: str
    rule: str
    file: str
    tests: tuple[str, ...]
    before: str
    after: str

    def stands(self) -> bool:
        """Whether the lines to break are there, once."""
        path = TREE / self.file
        return path.is_file() and f"\n{path.read_text()}".count(f"\n{self.before}") == 1

    def broken(self) -> str:
        """The text of the file without the rule."""
        return f"\n{(TREE / self.file).read_text()}".replace(f"\n{self.before}", f"\n{self.after}").removeprefix("\n")


def read(table: str) -> list[Mutant]:
    mutants: list[Mutant] = []
    file, tests = "", ("",)
    for line in table.splitlines(keepends=True):
        sign, rest = line[:1], line[1:]
        if line.startswith("--- "):
            file = line.split()[1]
        elif line.startswith("+++ "):
            tests = tuple(line.split()[1:])
        elif line.startswith("@@ "):
            name, _, rule = line.removeprefix("@@ ").rstrip().partition(": ")
            mutants.append(Mutant(name, rule, file, tests, "", ""))
        else:
            last = mutants[-1]
            before, after = last.before + rest * (sign in "- "), last.after + rest * (sign in "+ ")
            mutants[-1] = last._replace(before=before, after=after)
    return mutants


MUTANTS = read(TABLE.read_text())


EDGES = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
OPPOSITE = EDGES | {after: before for before, after in EDGES.items()}
OPPOSITE |= {ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
OPPOSITE |= {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
PASSED_OVER = ("annotation", "returns", "decorator_list", "bases", "exc")
"""Fields of nodes: what they hold decides nothing, or is for people."""

OTHER_NAME = {"min": "max", "max": "min", "all": "any", "any": "all"}


def simple(text: str) -> Iterator[tuple[ast.expr, str, str]]:
    """The expression that is broken, what stands in its place, and the whole text."""
    lines, raw = [0], text.encode()
    for line in raw.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node, others in worth_breaking(ast.parse(text)):
        begin, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
        for other in others:
            yield node, other, (raw[:begin] + other.encode() + raw[end:]).decode()


def worth_breaking(node: ast.AST) -> Iterator[tuple[ast.expr, list[str]]]:
    """Expressions with what may stand in their place; none in annotations, decorators or words for people."""
    if isinstance(node, ast.If):
        yield node.test, ["False"]
    if isinstance(node, ast.comprehension):
        yield from ((test, ["True"]) for test in node.ifs)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield node.value, ["None"]
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or name in PASSED_OVER or isinstance(child, ast.JoinedStr | ast.Assert):
                continue
            if isinstance(child, ast.expr) and (others := list(opposites(child))):
                yield child, others
            yield from worth_breaking(child)


def opposites(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left, ops, rights):
            for place, op in enumerate(ops):
                if type(op) in OPPOSITE:
                    others = [*ops[:place], OPPOSITE[type(op)](), *ops[place + 1 :]]
                    yield f"({ast.unparse(ast.Compare(left, others, rights))})"
        case ast.BoolOp(op, values):
            yield f"({ast.unparse(ast.BoolOp(OPPOSITE[type(op)](), values))})"
            for place in range(len(values)):
                yield f"({ast.unparse(ast.BoolOp(op, [*values[:place], *values[place + 1 :]]))})"
        case ast.BinOp(left, op, right) if type(op) in OPPOSITE:
            yield f"({ast.unparse(ast.BinOp(left, OPPOSITE[type(op)](), right))})"
            yield from (f"({ast.unparse(side)})" for side in (left, right) if isinstance(op, ast.BitAnd | ast.BitOr))
        case ast.UnaryOp(ast.Not() | ast.Invert(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int(value) | float(value)):
            yield str(value + 1)
        case ast.Name(name) if name in OTHER_NAME:
            yield OTHER_NAME[name]
        case ast.IfExp(_, body, orelse):
            yield f"({ast.unparse(body)})"
            yield f"({ast.unparse(orelse)})"
