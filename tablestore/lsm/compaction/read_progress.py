"""Progress inside a bucket: bytes of a file as they are read.

The bytes of the file are spread evenly over its rows. Used by the rewriters of buckets and of append tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from tablestore.format.manifests.manifest import DataFileMeta

ReadListener = Callable[[float], None]  # takes the number of further bytes read


def reporting(
    batches: Iterable[pa.RecordBatch], file: DataFileMeta, on_read: ReadListener | None
) -> Iterator[pa.RecordBatch]:
    """The batches of a file; `on_read` is called with the bytes of each before it is yielded."""
    if on_read is None:
        yield from batches
        return
    a_row = file.file_size / max(1, file.row_count)
    for batch in batches:
        on_read(a_row * batch.num_rows)
        yield batch
