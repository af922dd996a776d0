"""The mutants of a source: each kind of fault, and what is left as it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.faults import Mutant, mutants
from tests.mutants.rules import EQUIVALENT, TESTS
from tests.mutants.session import ROOT


def of(body: str, *, head: str = "def f(a, b):") -> list[str]:
    """The changed lines of the mutants of one function."""
    source = "\n".join([head, *(f"    {line}" for line in body.split("\n")), ""])
    return [each.after.strip() for each in mutants("m.py", source)]


@pytest.mark.parametrize(
    ("body", "after"),
    [
        ("return a < b", ["return (a <= b)"]),
        ("return a >= b", ["return (a > b)"]),
        ("return a == b", ["return (a != b)"]),
        ("return a is b", ["return (a is not b)"]),
        ("return a not in b", ["return (a in b)"]),
        ("return a < b < a", ["return (a <= b < a)", "return (a < b <= a)"]),
        ("return a and b", ["return (a or b)"]),
        ("return not a", ["return a"]),
        ("return a + b", ["return (a - b)"]),
        ("return a // b", ["return (a * b)"]),
        ("return 7", ["return 8", "return 6"]),
        ("return True", ["return False"]),
        ("return max(a, b)", ["return (min(a, b))", "return a", "return b"]),
        ("return min(*a)", ["return (max(*a))"]),
        ("return a if b else 'é'", ["return a if (not (b)) else 'é'"]),
        ("while a:\n    break\nreturn b", ["while (not (a)):", "pass"]),
        ("if a:\n    return b\nreturn a", ["if (not (a)):", "pass"]),
        ("if a:\n    raise KeyError\nreturn a", ["if (not (a)):", "pass"]),
        ("a.append(b)\nreturn a", ["pass"]),
        ("a += b\nreturn a", ["pass"]),
        ("a.x = b\nreturn a", ["pass"]),
        ("del a[b]\nreturn a", ["pass"]),
        ("return lambda c: c < a", ["return lambda c: (c <= a)"]),
        ("é = 'é' if a < b else ''\nreturn é", ["é = 'é' if (a <= b) else ''"]),
    ],
)
def test_each_fault_is_made_once(body: str, after: list[str]) -> None:
    assert of(body) == after


@pytest.mark.parametrize(
    "body",
    [
        '"""About 3 things."""\nreturn a',
        "assert a < 3",
        'log.info("%d", 3)\nreturn a',
        "return f'{a + 1} of {b}'",
        "return zip(a, b, strict=True)",
        "return a + ', ' + b",
        "c: int | None = a\nreturn c",
    ],
)
def test_what_decides_nothing_stays(body: str) -> None:
    assert of(body) == []


def test_defaults_decorators_and_constants_of_the_module_stay() -> None:
    assert of("return a", head="LIMIT = 3\n@cache(3)\ndef f(a=3, *, b: int = 4) -> int:") == []


def test_a_mutant_is_named_by_its_outermost_function_and_shown_as_a_difference() -> None:
    source = "class C:\n    def f(self, a):\n        def g(b):\n            return b < a\n        return g\n"
    (mutant,) = mutants("m.py", source)
    assert (mutant.function, mutant.line) == ("C.f", 4)
    assert mutant.diff == "m.py:4 in C.f\n  - return b < a\n  + return (b <= a)"
    assert mutant.source == source.replace("b < a", "(b <= a)")
    assert mutant.key == ("m.py", "C.f", "return b < a", "return (b <= a)")


@pytest.mark.parametrize("module", TESTS)
@pytest.mark.sample(4)
def test_mutants_of_a_module_are_modules_whose_lines_stay_in_place(module: str) -> None:
    source = (ROOT / module).read_text(encoding="utf-8")
    created = mutants(module, source)
    assert len({each.source for each in created}) == len(created) > 3
    for each in created[:: max(1, len(created) // 10)]:
        assert ast.dump(ast.parse(each.source)) != ast.dump(ast.parse(source))
        assert each.source.count("\n") <= source.count("\n")


def test_modules_and_their_tests_are_there() -> None:
    files = [ROOT / "tests" / file for files in TESTS.values() for file in files]
    assert [path for path in files if not path.is_file()] == []


def test_mutants_that_change_nothing_still_exist() -> None:
    keys = {each.key for module in TESTS for each in _all_of(module)}
    assert [key for key in EQUIVALENT if key not in keys] == []
    assert all(EQUIVALENT.values())


def _all_of(module: str) -> list[Mutant]:
    return mutants(module, Path(ROOT, module).read_text(encoding="utf-8"))
