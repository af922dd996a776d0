"""Decodes a range of the log into rows with row kinds: the plain reader that tests use.

One JSON parse of a whole range with an explicit schema: the parser itself turns decimal text into decimals
and day numbers into dates, and skips the members that are not asked for. Lines of other topics give
null images.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from datasets.cdc.envelope import DATABASE, PREFIX
from datasets.cdc.source import Position, Source
from datasets.errors import DatasetError
from datasets.tpch.schema import SCHEMAS

INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = 0, 1, 2, 3
_OPS = {"c": INSERT, "r": INSERT, "u": UPDATE_BEFORE, "d": DELETE}
_BLOCK_BYTES = 8 << 20


def read_log(source: Source, start: Position, end: Position, *, table: str = "lineitem") -> pa.Table:
    """The changes of `table` from `start` to `end`, in log order; `decode` says which columns."""
    if table not in source.tables:
        raise DatasetError(f"no table {table!r} in this source; it has {', '.join(source.tables)}")
    pieces = [decode(b"", table, file="", offset=0)]
    for path, first, last in source.segments(start, end):
        with path.open("rb") as log:
            log.seek(first)
            pieces.append(decode(log.read(last - first), table, file=path.name, offset=first))
    return pa.concat_tables(pieces)


def decode(lines: bytes, table: str, *, file: str, offset: int) -> pa.Table:
    """Complete lines of the log as rows of `table`, then `_rowkind` (int8: 0 +I, 1 -U, 2 +U, 3 -D), and
    `_file` and `_offset` of the event's line. An update gives two rows, -U then +U.
    """
    schema = SCHEMAS[table]
    if lines and not lines.endswith(b"\n"):
        raise DatasetError(f"{file}: the line before offset {offset + len(lines)} is torn")
    parsed = _parse(lines, schema)
    begins = np.concatenate([[0], np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n"))[:-1] + 1])
    mine = pc.equal(parsed["topic"], f"{PREFIX}.{DATABASE}.{table}")
    offsets = offset + begins[: len(parsed)][mine.to_numpy()]
    value = parsed["value"].filter(mine).combine_chunks()
    kinds = _kinds(value.field("op"), file)
    twice = kinds == UPDATE_BEFORE
    event = np.repeat(np.arange(len(kinds)), 1 + twice)
    second = np.concatenate([[False], event[1:] == event[:-1]])[: len(event)]
    kind = np.where(second, UPDATE_AFTER, kinds[event]).astype(np.int8)
    from_after = (kind == INSERT) | (kind == UPDATE_AFTER)
    images = pa.concat_arrays([value.field("before"), value.field("after")])
    rows = images.take(pa.array(event + from_after * len(kinds)))
    order = [pa.array(kind), pa.repeat(pa.scalar(file), len(event)), pa.array(offsets[event])]
    names = [*schema.names, "_rowkind", "_file", "_offset"]
    return pa.table([*rows.flatten(), *order], names=names)


def _parse(lines: bytes, schema: pa.Schema) -> pa.Table:
    row = pa.struct([field.with_nullable(True) for field in schema])
    envelope = pa.struct([("before", row), ("after", row), ("op", pa.string())])
    wanted = pa.schema([("topic", pa.string()), ("value", envelope)])
    if not lines:
        return wanted.empty_table()
    return pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(block_size=_BLOCK_BYTES),
        parse_options=pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
    )


def _kinds(op: pa.Array, file: str) -> np.ndarray:
    at = pc.index_in(op, pa.array(list(_OPS)))
    if at.null_count:
        odd = op.filter(pc.is_null(at))[0].as_py()
        raise DatasetError(f"{file}: an event has op {odd!r}; known are {', '.join(_OPS)}")
    return np.array(list(_OPS.values()))[at.to_numpy()]
