"""SHOW CREATE TABLE runs again to an equal table: over every golden table, and over random ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tablestore as ts
from tablestore.format.computed_columns import computed_columns, other_options, watermark
from tablestore.format.schema import TableSchema, numbered
from tablestore.sql import Session
from tablestore.sql.scope import TableDefinition
from tablestore.sql.statements.describe import create_text
from tablestore.sql.text import literal_text, name_text

GOLDEN = Path(__file__).parents[2] / "golden"
NOT_MADE = ("append_row_tracking_dv",)  # of what this version does not make, but reads
TABLES = sorted({p.parents[1] for p in GOLDEN.rglob("schema/schema-0")})
OF_ONE_TABLE = ("tablestore.uuid", "path")


def definition(schema: TableSchema) -> TableSchema:
    """What two equal tables share: columns numbered anew, and options that say what an absent one means."""
    schema = schema.shown
    options = {k: v for k, v in schema.options.items() if k not in OF_ONE_TABLE}
    if schema.primary_keys:
        options.setdefault("bucket", "-1")
    fields = numbered(schema.fields)
    return replace(
        schema,
        id=0,
        fields=fields,
        options=options,
        comment=schema.comment or None,
        time_millis=0,
        highest_field_id=0,
    )


@pytest.mark.parametrize("place", TABLES, ids=lambda p: p.relative_to(GOLDEN).as_posix())
def test_golden_tables(tmp_path: Path, place: Path) -> None:
    golden = ts.open(place)
    session = ts.sql_session(ts.connect(tmp_path))
    session.sql("CREATE DATABASE d")
    text = create_text(("lake", "d", "again"), TableDefinition.of_schema(golden.store.schema))
    if place.name in NOT_MADE:
        with pytest.raises(ts.Unsupported, match="data-evolution"):
            session.sql(text)
        return
    session.sql(text)
    again = session.lake().table("d.again")
    assert definition(again.store.schema) == definition(golden.store.schema)
    (statement,) = session.sql("SHOW CREATE TABLE d.again").to_arrow()["result"].to_pylist()
    assert statement == text


names = st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=8
).filter(lambda name: not name.startswith("_KEY_") and name != "rowkind")
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
scalars = st.sampled_from(
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DATE STRING BYTES CHAR(3) VARCHAR(7) BINARY(2) "
    "DECIMAL(9,3) TIME(3) TIMESTAMP(3) TIMESTAMP(9) TIMESTAMP_LTZ(6)".split()
)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    field = st.tuples(names, inner, st.none() | texts)
    rows = st.lists(field, min_size=1, max_size=3, unique_by=lambda f: f[0]).map(_row)
    kinds = st.builds("{}<{}>".format, st.sampled_from(["ARRAY", "MULTISET"]), inner)
    return rows | kinds | st.builds("MAP<INT NOT NULL, {} NOT NULL>".format, inner)


def _row(fields: list[tuple[str, str, str | None]]) -> str:
    said = [f"{name_text(n)} {t}" + (f" COMMENT {literal_text(c)}" if c else "") for n, t, c in fields]
    return f"ROW<{', '.join(said)}>"


@st.composite
def statements(draw: Any) -> str:
    actual = draw(st.lists(names, min_size=2, max_size=6, unique=True))
    types = [
        draw(scalars if i < 2 else st.recursive(scalars, nested, max_leaves=4)) for i in range(len(actual))
    ]
    comments = [draw(st.none() | texts) for _ in actual]
    lines = [
        f"{name_text(n)} {t}" + ("" if c is None else f" COMMENT {literal_text(c)}")
        for n, t, c in zip(actual, types, comments, strict=True)
    ]
    if draw(st.booleans()):
        lines.append(f"PRIMARY KEY ({name_text(actual[0])}, {name_text(actual[1])}) NOT ENFORCED")
    if draw(st.booleans()):
        computed = (
            f"{name_text(draw(names.filter(lambda n: n not in actual)))} AS {literal_text(draw(texts))}"
        )
        lines.insert(draw(st.integers(0, len(actual))), computed)
    text = f"CREATE TABLE d.one ({', '.join(lines)})"
    if draw(st.booleans()):
        text += f" COMMENT {literal_text(draw(texts))}"
    if draw(st.booleans()):
        text += f" PARTITIONED BY ({name_text(actual[1])})"
    return text


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(statements())
def test_random_tables_with_hostile_names(tmp_path: Path, statement: str) -> None:
    session = ts.sql_session(ts.connect(tmp_path))
    session.sql("CREATE DATABASE IF NOT EXISTS d; DROP TABLE IF EXISTS d.one; DROP TABLE IF EXISTS d.two")
    session.sql(statement)
    (definition_shown,) = session.sql("SHOW CREATE TABLE d.one").to_arrow()["result"].to_pylist()
    session.sql(definition_shown.replace("`d`.`one`", "`d`.`two`", 1))
    first, second = (session.lake().table(f"d.{name}").store.schema for name in ("one", "two"))
    assert definition(second) == definition(first)


def test_computed_columns_and_temporary_tables(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (w AS v * 2 COMMENT 'it''s', v INT, ts TIMESTAMP(3), d AS CAST(ts AS DATE), "
        "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
    )
    (statement,) = session.sql("SHOW CREATE TABLE t").to_arrow()["result"].to_pylist()
    before = session.lake().table("shop.t").store.schema
    session.sql(f"DROP TABLE t; {statement}")
    after = session.lake().table("shop.t").store.schema
    assert definition(after) == definition(before)
    assert len(computed_columns(after.options, after.names)) == 2
    assert watermark(after.options) is not None
    assert set(other_options(after.options, after.names)) == {"tablestore.uuid"}
    session.sql("CREATE TEMPORARY TABLE s LIKE t WITH ('connector' = 'datagen', 'password' = 'hush')")
    (statement,) = session.sql("SHOW CREATE TABLE s").to_arrow()["result"].to_pylist()
    assert statement.startswith("CREATE TEMPORARY TABLE `lake`.`shop`.`s` (")
    assert "hush" not in statement
    kept = session.temporary["lake", "shop", "s"]
    session.sql(f"DROP TEMPORARY TABLE s; {statement}")
    again = session.temporary["lake", "shop", "s"]
    assert replace(again, options={}) == replace(kept, options={})
