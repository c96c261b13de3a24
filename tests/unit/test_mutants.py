"""The table of broken rules cannot rot, and breaking a file's lines breaks what it says."""

import ast

import pytest

from scripts.mutants import MUTANTS, TREE, Mutant, simple

NAMES = [mutant.name for mutant in MUTANTS]


def test_every_rule_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 30
    assert all(mutant.rule[0].isupper() and mutant.rule.endswith(".") for mutant in MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_line_that_holds_a_rule_stands_and_breaking_it_is_python(mutant: Mutant) -> None:
    assert mutant.stands(), (
        f"the lines of {mutant.name} are not in {mutant.file} once; mend scripts/safety_mutants.diff"
    )
    assert mutant.before != mutant.after
    ast.parse(mutant.broken())
    assert [test for test in mutant.tests if not (TREE / test).exists()] == []


def test_simple_mutants_break_conditions_numbers_and_calls_but_no_words() -> None:
    text = "def f(a: int = 1) -> str:\n    if a < 2 and not g(a):\n        h(a)\n    return f'{a + 1} of {2 * a}'\n"
    assert [(ast.unparse(node), after) for node, after, _ in simple(text)] == [
        ("1", "2"),
        ("a < 2 and (not g(a))", "False"),
        ("a < 2 and (not g(a))", "(a < 2 or not g(a))"),
        ("a < 2 and (not g(a))", "(not g(a))"),
        ("a < 2 and (not g(a))", "(a < 2)"),
        ("a < 2", "(a <= 2)"),
        ("2", "3"),
        ("not g(a)", "(g(a))"),
        ("h(a)", "None"),
    ]
    broken = [after for _, _, after in simple(text)]
    assert broken[5].splitlines()[1] == "    if (a <= 2) and not g(a):"
    assert all(ast.parse(each) for each in broken)
