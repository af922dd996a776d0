"""A process that asks damaged footers for all that Arrow knows of their chunks: `python -m … SEED`.

Arrow would end it where a footer is let through that it cannot bear; so it is a process of its own.
"""

from __future__ import annotations

import random
import struct
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq

from tablestore.format.parquet.checked_file import sound_metadata

ROWS = 50
FIELDS = [
    pa.field("number", pa.int32(), nullable=False),
    pa.field("flag", pa.bool_()),
    pa.field("text", pa.string()),
    pa.field("list", pa.list_(pa.int32())),
    pa.field("row", pa.struct([("a", pa.int64())])),
    pa.field("decimal", pa.decimal128(30, 2)),
    pa.field("float", pa.float64()),
]


def sound_file() -> bytes:
    """A file with columns of every kind that footers treat apart, in two row groups."""
    columns = [
        range(ROWS),
        [n % 2 == 0 for n in range(ROWS)],
        [f"x{n % 3}" for n in range(ROWS)],
        [[1, 2] if n % 2 else None for n in range(ROWS)],
        [{"a": n} for n in range(ROWS)],
        [Decimal(n) for n in range(ROWS)],
        [1.5] * ROWS,
    ]
    arrays = [pa.array(values, f.type) for values, f in zip(columns, FIELDS, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, schema=pa.schema(FIELDS)), sink, store_schema=False, row_group_size=25)
    return sink.getvalue().to_pybytes()


def look(footer: pq.FileMetaData) -> None:
    """Ask for everything that readers ask for."""
    for g in range(min(footer.num_row_groups, 4)):
        group = footer.row_group(g)
        for chunk in (group.column(c) for c in range(group.num_columns)):
            statistics = chunk.statistics
            bounds = (
                (statistics.min_raw, statistics.max_raw)
                if statistics is not None and statistics.has_min_max
                else ()
            )
            assert len(bounds) in (0, 2)
            assert isinstance(chunk.has_dictionary_page, bool)


def main(seed: int) -> None:
    """Flip a bit of every byte of the footer, and some bytes at random; print how many were let through."""
    rng, data = random.Random(seed), sound_file()
    look(sound_metadata(pa.BufferReader(data)))
    (length,) = struct.unpack("<I", data[-8:-4])
    places = range(len(data) - 8 - length, len(data) - 4)
    flips = [[(at, data[at] ^ 1 << rng.randrange(8))] for at in places]
    flips += [[(rng.choice(places), rng.randrange(256)) for _ in range(rng.randint(1, 4))] for _ in places]
    passed = 0
    for flip in flips:
        damaged = bytearray(data)
        for at, byte in flip:
            damaged[at] = byte
        try:
            footer = sound_metadata(pa.BufferReader(bytes(damaged)))
        except (ValueError, IndexError, OSError, pa.ArrowException):
            continue
        look(footer)
        passed += 1
    print(passed, len(flips))


if __name__ == "__main__":
    main(int(sys.argv[1]))
