"""What works on a table: told by the functions that refuse, so that telling and refusing agree."""

from __future__ import annotations

import pyarrow as pa
import pytest

import tablestore as ts

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
ROWS = pa.table({"k": [1, 2], "v": [3, 4]}, schema=SCHEMA)


def made(tmp_path, key=("k",), **options: object) -> ts.Table:
    lake = ts.connect(tmp_path)
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return lake.create_table("shop.t", schema=SCHEMA, primary_key=key, options=given)


def test_an_ordinary_table_can_do_everything(tmp_path):
    table = made(tmp_path)
    assert [(a.verb, a.works, a.why) for a in table.abilities()] == [
        (verb, True, "") for verb in ("read", "stream", "write", "delete", "compact")
    ]


@pytest.mark.parametrize(
    ("key", "options", "verb"),
    [((), {}, "delete"), (("k",), {"merge_engine": "first-row"}, "delete")],
    ids=["append", "first-row"],
)
def test_what_abilities_say_does_not_work_is_refused_in_the_same_words(tmp_path, key, options, verb):
    table = made(tmp_path, key, **options)
    table.write(ROWS)
    abilities = {a.verb: a for a in table.abilities()}
    assert not abilities[verb].works
    with pytest.raises(ts.InvalidRequest) as refused:
        table.delete(ts.col("k") == 1)
    assert str(refused.value) == abilities[verb].why
    assert abilities["read"].works
    assert abilities["write"].works


def test_a_table_that_only_other_engines_write_is_read_but_not_written(tmp_path):
    table = made(tmp_path, ())
    stored = table.store.schema.with_options({"clustering.columns": "v"})
    table = ts.Table(table.store.with_schema(stored), table.name)
    abilities = {a.verb: a for a in table.abilities()}
    assert [verb for verb, a in abilities.items() if a.works] == ["read", "stream"]
    assert "clustering.columns" in abilities["compact"].why
    with pytest.raises(ts.Unsupported, match=r"clustering\.columns"):
        table.write(ROWS)
