"""Conditions as text: what they mean, that they say of themselves what they are, and what is refused."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest, NotFound, SchemaMismatch
from tablestore.format.predicates import predicate
from tablestore.format.predicates.predicate import Always, Predicate, all_of, any_of, col
from tablestore.format.predicates.predicate_text import SyntaxProblem, condition, parse
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
        ("s LIKE '%'", col("s").startswith("")),
        ("s LIKE '%x'", col("s").like("%x")),
        ("s NOT LIKE '_x%'", ~col("s").like("_x%")),
        (r"s LIKE '50\%'", col("s") == "50%"),
        (r"s LIKE 'a\b\\%'", col("s").like(r"a\\b\\\%")),
        (r"s LIKE '%\\x' ESCAPE '\'", col("s").like(r"%\\x")),
        ("s LIKE '50!%%' ESCAPE '!'", col("s").startswith("50%")),
        (
            "d >= DATE '1995-06-01' AND d < '1995-09-01'",
            (col("d") >= "1995-06-01") & (col("d") < "1995-09-01"),
        ),
        ("\"k\" = 1 AND `s` = 'x' -- as typed", (col("k") == 1) & (col("s") == "x")),
        ("b = TRUE", col("b") == True),  # noqa: E712
        ("NOT b AND (b OR k = 1)", (col("b") != True) & ((col("b") == True) | (col("k") == 1))),  # noqa: E712
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
        ("s LIKE 'a!b' ESCAPE '!'", "'a!b'", "comes before 'b': write !!"),
        ("s LIKE 'a' ESCAPE 'ab'", "'a'", "the escape of LIKE is one character"),
        ("s LIKE 3", "3", "LIKE wants a text"),
        ("k > ", "", "the text ends"),
        ("(k > 1", "", ") is missing"),
        ("k IN ()", ")", "a literal is expected"),
        ("k > 1; DROP TABLE x", ";", "the end is expected"),
        ("1 = 1", "1", "two literals"),
        ("s.x = 1", ".", "fields of a column"),
        ("s = 'open", "'open", "never closed"),
        ("k IS TRUE", "TRUE", "NULL is missing after IS"),
        ("(" * 60 + "k = 1" + ")" * 60, "(", "50 deep"),
        ("k > 1 \x00", "\x00", "cannot be part of a condition"),
    ],
)
def test_what_is_refused_names_the_part_and_its_place(text: str, part: str, says: str) -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse(text)
    problem = refused.value
    assert problem.part == part
    assert says in str(problem)
    assert text[problem.start : problem.start + len(part)] == part
    _, line, mark = str(problem).split("\n")
    assert line[mark.index("^") :][: len(part)] == part


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
    created = [column == value, column != value, column < value, column >= value]
    created += [column.is_in(values), column.is_null(), ~column.is_in(values[:2])]
    created += [column.startswith("ab"), ~column.startswith("it's")] if name == "s" else []
    created += [column.like("%it's_"), ~column.like(r"a_\%\\%")] if name == "s" else []
    return source.choice(created)


def test_it_is_public_and_scans_take_it(tmp_path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table("t.t", schema={"id": ts.INT, "amount": ts.INT}, primary_key=["id"])
    table.write({"id": list(range(10)), "amount": [i * 10 for i in range(10)]})
    rows = table.scan(where=ts.where("amount BETWEEN 30 AND 50 OR id = 9")).to_arrow()
    assert sorted(rows["id"].to_pylist()) == [3, 4, 5, 9]


def test_an_error_shows_the_text_and_points_at_its_place() -> None:
    with pytest.raises(SyntaxProblem) as refused:
        parse("k > 1\n\tAND s LIKE")
    assert str(refused.value) == (
        "at character 18: a literal is expected, such as 12 or 'text'; the text ends\n"
        "  \tAND s LIKE\n"
        "  \t          ^"
    )
    with pytest.raises(NotFound, match=r"(?s)no column 'kk'; did you mean k\?\n  k > 1 AND kk < 2\n {12}\^$"):
        condition("k > 1 AND kk < 2", schema())
    with pytest.raises(SchemaMismatch, match="'k' is BIGINT: it cannot be compared with TRUE"):
        condition("k", schema())
    with pytest.raises(InvalidRequest, match="write each one in parentheses"):
        _ = col("k") > 0 & col("k") < 3  # type: ignore[operator]  # what is refused
    with pytest.raises(SchemaMismatch, match=r"(?s)'k' is BIGINT: .*\n  NOT \(k = 'x'\)\n {7}\^$"):
        condition("NOT (k = 'x')", schema())
    long = "k > 1 AND " * 40
    with pytest.raises(SyntaxProblem) as refused:
        parse(long + "k ~ 1")
    assert max(map(len, str(refused.value).split("\n"))) < 160


def test_every_verb_takes_text(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table(
        "t.t", schema={"id": ts.INT, "name": ts.STRING}, primary_key=["id"], options={"bucket": 2}
    )
    names = ["Anna", "Annika", "Johanna", "Bo", None]
    table.write({"id": list(range(5)), "name": names})
    text, meant = "name LIKE '%ann%'", col("name").like("%ann%")
    assert table.scan(where=text).to_arrow() == table.scan(where=meant).to_arrow()
    assert table.scan().filter(text).count() == 1
    assert table.scan(where="name LIKE 'Ann%'").filter("id > 0").to_arrow()["id"].to_pylist() == [1]
    assert table.system("snapshots").scan(where="snapshot_id = 1 AND commit_kind LIKE '_PPEND'").count() == 1
    (step,) = table.stream(where="id >= 3", follow=False)
    assert sorted(step.to_arrow()["id"].to_pylist()) == [3, 4]
    joined = table.lookup({"id": "x"}, where="id < 2").join({"x": [0, 3]}, how="inner")
    assert joined["x"].to_pylist() == [0]
    assert len(table.buckets_to_compact(full=True, where="id = 3")) == 1
    assert table.compact(full=True, where="id < 0", dry_run=True).committed is None
    assert table.inspect.merging(where="id = 3") is not None
    assert table.update({"name": "B"}, where="name LIKE 'B_'").rows == 1
    assert table.get({"id": 3}) == {"id": 3, "name": "B"}
    assert table.delete(text).rows == 1
    assert table.delete("name IS NULL").rows == 1
    for empty in ("", " -- all"):
        with pytest.raises(InvalidRequest, match="the condition is empty"):
            table.delete(empty)
    with pytest.raises(InvalidRequest, match="the condition is empty"):
        table.update({"name": "x"}, where="")
    with pytest.raises(NotFound, match="did you mean name"):
        table.delete("nam = 'x'")
    with pytest.raises(InvalidRequest, match="3 is not a condition"):
        table.scan(where=3)  # type: ignore[arg-type]  # what is refused
    assert sorted(table.scan().to_arrow()["name"].to_pylist()) == ["Anna", "Annika", "B"]
    assert table.check() == []
