"""Merge engines on random records against the plain model: whole batches at once.

Rows that meet in a write buffer, in a compaction and in a read are folded by the same function; what the
model says for all records of a key at once is compared with one merge of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.errors import CannotMerge
from tablestore.core.options.table_options import TableOptions
from tablestore.format.parquet.schema import kv_schema
from tablestore.format.schema import TableSchema
from tablestore.format.types.arrow_types import DataField
from tablestore.format.types.type_text import parse_type
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.aggregation import MergedGroups
from tablestore.lsm.merge.changelog import newest_levels
from tablestore.lsm.merge.groups import Groups, grouped, joined, plain
from tablestore.lsm.merge.merge_function import merge_function
from tests.lsm.merge.merge_model import BITS, Cell, Fails, Record, Rules, fold

LOW = {"TINYINT": 3, "SMALLINT": 40}  # small numbers where overflow is near


@dataclass(frozen=True)
class ColumnKind:
    """A column of a random table: its type, values for it, and a function for it."""

    type: Any
    value: Callable[[random.Random], Any]
    cell: Callable[[], Cell] | None = None
    options: tuple[tuple[str, str], ...] = ()


def ints(root: str, high: int = 1000) -> Callable[[random.Random], Any]:
    most = LOW.get(root, high)
    return lambda rng: rng.randrange(-most, most)


def texts(rng: random.Random) -> str:
    return rng.choice(["", " ", "a", "b", "ab", "a,b", "b;c", "é", "c,,d", "\t"])


ARRAY = {"type": "ARRAY", "element": "INT"}
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
TABLE = {
    "type": "ARRAY",
    "element": {
        "type": "ROW",
        "fields": [
            {"id": 101, "name": "id", "type": "INT"},
            {"id": 102, "name": "v", "type": "STRING"},
            {"id": 103, "name": "n", "type": "INT"},
        ],
    },
}


def some(rng: random.Random, make: Callable[[random.Random], Any], most: int = 3) -> list[Any]:
    return [make(rng) for _ in range(rng.randrange(most + 1))]


def table_row(rng: random.Random) -> tuple[Any, ...]:
    return (rng.choice([1, 2, 3]), rng.choice(["x", "y", None]), rng.choice([None, 1, 2, 3]))


def function(
    name: str, t: Any, value: Callable[[random.Random], Any], options: Any = (), **cell: Any
) -> ColumnKind:
    root = t if isinstance(t, str) else "ARRAY"
    return ColumnKind(t, value, partial(Cell, name, root, **cell), (("aggregate-function", name), *options))


KINDS: list[ColumnKind] = [
    *(function(n, r, ints(r, 20)) for n in ("sum", "product") for r in BITS),
    function("sum", "DOUBLE", lambda rng: rng.choice([0.1, -0.0, 1e16, -3.7])),
    function("product", "DOUBLE", lambda rng: rng.choice([0.5, 2.0, -3.0])),
    function("sum", "DECIMAL(4, 2)", lambda rng: Decimal(rng.randrange(-500, 500)).scaleb(-2)),
    function("sum", "DECIMAL(30, 3)", lambda rng: Decimal(rng.randrange(-(10**20), 10**20)).scaleb(-3)),
    *(function(n, "INT", ints("INT")) for n in ("max", "min", "first_value", "last_value")),
    *(function(n, "STRING", texts) for n in ("max", "min", "first_non_null_value", "last_non_null_value")),
    *(function(n, "BOOLEAN", lambda rng: rng.random() < 0.5) for n in ("bool_and", "bool_or")),
    function("listagg", "STRING", texts),
    function("listagg", "STRING", texts, [("list-agg-delimiter", ";")], delimiter=";"),
    function("listagg", "STRING", texts, [("distinct", "true")], distinct=True),
    function("collect", ARRAY, lambda rng: some(rng, ints("INT", 3))),
    function("collect", ARRAY, lambda rng: some(rng, ints("INT", 3)), [("distinct", "true")], distinct=True),
    function("merge_map", MAP, lambda rng: dict(some(rng, lambda r: (r.choice("xyz"), r.randrange(9))))),
    function("nested_update", TABLE, lambda rng: some(rng, table_row)),
    function("nested_update", TABLE, lambda rng: some(rng, table_row), [("nested-key", "id")], key=(0,)),
    function(
        "nested_update",
        TABLE,
        lambda rng: some(rng, table_row),
        [("nested-key", "id"), ("nested-sequence-field", "n"), ("count-limit", "2")],
        key=(0,),
        order=(2,),
        limit=2,
    ),
    ColumnKind("INT", ints("INT")),
    ColumnKind("STRING", texts),
]


def random_table(rng: random.Random, engine: str) -> tuple[TableSchema, Rules, list[ColumnKind]]:
    """A schema of the key, up to four ordering columns and some others, with random options."""
    orders = [ColumnKind("INT", ints("INT", 4)) for _ in range(4)]
    plain = [k for k in KINDS if k.cell is None or engine == "aggregation"]
    chosen = [rng.choice(KINDS if engine == "partial-update" else plain) for _ in range(rng.randrange(1, 6))]
    kinds = [*orders, *chosen]
    names = [f"o{i}" for i in range(4)] + [f"c{i}" for i in range(len(chosen))]
    options: dict[str, str] = {"merge-engine": engine}
    rules = Rules(engine, tuple(names))
    if engine == "partial-update":
        grouped_options(rng, names, kinds, options, rules)
    else:
        used = {}
        for name, kind in zip(names, kinds, strict=True):
            if kind.cell is not None:
                used[name] = function_options(rng, name, kind, options)
        rules.functions = used
        rules.removes = engine == "aggregation" and not any("ignore-retract" in k for k in options)
        rules.removes &= rng.random() < 0.5
        options["aggregation.remove-record-on-delete"] = str(rules.removes).lower()
        rules.ignores = engine != "aggregation" and rng.random() < 0.5
    if engine != "first-row" and rng.random() < 0.4:
        rules.sequence = tuple(rng.sample(["o2", "o3"], rng.randrange(1, 3)))
        rules.descending = rng.random() < 0.4
        options["sequence.field"] = ",".join(rules.sequence)
        options["sequence.field.sort-order"] = "descending" if rules.descending else "ascending"
    options["ignore-delete"] = str(rules.ignores).lower()
    fields = [DataField(0, "k", parse_type("INT NOT NULL"))]
    fields += [
        DataField(i + 1, n, parse_type(k.type)) for i, (n, k) in enumerate(zip(names, kinds, strict=True))
    ]
    schema = TableSchema(0, tuple(fields), 200, primary_keys=("k",), options=options)
    return schema, rules, kinds


def function_options(
    rng: random.Random, name: str, kind: ColumnKind, options: dict[str, str]
) -> Callable[[], Cell]:
    ignores = rng.random() < 0.3
    options |= {f"fields.{name}.{key}": value for key, value in kind.options}
    if ignores:
        options[f"fields.{name}.ignore-retract"] = "true"

    def make() -> Cell:
        cell = kind.cell()
        cell.ignores = ignores
        return cell

    return make


def grouped_options(
    rng: random.Random, names: list[str], kinds: list[ColumnKind], options: dict[str, str], rules: Rules
) -> None:
    """Sequence groups over o0 and o1 (one column, two, or two groups), or none with another delete option."""
    free = [n for n in names if n.startswith("c")]
    shape = rng.choice(["none", "one", "pair", "two"])
    if shape == "none":
        rules.removes, rules.ignores = rng.choice([(True, False), (False, True), (False, False)])
        options["partial-update.remove-record-on-delete"] = str(rules.removes).lower()
        return
    cut = rng.randrange(len(free) + 1)
    groups = {
        "one": {("o0",): tuple(free[:cut])},
        "pair": {("o0", "o1"): tuple(free[:cut])},
        "two": {("o0",): tuple(free[:cut]), ("o1",): tuple(free[cut:])},
    }[shape]
    rules.groups = {s: g for s, g in groups.items() if g} or {("o0",): (free[0],)}
    for sequence, guarded in rules.groups.items():
        options[f"fields.{','.join(sequence)}.sequence-group"] = ",".join(guarded)
    rules.removing = tuple(n for s in rules.groups for n in s if rng.random() < 0.4)
    rules.ignores = not rules.removing and rng.random() < 0.2
    if rules.removing:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(rules.removing)
    of = dict(zip(names, kinds, strict=True))
    guarded = [n for g in rules.groups.values() for n in g]
    rules.functions = {n: function_options(rng, n, of[n], options) for n in guarded if of[n].cell is not None}


def random_records(rng: random.Random, rules: Rules, kinds: list[ColumnKind], rows: int) -> list[Record]:
    adds_only = rng.random() < 0.4
    collected = []
    for number in rng.sample(range(10 * rows), rows):
        kind = 0 if adds_only else rng.choice([0, 0, 0, 2, 2, 1, 3])
        values = [None if rng.random() < 0.25 else k.value(rng) for k in kinds]
        collected.append((number, kind, dict(zip(rules.columns, values, strict=True))))
    return collected


def kv_rows(schema: TableSchema, keyed: list[tuple[int, Record]]) -> pa.RecordBatch:
    wanted = kv_schema(schema)
    arrays = [pa.array([r[0] for _, r in keyed], pa.int64()), pa.array([r[1] for _, r in keyed], pa.int8())]
    arrays.append(pa.array([k for k, _ in keyed], pa.int32()))
    for f in list(wanted)[3:]:
        arrays.append(pa.array([arrow_value(r[2][f.name], f.type) for _, r in keyed], f.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)


def arrow_value(value: Any, t: pa.DataType) -> Any:
    if pa.types.is_list(t) and pa.types.is_struct(t.value_type) and value is not None:
        return [dict(zip(("id", "v", "n"), row, strict=True)) for row in value]
    return list(value.items()) if isinstance(value, dict) else value


def plain_value(value: Any) -> Any:
    """Arrow's Python value as the model has it; what has no order sorted."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = [tuple(row.values()) for row in value]
    elif isinstance(value, dict):
        value = list(value.items())
    return sorted(value, key=repr) if isinstance(value, list) else value


def comparable(record: Record) -> Any:
    number, kind, row = record
    kind = 0 if kind == 2 else kind
    return number, kind, repr({n: plain_value(v) for n, v in row.items()})


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_an_engine_equals_the_model_on_random_records(engine: str, seeds: tuple[int, ...]) -> None:
    merged = failed = 0
    for seed in (s * 1000 + n for s in seeds for n in range(60)):
        rng = random.Random(seed)
        schema, rules, kinds = random_table(rng, engine)
        keyed = [(rng.randrange(12), r) for r in random_records(rng, rules, kinds, rng.randrange(1, 50))]
        rows = kv_rows(schema, keyed)
        options = {**schema.options, "tablestore.merge.on-error": "skip"}
        merge = merge_function(schema, TableOptions.parse(options), reading=True)
        actual = merge.merge(
            rows, grouped(rows.column("k").to_numpy().astype(np.int64), merge.sequence.numbers(rows))
        )
        wanted, broken = {}, []
        for key in sorted({k for k, _ in keyed}):
            try:
                record = fold(rules, [r for k, r in keyed if k == key])
                if record is not None:
                    wanted[key] = comparable(record)
            except Fails:
                broken.append(key)
        got = {}
        for row in actual.to_pylist():
            number, kind, key, *values = row.values()
            got[key] = comparable((number, kind, dict(zip(rules.columns, values, strict=True))))
        assert got == wanted, f"seed {seed}: {dict(schema.options)}"
        assert actual.column("k").to_pylist() == sorted(actual.column("k").to_pylist())
        if broken:
            strict = merge_function(schema, TableOptions.parse(schema.options))
            with pytest.raises(CannotMerge, match=f"k = {broken[0]} "):
                strict.merge(
                    rows, grouped(keys.of_batch(rows, schema.key_fields)[0], strict.sequence.numbers(rows))
                )
        merged, failed = merged + len(wanted), failed + len(broken)
    assert merged > 100 * len(seeds)
    assert failed or engine == "deduplicate"


def batch_of(texts: list[str | None], numbers: list[int], *, encoded: bool) -> pa.RecordBatch:
    """A batch of a text column `t`, by a dictionary or plain, and of numbers `n`."""
    column = pa.array(texts, pa.string())
    return pa.record_batch(
        {"t": column.dictionary_encode() if encoded else column, "n": pa.array(numbers, pa.int64())}
    )


def test_rows_are_those_of_the_batches_in_their_order(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        for _ in range(50):
            parts, wanted = [], []
            for _ in range(rng.randint(1, 5)):
                values = [None, *(f"v{i}" for i in range(rng.choice([1, 4, 40])))]
                rows = [(rng.choice(values), rng.randrange(9)) for _ in range(rng.choice([0, 1, 20, 300]))]
                texts, numbers = [t for t, _ in rows], [n for _, n in rows]
                parts.append(batch_of(texts, numbers, encoded=rng.random() < 0.6))
                wanted += rows
            together = plain(joined(parts))
            assert together.schema.field("t").type == pa.string()
            assert [(r["t"], r["n"]) for r in together.to_pylist()] == wanted


@pytest.mark.parametrize(
    ("values", "others", "encoded"), [(3, 5, True), (3, 300, False), (90, 5, False), (3, 0, True)]
)
def test_few_plain_rows_are_encoded_where_the_others_have_few_values(
    values: int, others: int, encoded: bool
) -> None:
    first = batch_of([f"v{i % values}" for i in range(400)], [0] * 400, encoded=True)
    small = batch_of([f"w{i % 2}" for i in range(others)], [1] * others, encoded=False)
    kind = joined([first, small]).schema.field("t").type
    assert pa.types.is_dictionary(kind) == encoded
    assert joined([first, first]).schema.equals(first.schema)


def test_a_row_that_other_levels_leave_alone_is_merged() -> None:
    both, single = [0, 1], [2]
    levels = np.array([3, 2, 1], dtype=np.int8)
    groups = newest_levels(Groups(np.array([*both, *single]), np.array([0, 2])), levels)
    assert groups.order.tolist() == [1, 2]
    merged = MergedGroups.of(groups)
    assert merged.which.tolist() == [0]
    assert merged.walk.rows.tolist() == [1]
