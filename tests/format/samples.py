"""Random columns of any type, nested ones and the ends of ranges included, for tests of data files."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa

from tablestore.format.types.arrow_types import DataType, parse_type, to_arrow

DAY_MS = 86_400_000
PRIMITIVES = {
    "f_bool": "BOOLEAN",
    "f_i8": "TINYINT",
    "f_i16": "SMALLINT",
    "f_i32": "INT",
    "f_i64": "BIGINT",
    "f_f32": "FLOAT",
    "f_f64": "DOUBLE",
    "f_dec5": "DECIMAL(5, 2)",
    "f_dec18": "DECIMAL(18, 4)",
    "f_dec38": "DECIMAL(38, 10)",
    "f_char": "CHAR(12)",
    "f_vc": "VARCHAR(40)",
    "f_s": "STRING",
    "f_bin": "VARBINARY(30)",
    "f_bytes": "BYTES",
    "f_date": "DATE",
    "f_time": "TIME(3)",
    "f_ts0": "TIMESTAMP(0)",
    "f_ts3": "TIMESTAMP(3)",
    "f_ts6": "TIMESTAMP(6)",
    "f_ltz3": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "f_ltz6": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}
NANOS = {"f_ts9": "TIMESTAMP(9)", "f_ltz9": "TIMESTAMP(9) WITH LOCAL TIME ZONE"}
NESTED = {
    "n_arr": {"type": "ARRAY", "element": "INT"},
    "n_arr2": {"type": "ARRAY", "element": {"type": "ARRAY", "element": "STRING NOT NULL"}},
    "n_map": {"type": "MAP", "key": "STRING", "value": "DECIMAL(20, 3)"},
    "n_mapi": {"type": "MAP", "key": "INT", "value": {"type": "ARRAY", "element": "TIMESTAMP(3)"}},
    "n_multi": {"type": "MULTISET", "element": "STRING"},
    "n_row": {
        "type": "ROW",
        "fields": [
            {"name": "x", "type": "INT"},
            {"name": "d", "type": "DATE"},
            {"name": "t", "type": "TIME(3)"},
            {"name": "q", "type": {"type": "MAP", "key": "STRING", "value": "BYTES"}},
        ],
    },
    "n_rows": {
        "type": "ARRAY",
        "element": {
            "type": "ROW",
            "fields": [
                {"name": "u", "type": "BIGINT"},
                {"name": "w", "type": "TIMESTAMP(6)"},
            ],
        },
    },
}
VARIANT = {"v_any": "VARIANT"}


def types_of(*groups: dict[str, object]) -> dict[str, DataType]:
    """Columns by name."""
    return {name: parse_type(text) for group in groups for name, text in group.items()}


def sample(
    t: DataType, n: int, rng: np.random.Generator, *, years: tuple[int, int] = (1900, 2200)
) -> pa.Array:
    """`n` values of the type, about a sixth NULL if it may be; times within `years`."""
    mask = (rng.random(n) < 1 / 6) if t.nullable else np.zeros(n, dtype=bool)
    if t.root in ("ARRAY", "MAP", "MULTISET", "ROW"):
        return _nested(t, n, mask, rng, years)
    kind = to_arrow(t)
    if t.root == "VARIANT":
        value, metadata = pa.array([b"\x0c\x05"] * n), pa.array([b"\x01\x00\x00"] * n)
        return pa.StructArray.from_arrays([value, metadata], fields=list(kind), mask=pa.array(mask))
    values = _plain(t, n, rng, years)
    return pa.array([None if gone else v for gone, v in zip(mask, values, strict=True)], kind)


def _plain(t: DataType, n: int, rng: np.random.Generator, years: tuple[int, int]) -> list[object]:
    bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
    if t.root == "BOOLEAN":
        return rng.integers(0, 2, n).astype(bool).tolist()
    if t.root in bits:
        half = 1 << (bits[t.root] - 1)
        ends = np.array([-half, half - 1, 0, -1, 1])
        return np.where(
            rng.random(n) < 0.3, rng.choice(ends, n), rng.integers(-1000 % half * -1, 100, n)
        ).tolist()
    if t.root in ("FLOAT", "DOUBLE"):
        numbers = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
        return (numbers.astype(np.float32) if t.root == "FLOAT" else numbers).tolist()
    if t.root == "DECIMAL":
        digits = [int(rng.integers(0, 10 ** min(t.precision, 18))) for _ in range(n)]
        scaled = [d * 10 ** max(t.precision - 18, 0) * (1 if rng.random() < 0.5 else -1) for d in digits]
        return [Decimal(d).scaleb(-t.scale) if t.scale < 10 else _exact(d, t.scale) for d in scaled]
    if t.is_string:
        letters = list("abcé中\U0001f600")
        return ["".join(rng.choice(letters, int(rng.integers(1, min(t.precision, 25))))) for _ in range(n)]
    if t.is_binary:
        return [rng.bytes(int(rng.integers(0, min(t.precision, 25)))) for _ in range(n)]
    return _moments(t, n, rng, years)


def _exact(unscaled: int, scale: int) -> Decimal:
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale))


def _moments(t: DataType, n: int, rng: np.random.Generator, years: tuple[int, int]) -> list[object]:
    low, high = (int(np.datetime64(f"{y:04d}", "D").astype(int)) for y in years)
    days = rng.integers(low, high, n)
    if t.root == "DATE":
        return days.astype("datetime64[D]").tolist()
    millis = rng.integers(0, DAY_MS, n)
    if t.root == "TIME":
        return pa.array(millis.astype(np.int32)).cast(pa.time32("ms")).to_pylist()
    kind = to_arrow(t)
    per_milli = {"ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
    step = 10 ** ({"ms": 3, "us": 6, "ns": 9}[kind.unit] - t.precision)
    ticks = (days * DAY_MS + millis) * per_milli + rng.integers(0, per_milli, n)
    return (
        pa.array(ticks // step * step).cast(kind).to_pylist()
        if kind.unit != "ns"
        else (ticks // step * step).tolist()
    )


def _nested(
    t: DataType, n: int, mask: np.ndarray, rng: np.random.Generator, years: tuple[int, int]
) -> pa.Array:
    kind = to_arrow(t)
    if t.root == "ROW":
        children = [sample(f.type, n, rng, years=years) for f in t.children]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(mask))
    sizes = np.where(mask, 0, rng.integers(0, 4, n))
    bounds = np.r_[0, np.cumsum(sizes)].astype(np.int32)
    if t.root == "ARRAY":
        items = sample(t.element, int(bounds[-1]), rng, years=years)
        return pa.ListArray.from_arrays(pa.array(bounds), items, type=kind, mask=pa.array(mask))
    keys = [f"k{i}" if kind.key_type == pa.string() else i for size in sizes for i in range(size)]
    count = len(keys)
    values = (
        pa.array(rng.integers(1, 9, count), pa.int32())
        if t.root == "MULTISET"
        else sample(t.children[1].type, count, rng, years=years)
    )
    offsets = pa.array(bounds, pa.int32(), mask=np.r_[mask, False])
    return pa.MapArray.from_arrays(offsets, pa.array(keys, kind.key_type), values, type=kind)


def table(columns: dict[str, DataType], n: int, seed: int, **how: object) -> pa.Table:
    """Rows of those columns after a key `k` of 0, 1, 2, …"""
    rng = np.random.default_rng(seed)
    arrays = [pa.array(range(n), pa.int64()), *(sample(t, n, rng, **how) for t in columns.values())]
    return pa.table(arrays, names=["k", *columns])
