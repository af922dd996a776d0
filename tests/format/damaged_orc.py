"""A process that damages ORC files without checksums, one at a time, and reads each twice.

    python -m tests.format.damaged_orc SCRATCH SEED COUNT

Files are those of Java Paimon and pypaimon in `tests/golden`, and files of random columns in every codec. A
case cuts a file, zeroes a block or flips a bit. It prints a JSON line before it runs and one after, so that
the parent knows which case ended the process. Wrong is anything but the rows, or `Corrupt` with the file's
name; other rows are wrong, too, if counts, sums of integers or lengths of texts tell, or if the two reads
differ.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tablestore.core.errors import Corrupt
from tablestore.format import datafile
from tablestore.format.data_format import FileRequest
from tablestore.format.schema import TableSchema
from tablestore.io.fileio import LocalFileIO
from tests.format import samples
from tests.format.test_data_forms import schema_of, write
from tests.hostile.limits import at_most
from tests.read import golden

MEMORY = 6 << 30  # address space
SECONDS = 60  # CPU time of a case in this process
CODECS = ("none", "zstd", "zlib", "snappy", "lz4")
BLOCKS = (64, 256, 1024, 4096)
File = tuple[str, bytes, TableSchema, bool]
"""Where from, bytes, schema, whether it has system columns."""


def files(scratch: Path, seed: int) -> Iterator[File]:
    """Sound files without checksums."""
    java = [golden.java(name) for name in ("pk_orc", "pk_all_types_orc", "pk_nested_orc")]
    for store in (*java, golden.python("pk_all_types_orc")):
        for e in store.manifests.live_entries(store.snapshots.latest()):
            path = Path(store.file_path(e.partition, e.bucket, e.file))
            yield f"{path.parts[-3]}/{path.name}", path.read_bytes(), store.schema_of(e.file.schema_id), True
    for number, codec in enumerate(CODECS):
        columns = samples.types_of(samples.PRIMITIVES, samples.NESTED)
        rows = samples.table(columns, (50, 700)[number % 2], seed + number, years=(1971, 2200))
        path = scratch / f"{codec}.orc"
        schema = schema_of({"k": samples.parse_type("BIGINT NOT NULL"), **columns})
        write(path, schema, rows, **{"file.format": "orc", "file.compression": codec})
        yield path.name, path.read_bytes(), schema, False


def damaged(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    """What is done to a file, and its bytes then."""
    kind, at = rng.choice(("cut", "zero", "zero", "flip", "flip")), rng.randrange(len(data))
    if kind == "cut":
        return f"cut at {at}", data[:at]
    if kind == "zero":
        size = min(rng.choice(BLOCKS), len(data) - at)
        return f"{size} zeros at {at}", data[:at] + bytes(size) + data[at + size :]
    bit = rng.randrange(8)
    return f"bit {bit} of byte {at}", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def read(path: Path, schema: TableSchema, system: bool) -> pa.Table | Corrupt:
    """The rows, or the error that names the file."""
    try:
        request = FileRequest(schema.names, system=system)
        batches = list(datafile.read(LocalFileIO(), str(path), schema, request))
        return pa.Table.from_batches(batches) if batches else pa.table({})
    except Corrupt as e:
        return e


def told_by_statistics(rows: pa.Table) -> dict[str, Any]:
    """What statistics of a stripe say of each column."""
    collected: dict[str, Any] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            continue  # they are not held against statistics
        collected[name] = [len(column) - column.null_count]
        if pa.types.is_integer(column.type):
            collected[name].append(pc.min_max(column).as_py())
            if sum(map(abs, column.drop_null().to_pylist())) < 1 << 63:  # else writers leave the sum out
                collected[name].append(pc.sum(column).as_py())
        elif pa.types.is_string(column.type) and not name.endswith(
            "char"
        ):  # blanks at the end of CHAR vanish
            collected[name].append(pc.sum(pc.binary_length(column)).as_py())
    return collected


def bits(rows: pa.Table) -> pa.Table:
    """The rows with floats as integers, of which each is equal to itself."""
    for i, column in enumerate(rows.columns):
        if pa.types.is_floating(column.type):
            integers = pa.int32() if column.type == pa.float32() else pa.int64()
            rows = rows.set_column(i, rows.column_names[i], column.combine_chunks().view(integers))
    return rows


def judged(path: Path, sound: pa.Table, schema: TableSchema, system: bool) -> tuple[str, str | None]:
    """(how it ended, what is wrong with that)."""
    first, second = (read(path, schema, system) for _ in range(2))
    if isinstance(first, Corrupt) or isinstance(second, Corrupt):
        wrong = (
            None if isinstance(first, Corrupt) and isinstance(second, Corrupt) else "one read of two fails"
        )
        if isinstance(first, Corrupt) and first.path != str(path):
            wrong = f"another file is named: {first}"
        return "named", wrong
    if not bits(first).equals(bits(second)):
        return "other rows", "two reads differ"
    if bits(first).equals(bits(sound)):
        return "rows", None
    seen, wanted = told_by_statistics(first), told_by_statistics(sound)
    wrong_columns = [n for n, said in wanted.items() if seen.get(n, [])[: len(said)] != said]
    return "other rows", f"statistics tell of {wrong_columns}" if wrong_columns else None


def _hang(*_: Any) -> None:
    raise AssertionError(f"more than {SECONDS} s of CPU time")


def main(scratch: Path, seed: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    there, rng = list(files(scratch, seed)), random.Random(seed)
    sound: dict[str, pa.Table] = {}
    for number in range(count):
        name, data, schema, system = rng.choice(there)
        path = scratch / f"read-{Path(name).name}"
        if name not in sound:
            path.write_bytes(data)
            rows = read(path, schema, system)
            assert isinstance(rows, pa.Table), rows
            sound[name] = rows
        what, changed = damaged(rng, data)
        path.write_bytes(changed)
        case = {"case": number, "file": name, "what": what}
        print(json.dumps(case), flush=True)
        with at_most(SECONDS, _hang):
            outcome, wrong = judged(path, sound[name], schema, system)
        print(json.dumps({**case, "outcome": outcome, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
