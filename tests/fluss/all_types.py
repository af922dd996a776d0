"""Columns of every type of Fluss, and random rows of them with NULLs, negatives and both ends of their
ranges."""

from __future__ import annotations

import random
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa

from tablestore.fluss.types import arrow_type
from tablestore.format.types.arrow_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    BYTES,
    CHAR,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TINYINT,
)
from tablestore.format.types.data_type import DataType

TYPES: dict[str, DataType] = {
    "boolean": BOOLEAN,
    "tinyint": TINYINT,
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal_9": DECIMAL(9, 2),
    "decimal_18": DECIMAL(18, 3),
    "decimal_38": DECIMAL(38, 10),
    "char": CHAR(5),
    "string": STRING,
    "binary": BINARY(4),
    "bytes": BYTES,
    "date": DATE,
    "time_0": TIME(0),
    "time_3": TIME(3),
    "timestamp_0": TIMESTAMP(0),
    "timestamp_3": TIMESTAMP(3),
    "timestamp_6": TIMESTAMP(6),
    "timestamp_9": TIMESTAMP(9),
    "instant_0": TIMESTAMP_LTZ(0),
    "instant_3": TIMESTAMP_LTZ(3),
    "instant_6": TIMESTAMP_LTZ(6),
    "instant_9": TIMESTAMP_LTZ(9),
}
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_EXACT = Context(prec=60)


def random_rows(rows: int, seed: int, *, nulls: float = 0.2) -> pa.RecordBatch:
    """Rows of all types in the form of log batches."""
    rng = random.Random(seed)
    arrays = [random_column(t, rows, rng, nulls=nulls) for t in TYPES.values()]
    schema = pa.schema([pa.field(name, arrow_type(t), nullable=t.nullable) for name, t in TYPES.items()])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def random_column(t: DataType, rows: int, rng: random.Random, *, nulls: float = 0.0) -> pa.Array:
    arrow = arrow_type(t)
    values = [None if rng.random() < nulls else _value(t, arrow, rng) for _ in range(rows)]
    if not pa.types.is_temporal(arrow):
        return pa.array(values, arrow)
    narrow = pa.types.is_date32(arrow) or pa.types.is_time32(arrow)
    return pa.array(values, pa.int32() if narrow else pa.int64()).cast(arrow)


def _value(t: DataType, arrow: pa.DataType, rng: random.Random) -> object:
    match t.root:
        case "BOOLEAN":
            return rng.random() < 0.5
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            end = 1 << (_BITS[t.root] - 1)
            some = 1 << rng.randrange(_BITS[t.root] - 1)
            return rng.choice([-end, end - 1, 0, -1, some, -some, rng.randrange(-end, end)])
        case "FLOAT":
            return float(np.float32(rng.gauss(0, 1e5)))
        case "DOUBLE":
            return rng.gauss(0, 1e10)
        case "DECIMAL":
            most = 10**t.precision - 1
            size = 10 ** rng.randint(1, t.precision) - 1
            unscaled = rng.choice(
                [0, -1, 127, 128, 255, 256, -128, -129, most, -most, rng.randint(-size, size)]
            )
            return Decimal(unscaled).scaleb(-t.scale, _EXACT)
        case "CHAR":
            return "".join(rng.choice("abcé") for _ in range(t.precision))
        case "VARCHAR":
            return "x" * rng.choice([0, 1, 5, 127, 128, 300]) + rng.choice(["", "日"])
        case "BINARY":
            return rng.randbytes(t.precision)
        case "VARBINARY":
            return rng.randbytes(rng.choice([0, 1, 3, 200]))
        case "DATE":
            return rng.randint(-700_000, 700_000)
        case "TIME":
            return rng.randrange(86_400 if arrow.unit == "s" else 86_400_000)
        case _:
            return rng.randint(-(10**18), 10**18) // _NANOS[arrow.unit]
