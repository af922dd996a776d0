"""The space of merge options: all engines, aggregate functions, options, producers, and tables in it.

Tables are numbered: engines with their producers come in turn, and so do the aggregate functions, so that any
`ROUND` tables in a row meet all of them; the other options are drawn. A number always means the same. Pure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa

from tablestore.format import roaring, roaring_tree
from tablestore.format.types.arrow_types import DataType, to_arrow
from tablestore.format.types.type_text import parse_type
from tests.peers import values

Pool = Callable[[random.Random, DataType], list[Any]]
Options = dict[str, str]
DV, FORCED = {"deletion-vectors.enabled": "true"}, {"force-lookup": "true"}
PRODUCERS: tuple[tuple[str, Options], ...] = (
    ("none", {}),
    ("input", {}),
    ("lookup", {}),
    ("full-compaction", {"full-compaction.delta-commits": "1000"}),
    ("none", DV),
    ("input", DV),
    ("lookup", DV),
    ("none", FORCED),
)
ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
COMBINATIONS = tuple(
    (engine, producer, extra)
    for producer, extra in PRODUCERS
    for engine in ENGINES
    if engine != "first-row" or (producer in ("none", "lookup") and not extra)
)
COMPUTING = [n for n, (e, _, _) in enumerate(COMBINATIONS) if e in ("aggregation", "partial-update")]
ROUND = len(COMBINATIONS)
KIND_COLUMN = "kind_of_row"
WIDTH = 6  # aggregated columns of a table


@dataclass(frozen=True)
class SpaceFunction:
    """An aggregate function as a column has it: on a type, with options, over a few values."""

    name: str
    type: str
    pool: Pool
    options: tuple[tuple[str, str], ...] = ()
    unordered: bool = False  # what it holds has no order
    sketch: bool = False  # equal sets may have different bytes

    @property
    def title(self) -> str:
        return " ".join([self.name, self.type, *(f"{k}={v}" for k, v in self.options)])


def any_values(rng: random.Random, t: DataType) -> list[Any]:
    return [values.value(rng, t) for _ in range(5)]


def of(*given: Any) -> Pool:
    return lambda rng, t: list(given)


def decimals(*unscaled: int) -> Pool:
    return lambda rng, t: [Decimal(v).scaleb(-t.scale) for v in unscaled]


def theta(rng: random.Random, t: DataType) -> list[bytes]:
    collected = []
    for _ in range(4):
        sketch = datasketches.update_theta_sketch()
        for value in rng.sample(range(200), 60):
            sketch.update(value)
        collected.append(sketch.compact().serialize())
    return collected


def hll(rng: random.Random, t: DataType) -> list[bytes]:
    collected = []
    for _ in range(4):
        sketch = datasketches.hll_sketch(11)
        for value in rng.sample(range(200), 60):
            sketch.update(value)
        collected.append(sketch.serialize_compact())
    return collected


def bitmaps32(rng: random.Random, t: DataType) -> list[bytes]:
    return [roaring.encode32(np.unique(rng.choices(range(0, 2**20, 977), k=30))) for _ in range(4)]


def bitmaps64(rng: random.Random, t: DataType) -> list[bytes]:
    some = [v * (2**33 + 1) for v in range(40)]
    return [roaring_tree.encode(np.array(sorted(rng.sample(some, 9)), dtype=np.uint64)) for _ in range(4)]


ROWS = "ARRAY<ROW<id INT, v STRING, n INT>>"
TIMED = "MAP<STRING NOT NULL, ROW<v INT, at STRING>>"


def nested(rng: random.Random, t: DataType) -> list[Any]:
    def row() -> dict[str, Any]:
        return {"id": rng.randrange(3), "v": rng.choice(["x", "y", None]), "n": rng.choice([None, 1, 2, 3])}

    return [[row() for _ in range(size)] for size in (0, 1, 1, 2, 3)]


def nested_nulls(rng: random.Random, t: DataType) -> list[Any]:
    return [[*some, {"id": None, "v": "z", "n": 1}] for some in nested(rng, t)]


def timed(rng: random.Random, t: DataType) -> list[Any]:
    def row() -> dict[str, Any] | None:
        if rng.random() < 0.2:
            return None
        return {"v": rng.randrange(9), "at": rng.choice([None, "1", "2", "3"])}

    return [[(key, row()) for key in rng.sample("xyz", size)] for size in (0, 1, 2, 3)]


def maps(rng: random.Random, t: DataType) -> list[Any]:
    return [[(key, rng.choice([None, 1, 2])) for key in rng.sample("xyz", size)] for size in (0, 1, 2, 3)]


TEXTS = of("", " ", "a", "b", "a,b", "b;c", "é", "c,,d", "\t", "\xa0,a b")


def dated(rng: random.Random, t: DataType) -> list[Any]:
    days = [date(1970, 1, 1), date(1999, 12, 31), date(2026, 2, 28)]
    return [
        [(day, rng.choice([None, [], [1, 2]])) for day in rng.sample(days, size)] for size in (0, 1, 2, 3)
    ]


FLOATS = of([], [0.0], [-0.0, 1.5], [1.5, None], [0.0, 0.0, -0.0])
PRICES = of([], [Decimal("1.50"), Decimal("-9e27")], [Decimal("1.5"), None], [Decimal("1.50")])
ROWS_OF_TWO = of([], [{"a": 1, "b": "x"}], [{"a": 1, "b": None}])
COMPARED = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(6, 2)", "DECIMAL(25, 3)", "STRING",
    "CHAR(3)", "DATE", "TIME(3)", "BYTES", "TIMESTAMP(3)", "TIMESTAMP(9)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
)  # fmt: skip
FUNCTIONS: tuple[SpaceFunction, ...] = (
    *(
        SpaceFunction(n, t, of(-3, -1, 0, 1, 2))
        for n in ("sum", "product")
        for t in ("TINYINT", "SMALLINT", "INT", "BIGINT")
    ),
    *(SpaceFunction("sum", t, of(0.1, -0.5, 1e10, -3.7)) for t in ("FLOAT", "DOUBLE")),
    *(SpaceFunction("product", t, of(0.5, 2.0, -3.0, 0.1)) for t in ("FLOAT", "DOUBLE")),
    SpaceFunction("sum", "DECIMAL(4, 2)", decimals(-999, 125, 3)),
    SpaceFunction("sum", "DECIMAL(30, 3)", decimals(-(10**29), 10**20, 5)),
    SpaceFunction("product", "DECIMAL(9, 2)", decimals(-150, 200, 100)),
    SpaceFunction("product", "DECIMAL(30, 3)", decimals(-1500, 2000, 10**20)),
    *(SpaceFunction(n, t, any_values) for t in COMPARED for n in ("max", "min")),
    *(SpaceFunction(n, "BOOLEAN", of(True, False)) for n in ("bool_and", "bool_or")),
    *(
        SpaceFunction(n, t, any_values)
        for n in ("first_value", "last_value", "first_non_null_value", "last_non_null_value")
        for t in ("INT", "STRING", "ARRAY<STRING>")
    ),
    SpaceFunction("first_not_null_value", "BIGINT", any_values),
    SpaceFunction("listagg", "STRING", TEXTS),
    SpaceFunction("listagg", "STRING", TEXTS, (("list-agg-delimiter", ";"),)),
    SpaceFunction("listagg", "STRING", TEXTS, (("distinct", "true"),)),
    SpaceFunction("listagg", "STRING", TEXTS, (("distinct", "true"), ("list-agg-delimiter", ";"))),
    SpaceFunction("listagg", "STRING", TEXTS, (("list-agg-delimiter", ""),)),
    SpaceFunction("collect", "ARRAY<INT>", of([], [1], [1, 2, 1], [None, 3], [2, 2])),
    SpaceFunction("collect", "ARRAY<DOUBLE>", FLOATS),
    SpaceFunction("collect", "ARRAY<DOUBLE>", FLOATS, (("distinct", "true"),), unordered=True),
    SpaceFunction(
        "collect", "ARRAY<ROW<a INT, b STRING>>", ROWS_OF_TWO, (("distinct", "true"),), unordered=True
    ),
    SpaceFunction("collect", "ARRAY<STRING>", of([], ["a"], ["b", "a"], [None])),
    SpaceFunction("collect", "ARRAY<DECIMAL(30, 2)>", PRICES, (("distinct", "true"),), unordered=True),
    SpaceFunction(
        "collect", "ARRAY<INT>", of([], [1], [2, 1, 2], [3]), (("distinct", "true"),), unordered=True
    ),
    # Without distinct, Java finds a ROW to retract only by the class in which it happens to hold it.
    SpaceFunction("collect", "ARRAY<ROW<a INT, b STRING>>", ROWS_OF_TWO, (("ignore-retract", "true"),)),
    SpaceFunction("merge_map", "MAP<STRING NOT NULL, INT>", maps),
    SpaceFunction("merge_map", "MAP<DATE NOT NULL, ARRAY<INT>>", dated),
    SpaceFunction("merge_map_with_keytime", TIMED, timed),
    SpaceFunction("merge_map_with_keytime", TIMED, timed, (("ts-field", "at"),)),
    SpaceFunction("nested_update", ROWS, nested),
    SpaceFunction("nested_update", ROWS, nested, (("count-limit", "3"),)),
    SpaceFunction("nested_update", ROWS, nested, (("nested-key", "id"),), unordered=True),
    SpaceFunction("nested_update", ROWS, nested, (("nested-key", "id,n"),), unordered=True),
    SpaceFunction(
        "nested_update",
        ROWS,
        nested,
        (("nested-key", "id"), ("nested-sequence-field", "n,v")),
        unordered=True,
    ),
    SpaceFunction(
        "nested_update", ROWS, nested, (("nested-key", "id"), ("nested-sequence-field", "n")), unordered=True
    ),
    *(
        SpaceFunction(
            name,
            ROWS,
            nested_nulls,
            (("nested-key", "id"), ("nested-key-null-strategy", strategy)),
            unordered=True,
        )
        for name in ("nested_update", "nested_partial_update")
        for strategy in ("merge", "ignore")
    ),
    SpaceFunction("nested_partial_update", ROWS, nested, (("nested-key", "id"),), unordered=True),
    SpaceFunction("rbm32", "BYTES", bitmaps32),
    SpaceFunction("rbm64", "BYTES", bitmaps64),
    SpaceFunction("theta_sketch", "BYTES", theta, sketch=True),
    SpaceFunction("hll_sketch", "BYTES", hll, sketch=True),
)
PLAIN = (
    "INT",
    "BIGINT",
    "STRING",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "DATE",
    "BYTES",
    "BOOLEAN",
    "ARRAY<INT>",
    "TIMESTAMP(3)",
)
ORDERING = (
    "INT", "BIGINT", "STRING", "DOUBLE", "FLOAT", "DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "BYTES",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE", "DECIMAL(20, 2)", "DECIMAL(38, 10)", "TINYINT", "BOOLEAN", "CHAR(4)",
)  # fmt: skip
KEYS = (
    "INT", "INT", "BIGINT", "BIGINT", "STRING", "STRING", "TINYINT", "CHAR(3)", "BYTES", "BINARY(2)", "DATE",
    "TIME(3)", "BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL(9, 2)", "DECIMAL(30, 3)", "TIMESTAMP(3)",
    "TIMESTAMP(9)", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
)  # fmt: skip


@dataclass(frozen=True)
class SpaceColumn:
    """A column that is no key, and the few values it takes."""

    name: str
    type: DataType
    pool: pa.Array
    function: SpaceFunction | None = None


@dataclass(frozen=True)
class MergeSpace:
    """A table of the space: its schema, and what rows for it look like."""

    number: int
    engine: str
    producer: str
    keys: Mapping[str, DataType]
    partitions: tuple[str, ...]
    columns: tuple[SpaceColumn, ...]
    options: Options
    pools: Mapping[str, pa.Array]

    @property
    def types(self) -> dict[str, DataType]:
        return {**self.keys, **{c.name: c.type for c in self.columns}}

    @property
    def functions(self) -> tuple[SpaceFunction, ...]:
        return tuple(c.function for c in self.columns if c.function is not None)

    @property
    def timing_matters(self) -> bool:
        """Whether rows depend on when a compaction drops a delete, or lone rows pass unmerged."""
        return self.engine != "deduplicate" or "sequence.field" in self.options

    def rows(self, rng: random.Random, count: int) -> pa.Table:
        """Random rows of few keys."""
        collected = {}
        for name, pool in self.pools.items():
            collected[name] = pool.take(pa.array(rng.choices(range(len(pool)), k=count)))
        for c in self.columns:
            chosen = [None if rng.random() < 0.25 else rng.randrange(len(c.pool)) for _ in range(count)]
            collected[c.name] = c.pool.take(pa.array(chosen, pa.int64()))
        return pa.table(collected)


def drawn(number: int) -> MergeSpace:
    """Table `number`."""
    rng = random.Random(number)
    engine, producer, extra = COMBINATIONS[number % len(COMBINATIONS)]
    options: Options = {"merge-engine": engine, "changelog-producer": producer, **extra}
    names = ["k"] if rng.random() < 0.7 else ["k", "j"]
    keys = {name: parse_type(f"{rng.choice(KEYS)} NOT NULL") for name in names}
    pools = {name: _few(rng, t, 12 if len(names) == 1 else 4) for name, t in keys.items()}
    partitions: tuple[str, ...] = ()
    if rng.random() < 0.2:
        keys, partitions = {"p": parse_type("STRING NOT NULL"), **keys}, ("p",)
        pools["p"] = pa.array(["0", "1", "2"])
    columns = [drawn_column(rng, f"o{i}", rng.choice(ORDERING)) for i in range(4)]
    columns += [drawn_column(rng, f"v{i}", rng.choice(PLAIN)) for i in range(rng.randrange(1, 4))]
    aggregated = [_aggregated(rng, f"c{i}", f) for i, f in enumerate(functions_of(number))]
    _layout(rng, options)
    if engine == "aggregation":
        columns += aggregated
        _aggregation(rng, columns, options)
    elif engine == "partial-update":
        columns += aggregated
        columns = _partial_update(rng, columns, options)
    elif rng.random() < 0.15:
        options["ignore-delete"] = "true"
    if engine != "first-row":
        _sequence(rng, options)
        if rng.random() < 0.1:
            options["ignore-update-before"] = "true"
    if producer in ("lookup", "full-compaction") and rng.random() < 0.5:
        _row_deduplicate(rng, columns, options)
    if rng.random() < 0.15:
        options["rowkind.field"] = KIND_COLUMN
        columns.append(drawn_column(rng, KIND_COLUMN, "STRING"))
    if any(f.name == "sum" and f.type == "DECIMAL(4, 2)" for f in functions_of(number)):
        options["file.format"] = "parquet"  # Avro and ORC lose what outgrows the digits, in both engines
        options.pop("file.format.per.level", None)
    kinds = [*keys.values(), *(c.type for c in columns)]
    if any(t.precision > 6 for t in kinds if t.root == "TIMESTAMP"):  # Avro has no such columns
        options |= {key: value.replace("avro", "orc") for key, value in options.items() if "format" in key}
    if any("-0.0" in str(pool.to_pylist()) for pool in [*pools.values(), *(c.pool for c in columns)]):
        # of an ORC batch of zeros Java reads every one with the sign of the first
        options |= {key: value.replace("orc", "parquet") for key, value in options.items() if "format" in key}
    return MergeSpace(number, engine, producer, keys, partitions, tuple(columns), options, pools)


def functions_of(number: int) -> Sequence[SpaceFunction]:
    """The next functions in turn, each in an engine that computes, and a round later in the other."""
    lap, place = divmod(number, len(COMBINATIONS))
    if place not in COMPUTING:
        return ()
    first = (COMPUTING.index(place) ^ (lap % 2)) * WIDTH
    return [FUNCTIONS[(first + i) % len(FUNCTIONS)] for i in range(WIDTH)]


def numbers(seeds: Sequence[int], each: int) -> Iterator[int]:
    """The tables of some seeds, `each` a seed."""
    return (seed * each + n for seed in seeds for n in range(each))


def drawn_column(rng: random.Random, name: str, t: str) -> SpaceColumn:
    kind = parse_type(t)
    return SpaceColumn(name, kind, pa.array(any_values(rng, kind), to_arrow(kind)))


def _few(rng: random.Random, t: DataType, most: int) -> pa.Array:
    """At most so many values of a key."""
    actual = {repr(v): v for v in (values.value(rng, t) for _ in range(4 * most))}
    return pa.array(list(actual.values())[:most], to_arrow(t))


def _aggregated(rng: random.Random, name: str, function: SpaceFunction) -> SpaceColumn:
    kind = parse_type(function.type)
    return SpaceColumn(name, kind, pa.array(function.pool(rng, kind), to_arrow(kind)), function)


def _layout(rng: random.Random, options: Options) -> None:
    options["bucket"] = rng.choice(["1", "1", "2"])
    options["file.format"] = rng.choice(["parquet", "parquet", "orc", "avro"])
    options["num-sorted-run.compaction-trigger"] = rng.choice(["2", "3", "5"])
    options["num-levels"] = rng.choice(["3", "4", "6"])
    options["snapshot.num-retained.min"] = "1000"
    if rng.random() < 0.15:
        options["data-file.thin-mode"] = "true"
    if rng.random() < 0.2:
        options["file.format.per.level"] = rng.choice(["0:avro", "0:orc,1:parquet"])


def _sequence(rng: random.Random, options: Options) -> None:
    if rng.random() < 0.4:
        options["sequence.field"] = ",".join(rng.sample(["o2", "o3"], rng.randrange(1, 3)))
        options["sequence.field.sort-order"] = rng.choice(["ascending", "ascending", "descending"])


def _function_options(rng: random.Random, column: SpaceColumn, options: Options) -> None:
    options[f"fields.{column.name}.aggregate-function"] = column.function.name
    options |= {f"fields.{column.name}.{key}": value for key, value in column.function.options}
    if rng.random() < 0.5:
        options[f"fields.{column.name}.ignore-retract"] = "true"


def _aggregation(rng: random.Random, columns: Sequence[SpaceColumn], options: Options) -> None:
    if rng.random() < 0.3:
        options["fields.default-aggregate-function"] = rng.choice(
            ["last_value", "first_value", "first_non_null_value", "last_non_null_value"]
        )
    for column in columns:
        if column.function is not None:
            _function_options(rng, column, options)
    own = [c for c in columns if c.function and "ignore-retract" in dict(c.function.options)]
    if rng.random() < 0.3 and not own:
        options["aggregation.remove-record-on-delete"] = "true"
        for key in [k for k in options if k.endswith(".ignore-retract")]:
            del options[key]


def _partial_update(rng: random.Random, columns: list[SpaceColumn], options: Options) -> list[SpaceColumn]:
    """Functions need a group, so without groups their columns are plain ones."""
    shape = rng.choice(["none", "one", "one", "pair", "two", "two", "pair and one", "three"])
    if shape == "none":
        options |= rng.choice(
            [{}, {"ignore-delete": "true"}, {"partial-update.remove-record-on-delete": "true"}]
        )
        if rng.random() < 0.3:
            options["fields.default-aggregate-function"] = "last_non_null_value"
        return [SpaceColumn(c.name, c.type, c.pool) for c in columns]
    free = [c.name for c in columns if not c.name.startswith("o")]
    cut = rng.randrange(1, len(free))
    groups = {
        "one": {"o0": free[:cut]},
        "pair": {"o0,o1": free},
        "two": {"o0": free[:cut], "o1": free[cut:]},
        "pair and one": {"o1,o0": free[:cut], "o2": free[cut:]},
        "three": {"o0": free[:cut], "o1": free[cut:-1], "o2,o3": free[-1:]},
    }[shape]
    groups = {sequence: guarded for sequence, guarded in groups.items() if guarded}
    for sequence, guarded in groups.items():
        options[f"fields.{sequence}.sequence-group"] = ",".join(guarded)
    inside = {name for guarded in groups.values() for name in guarded}
    removing = [n for sequence in groups for n in sequence.split(",") if rng.random() < 0.3]
    if removing:
        options["partial-update.remove-record-on-sequence-group"] = ",".join(removing)
    elif rng.random() < 0.2:
        options["ignore-delete"] = "true"
    created = [c if c.name in inside else SpaceColumn(c.name, c.type, c.pool) for c in columns]
    for column in created:
        if column.function is not None:
            _function_options(rng, column, options)
    return created


def _row_deduplicate(rng: random.Random, columns: Sequence[SpaceColumn], options: Options) -> None:
    """Not by columns whose equal values may differ in Java's bytes: arrays with NULLs, sketches, sets."""
    ignored = [
        c.name
        for c in columns
        if c.type.children or (c.function is not None and (c.function.sketch or c.function.unordered))
    ]
    if rng.random() < 0.4:
        ignored += [n for n in rng.sample([c.name for c in columns], 2) if n not in ignored]
    options["changelog-producer.row-deduplicate"] = "true"
    if ignored:
        options["changelog-producer.row-deduplicate-ignore-fields"] = ",".join(ignored)
