"""The expected rows against a replay of the log, and what a fingerprint notices."""

import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from datasets import cdc, tpch, verify
from datasets.errors import DatasetError


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> cdc.Source:
    home = tmp_path_factory.mktemp("stream")
    return cdc.generate(home, "0.01", pairs=3, tables=("lineitem", "orders"), progress=False)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    paths = tpch.base("0.01", parts=4, progress=False)["lineitem"]
    return pa.Table.from_batches([batch for path in paths for batch in tpch.read(path)]).combine_chunks()


def replayed(source: cdc.Source, table: str, end: cdc.Position) -> dict[tuple, dict]:
    """The table as a dict, by applying chunks and then the log row by row."""
    state, key = {}, tpch.PRIMARY_KEYS[table]
    for chunk in source.chunks:
        if chunk.table == table:
            for batch in tpch.read(chunk.path):
                state |= {tuple(row[k] for k in key): row for row in batch.to_pylist()}
    for row in cdc.read_log(source, cdc.LOG_START, end, table=table).to_pylist():
        kind = row["_rowkind"]
        data = {name: row[name] for name in tpch.SCHEMAS[table].names}
        at = tuple(row[k] for k in key)
        assert (at in state) == (kind == 3)
        if kind == 3:
            assert state.pop(at) == data
        else:
            state[at] = data
    return state


@pytest.mark.parametrize("table", ["lineitem", "orders"])
@pytest.mark.parametrize("pairs", [0, 2, 3])
@pytest.mark.sample(2)
def test_expected_rows_equal_a_replay_of_the_log(source: cdc.Source, table: str, pairs: int) -> None:
    end = cdc.Position(f"{pairs + 1:05}.jsonl", 0) if pairs < 3 else source.log_end()
    state = replayed(source, table, end)
    created = [
        row for batch in verify.expected(source, table=table, pairs=pairs) for row in batch.to_pylist()
    ]
    key = tpch.PRIMARY_KEYS[table]
    assert {tuple(row[k] for k in key): row for row in created} == state
    assert len(created) == len(state)


def test_year_and_month_are_those_of_the_ship_date(source: cdc.Source) -> None:
    batch = next(verify.expected(source, year_month=True)).slice(0, 500)
    assert batch.schema.names[-2:] == ["l_year", "l_month"]
    assert [str(batch.schema.field(name).type) for name in ("l_year", "l_month")] == ["int64", "int64"]
    days = batch["l_shipdate"].to_pylist()
    assert list(zip(batch["l_year"].to_pylist(), batch["l_month"].to_pylist(), strict=True)) == [
        (day.year, day.month) for day in days
    ]


def test_more_pairs_than_the_source_has_are_refused(source: cdc.Source) -> None:
    with pytest.raises(DatasetError, match="pairs 4: the source has 3"):
        next(verify.expected(source, pairs=4))


def test_fingerprint_is_the_same_for_any_order_and_cut(rows: pa.Table, seeds: tuple[int, ...]) -> None:
    wanted = verify.fingerprint(rows)
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(rows))
        shuffled = rows.take(pa.array(order))
        cut = shuffled.to_batches(max_chunksize=random.Random(seed).randrange(900, 40_000))
        assert verify.fingerprint(cut, threads=1 + seed % 3) == wanted
    assert wanted["rows"] == 60_175
    assert wanted["q1"] == [
        {k: str(v) for k, v in row.items()} for row in tpch.q1(rows.to_batches()).to_pylist()
    ]


@pytest.mark.parametrize("column", tpch.LINEITEM.names)
def test_swapping_two_cells_changes_that_column_only(rows: pa.Table, column: str) -> None:
    part = rows.slice(100, 5000)
    values = part[column].combine_chunks()
    other = pc.index(pc.not_equal(values, values[0]), True).as_py()
    order = np.arange(len(part))
    order[[0, other]] = other, 0
    place = part.schema.get_field_index(column)
    swapped = part.set_column(place, part.schema.field(place), values.take(pa.array(order)))
    before = verify.fingerprint(part, with_q1=False)["columns"]
    after = verify.fingerprint(swapped, with_q1=False)["columns"]
    changed = {name for name in before if before[name] != after[name]}
    in_key = column in verify.LINEITEM_KEY
    assert changed == (set(tpch.LINEITEM.names) if in_key else {column})


def test_a_missing_a_doubled_and_a_changed_row_are_noticed(rows: pa.Table) -> None:
    part = rows.slice(0, 1000)
    wanted = verify.fingerprint(part)
    doubled = pa.concat_tables([part.slice(0, 999), part.slice(0, 1)])
    assert verify.fingerprint(part.slice(1)) != wanted
    assert verify.fingerprint(doubled)["rows"] == wanted["rows"]
    assert verify.fingerprint(doubled) != wanted
    place = part.schema.get_field_index("l_comment")
    comments = part["l_comment"].to_pylist()
    comments[500] = comments[500][:-1] + "!"
    changed = part.set_column(place, part.schema.field(place), pa.array(comments))
    assert verify.fingerprint(changed)["columns"]["l_comment"] != wanted["columns"]["l_comment"]


def test_equal_values_of_other_types_have_equal_fingerprints(rows: pa.Table) -> None:
    part = rows.slice(77, 3000)
    others = {
        "l_linenumber": pa.int64(),
        "l_orderkey": pa.int32(),
        "l_quantity": pa.decimal128(38, 2),
        "l_comment": pa.string_view(),
        "l_shipmode": pa.large_string(),
        "l_returnflag": pa.dictionary(pa.int32(), pa.string()),
    }
    cast = part.select(list(reversed(part.schema.names)))
    for name, type_ in others.items():
        place = cast.schema.get_field_index(name)
        cast = cast.set_column(place, name, part[name].cast(type_))
    wanted = verify.fingerprint(part, with_q1=False)
    assert verify.fingerprint(cast, with_q1=False) == wanted
    assert verify.fingerprint(cast)["q1"] == verify.fingerprint(part)["q1"]


def table_of(values: pa.Array) -> pa.Table:
    return pa.table({"k": pa.array(range(len(values))), "v": values})


def checksum(values: pa.Array) -> dict[str, object]:
    return verify.fingerprint(table_of(values), key=("k",), with_q1=False)["columns"]["v"]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (pa.int64(), [0, 1, None, -1, 2**62]),
        (pa.string(), ["", "a", None, "a\0", "\0a", "é" * 40, "12345678", "123456789"]),
        (pa.float64(), [0.0, None, 1.5, -1.5]),
        (pa.bool_(), [True, False, None]),
        (pa.timestamp("us"), [0, None, 10**15]),
        (pa.decimal128(38, 3), [Decimal("0.000"), None, Decimal("9" * 30), Decimal("-0.001")]),
    ],
)
def test_every_value_counts_and_null_is_not_zero(type_: pa.DataType, values: list) -> None:
    array = pa.array(values, type_)
    seen = [checksum(array)["checksum"]]
    for place in range(len(values)):
        for value in values:
            if value != values[place]:
                other = [*values[:place], value, *values[place + 1 :]]
                seen.append(checksum(pa.array(other, type_))["checksum"])
    assert len(set(seen)) == len(seen)
    assert checksum(array)["nulls"] == 1
    sliced = pa.concat_arrays([pa.array(values[:1] * 3, type_), array]).slice(3)
    assert checksum(sliced) == checksum(array)


def test_fingerprint_says_what_it_cannot_take(rows: pa.Table) -> None:
    with pytest.raises(DatasetError, match="lack the columns l_tax"):
        verify.fingerprint(rows.drop(["l_tax"]).slice(0, 10))
    with pytest.raises(DatasetError, match="no fingerprint for columns of type list"):
        checksum(pa.array([[1]]))


def test_fingerprint_of_nothing_is_that_of_an_empty_table(rows: pa.Table) -> None:
    empty = verify.fingerprint([])
    assert empty == {"rows": 0, "columns": {}, "q1": []}
    assert verify.fingerprint(rows.slice(0, 0).to_batches(), columns=("l_tax",))["rows"] == 0


def test_stream_and_directory_agree_after_a_restart_from_the_description(source: cdc.Source) -> None:
    again = cdc.open_source(Path(str(source.directory)))
    assert verify.fingerprint(verify.expected(again)) == verify.fingerprint(verify.expected(source))
