"""What decodes ORC files that no checksum vouches for, in a process beside the reader's (FORMAT.md 3.3).

Readers of ORC trust run lengths and chunk headers: zeroed blocks of a file end a process, or give rows out of
uninitialised memory. So the structure of a stripe is checked before it is decoded (`orc/structure.py`), and
statistics after (`orc/statistics.py`); and what ends this process harms nobody. A request is one stripe, its
answer are Arrow batches. Memory: a stripe. Started by `orc/data.py`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from tablestore.core.errors import Corrupt, Unsupported
from tablestore.format import schema as schemas
from tablestore.format.data_format import complaints
from tablestore.format.orc import data, statistics, structure
from tablestore.io import process
from tablestore.io.process import Fetch
from tablestore.io.ranges import RangeReader


def answer_requests() -> NoReturn:
    """What the process runs."""
    process.serve(_answer)


def _answer(request: bytes, fetch: Fetch) -> Generator[pa.Buffer, None, bytes]:
    asked = json.loads(request)
    path, size = asked["path"], asked["size"]
    source = pa.PythonFile(RangeReader(fetch, size), mode="r")
    end: dict[str, Any]
    try:
        with process.limited(size), complaints(path, "ORC"):
            end = {"stripes": (yield from _decoded(source, asked))}
    except Corrupt as e:
        end = {"damaged": e.problem}
    except Unsupported as e:
        end = {"unsupported": [e.feature, e.why]}
    return json.dumps(end).encode()


def _decoded(source: Any, asked: Mapping[str, Any]) -> Generator[pa.Buffer, None, int]:
    """The batches of a stripe, encoded; returns how many stripes there are."""
    path, number = asked["path"], asked["stripe"]
    schema = schemas.from_json(asked["schema"].encode(), path)
    wanted = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(asked["wanted"])))
    tail = structure.sound_tail(source, asked["size"])
    file = data.opened(source, wanted, path)
    data.require_types(file.schema, wanted)
    if number < len(tail.stripes):
        structure.require_sound_stripe(source, tail, number, wanted.names)
        batches = data.stripe(
            file,
            source,
            number,
            schema,
            wanted,
            batch_rows=asked["batch_rows"],
            path=path,
            examine=partial(_examine, tail, number, wanted.names),
        )
        for rows in batches:
            yield rows.serialize()
    return len(tail.stripes)


def _examine(tail: structure.OrcTail, number: int, names: Sequence[str], rows: pa.RecordBatch) -> None:
    """Raise ValueError for rows of a stripe that are not those of its statistics."""
    stripe = tail.stripes[number]
    if rows.num_columns and rows.num_rows != stripe.rows:
        raise ValueError(f"stripe {number} gives {rows.num_rows:,} rows of {stripe.rows:,}")
    if not tail.statistics:
        return
    of_columns = tail.statistics[number]
    if len(of_columns) != tail.types:
        raise ValueError(f"stripe {number} has statistics of {len(of_columns)} types of {tail.types}")
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        column.validate(full=pa.types.is_nested(column.type))  # what is below it can be taken out
        statistics.require_same(name, column, tail.columns[name][0], of_columns)
    left_out = {i for name in set(names).difference(rows.schema.names) for i in tail.columns[name]}
    if left_out and not any(statistics.far_times(of_columns[i]) for i in left_out & tail.times):
        raise ValueError(f"stripe {number} gives times out of range, which its statistics deny")
