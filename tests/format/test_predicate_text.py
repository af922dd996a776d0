"""Conditions as text: what they mean, that they say of themselves what they are, and what is refused."""

from __future__ import annotations

import random

import pytest

import tablestore as ts
from tablestore.errors import NotFound, SchemaMismatch
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Always, Predicate, all_of, any_of, col
from tablestore.format.predicates.predicate_text import SyntaxProblem, parse
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField

TYPES = {"k": ts.BIGINT, "d": ts.DATE, "t": ts.TIMESTAMP(6), "s": ts.STRING, "f": ts.DOUBLE, "b": ts.BOOLEAN}
TYPES["m"] = ts.DECIMAL(12, 2)


def schema() -> TableSchema:
    fields = tuple(DataField(i, name, kind) for i, (name, kind) in enumerate(TYPES.items()))
    return TableSchema(0, fields, len(fields), primary_keys=("k",))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("k > 1", col("k") > 1),
        ("1 < k", col("k") > 1),
        ("k <> 1 and k != 2", (col("k") != 1) & (col("k") != 2)),
        ("k = 1 OR k = 2 AND s = 'x'", (col("k") == 1) | ((col("k") == 2) & (col("s") == "x"))),
        ("(k = 1 OR k = 2) AND s = 'it''s'", ((col("k") == 1) | (col("k") == 2)) & (col("s") == "it's")),
        ("NOT (k > 1 AND s IS NULL)", (col("k") <= 1) | col("s").is_not_null()),
        ("k BETWEEN -3 AND 4", col("k").between(-3, 4)),
        ("k NOT BETWEEN 3 AND 4", ~col("k").between(3, 4)),
        ("s IN ('a', 'b') AND k NOT IN (1)", col("s").is_in(["a", "b"]) & ~col("k").is_in([1])),
        ("s LIKE 'ab%' AND s NOT LIKE 'abc%'", col("s").startswith("ab") & ~col("s").startswith("abc")),
        ("s LIKE 'ab'", col("s") == "ab"),
        ("s LIKE '%'", col("s").is_not_null()),
        (
            "d >= DATE '1995-06-01' AND d < '1995-09-01'",
            (col("d") >= "1995-06-01") & (col("d") < "1995-09-01"),
        ),
        ("\"k\" = 1 AND `s` = 'x' -- as typed", (col("k") == 1) & (col("s") == "x")),
        ("b = TRUE", col("b") == True),  # noqa: E712
        ("", Always(True)),
        ("TRUE", Always(True)),
    ],
)
def test_a_text_means_the_predicate(text: str, meant: Predicate) -> None:
    assert repr(parse(text)) == repr(meant)
    assert predicate.bind(parse(text), schema()) == predicate.bind(meant, schema())


@pytest.mark.parametrize(
    ("text", "part", "says"),
    [
        ("k = s", "s", "a column is compared with values"),
        ("lower(s) = 'x'", "lower", "functions such as lower"),
        ("k + 1 > 2", "+", "cannot be computed with"),
        ("k > 1 + 1", "+", "write the value"),
        ("k = NULL", "NULL", "write IS NULL"),
        ("k == 1", "==", "write = to compare"),
        ("s LIKE '%x'", "'%x'", "the beginning only"),
        ("s LIKE 'a_c'", "'a_c'", "the beginning only"),
        ("k > ", "", "the text ends"),
        ("(k > 1", "", ") is missing"),
        ("k IN ()", ")", "a literal is expected"),
        ("k > 1; DROP TABLE x", ";", "the end is expected"),
        ("1 = 1", "1", "two literals"),
        ("s.x = 1", ".", "fields of a column"),
        ("s = 'open", "'open", "never closed"),
        ("k IS TRUE", "TRUE", "NULL is missing after IS"),
        ("(" * 60 + "k = 1" + ")" * 60, "(", "50 deep"),
        ("k > 1 \x00", "\x00", "no part of a condition"),
    ],
)
def test_what_is_refused_names_the_part_and_its_place(text: str, part: str, says: str) -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse(text)
    problem = refused.value
    assert problem.part == part
    assert says in str(problem)
    assert text[problem.start : problem.start + len(part)] == part


def test_literals_are_typed_by_their_column_when_bound() -> None:
    with pytest.raises(SchemaMismatch, match="'d' is DATE"):
        predicate.bind(parse("d > 'yesterday'"), schema())
    with pytest.raises(NotFound, match="no column 'kk'; did you mean k"):
        predicate.bind(parse("kk > 1"), schema())
    assert repr(predicate.bind(parse("m >= 1.5 AND t > '2020-01-01'"), schema())) == (
        "m >= 1.50 AND t > TIMESTAMP '2020-01-01 00:00:00.000000'"
    )


def test_what_a_predicate_says_of_itself_is_read_back(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        source = random.Random(seed)
        for _ in range(200):
            built = _any(source, 3)
            assert repr(parse(repr(built))) == repr(built)
            bound = predicate.bind(built, schema())
            if " IN ()" not in repr(bound):
                assert predicate.bind(parse(repr(bound)), schema()) == bound


def _any(source: random.Random, depth: int) -> Predicate:
    if depth and source.random() < 0.5:
        terms = [_any(source, depth - 1) for _ in range(source.randint(2, 3))]
        return source.choice([all_of, any_of])(*terms)
    name, values = source.choice(
        [
            ("k", [-5, 0, 7, 10**12]),
            ("s", ["", "it's", "x%", 'a"b', "é日"]),
            ("f", [0.5, -2.25, 1e300]),
            ("d", ["1995-06-01", "2024-02-29"]),
            ("b", [True, False]),
        ]
    )
    column, value = col(name), source.choice(values)
    made = [column == value, column != value, column < value, column >= value]
    made += [column.is_in(values), column.is_null(), ~column.is_in(values[:2])]
    made += [column.startswith("ab"), ~column.startswith("it's")] if name == "s" else []
    return source.choice(made)


def test_it_is_public_and_scans_take_it(tmp_path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table("t.t", schema={"id": ts.INT, "amount": ts.INT}, primary_key=["id"])
    table.write({"id": list(range(10)), "amount": [i * 10 for i in range(10)]})
    found = table.scan(where=ts.where("amount BETWEEN 30 AND 50 OR id = 9")).to_arrow()
    assert sorted(found["id"].to_pylist()) == [3, 4, 5, 9]
