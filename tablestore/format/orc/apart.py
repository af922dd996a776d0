"""ORC files without a checksum, decoded in a process beside this one (FORMAT.md 3.3).

Readers of ORC trust run lengths and chunk headers: zeroed blocks of a file end a process, or give rows out of
uninitialised memory. So files that nothing vouches for are decoded where that harms nobody. The process looks
at the structure of the file first (`orc/structure.py`), and at statistics of what it decoded
(`orc/statistics.py`). One request is one stripe; its answer are Arrow batches, which `datafile`
validates. Memory: a stripe on either side. Used by `datafile`.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from tablestore.core.errors import Corrupt, Unavailable, Unsupported
from tablestore.format import schema as schemas
from tablestore.format.data_format import complaints, require_size
from tablestore.format.orc import data, statistics, structure
from tablestore.format.schema import TableSchema
from tablestore.io import process
from tablestore.io.fileio import FileIO
from tablestore.io.process import Fetch, ProcessLost
from tablestore.io.ranges import RangeReader

_ATTEMPTS = 2  # where others end the process


def read(
    io: FileIO,
    path: str,
    schema: TableSchema,
    wanted: pa.Schema,
    *,
    file_size: int | None = None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Batches as `orc.data.read` gives them; raises Corrupt, naming the file, for bytes on which a decoder
    ends."""
    with complaints(path, "ORC"):
        source = io.open_input(path)
    with contextlib.closing(source):
        size = source.size()
        require_size(size, file_size, path)
        request = {
            "path": path,
            "size": size,
            "schema": schemas.to_json(schema).decode(),
            "wanted": base64.b64encode(wanted.serialize()).decode(),
            "batch_rows": batch_rows,
        }
        number, stripes = 0, 1
        while number < stripes:
            parts, stripes = _asked(source, path, {**request, "stripe": number})
            for part in parts:
                with complaints(path, "ORC"):
                    rows = pa.ipc.read_record_batch(part, wanted)
                yield rows
            number += 1


def _asked(source: Any, path: str, request: Mapping[str, Any]) -> tuple[list[pa.Buffer], int]:
    """The batches of one stripe, encoded, and how many stripes there are."""

    def fetch(at: int, length: int) -> bytes:
        source.seek(at)
        data: bytes = source.read(length)
        return data

    for attempt in range(_ATTEMPTS):
        try:
            with process.borrowed(__name__, answer_requests.__name__) as decoder:
                parts, end = decoder.ask(json.dumps(request).encode(), fetch)
        except ProcessLost as e:
            if not e.by_others:
                problem = f"stripe {request['stripe']} is damaged: its decoder ended by {e}"
                raise Corrupt(path, problem) from None
            if attempt + 1 == _ATTEMPTS:
                raise Unavailable(0, f"{path}: the process that decodes it was ended by {e}") from None
            continue
        answer = json.loads(end)
        if "stripes" in answer:
            return parts, answer["stripes"]
        if "unsupported" in answer:
            raise Unsupported(*answer["unsupported"])
        raise Corrupt(path, answer["damaged"])
    raise AssertionError("the last attempt returns or raises")


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


def _examine(tail: structure.Tail, number: int, names: Sequence[str], rows: pa.RecordBatch) -> None:
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
