"""Roll-up and retention: many small log files become a segment, old ones go.

A segment is made of all files of an aligned range of numbers (`directory.TIERS`) if they are small together;
rows in part files stay there. In the log of a table whose newest row of a key is its state, rows that every
snapshot holds are reduced to the newest of each key (their offsets then have gaps). A segment is there before
its files are removed, so a kill leaves files that a segment covers: `expire` removes those.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tablestore.io import outcomes
from tablestore.io.fileio import Sync
from tablestore.io.paths import join
from tablestore.log.embedded import continuity, files
from tablestore.log.embedded.directory import SETTLED_MS, SPAN, TIERS, LogDirectory, segment_of
from tablestore.log.embedded.files import LogChunk, LogHeader, Range
from tablestore.log.embedded.folder import LogFile
from tablestore.log.offsets import Offsets, reaches

log = logging.getLogger(__name__)
_LARGEST = 32 << 20  # bytes of a segment's own rows


@dataclass(frozen=True, slots=True)
class RollUp:
    """How segments are made. `keys`: the columns of the primary key where the newest row of a key is its
    state, else none."""

    compression: str | None
    keys: tuple[str, ...] = ()


def due(chain: Sequence[Range], span: int) -> list[Range]:
    """The aligned ranges of so many numbers that more than one file of `chain` covers; not the newest, which
    readers still follow number by number.

    >>> due([(n, n) for n in range(1, 71)], 32)
    [(1, 32)]
    """
    by_segment: dict[Range, list[Range]] = {}
    for numbers in chain:
        by_segment.setdefault(segment_of(numbers[0], span), []).append(numbers)
    newest = chain[-1][1] if chain else 0
    return [
        segment
        for segment, inside in by_segment.items()
        if (inside[0][0], inside[-1][1]) == segment and len(inside) > 1 and segment[1] <= newest - SPAN
    ]


def roll_up(
    directory: LogDirectory, segment: Range, how: RollUp, *, everywhere: Offsets | None = None
) -> bool:
    """Make one file of those of an aligned range; False where they are too large or not all there.

    Rows below `everywhere`, which every snapshot has, are reduced to the newest of each key.
    """
    chain = [numbers for numbers in directory.chain() if numbers[0] >= segment[0]]
    inside = [numbers for numbers in chain if numbers[1] <= segment[1]]
    if len(inside) < 2 or (inside[0][0], inside[-1][1]) != segment:
        return False
    log_files = list(directory.files_of(chain, last=segment[1]))
    if not log_files or sum(file.header.length for file in log_files) > _LARGEST:
        return False
    keys = how.keys if everywhere is not None and reaches(everywhere, log_files[-1].header.end) else ()
    chunks, body = _rolled_up(directory, log_files, replace(how, keys=keys))
    header = LogHeader(
        *segment,
        start=log_files[0].header.start,
        transactions=[t for file in log_files for t in file.header.transactions],
        chunks=chunks,
        length=sum(map(len, body)),
        cut=tuple(log_files[0].header.cut),
        table=log_files[-1].header.table,
    )
    # synced whatever the options say: its files may have been on the disk for long
    data, after = files.encode(header, body), Sync(directory.root)
    if not outcomes.put_new(directory.io, directory.file_path(segment), data, unique=False, after=after):
        directory.require_whole(directory.file(segment))
    directory.replace_by_segment(segment)
    for numbers in inside:
        directory.io.delete(directory.file_path(numbers))
    log.info("rolled %d files of %s up into %s", len(inside), directory.path, files.file_name(*segment))
    return True


def roll_up_due(directory: LogDirectory, how: RollUp, *, everywhere: Offsets | None) -> int:
    """Roll up all that is due, small ranges first; how many segments were made. Where keys count and
    `everywhere` is given, larger segments are only made of what every snapshot holds."""
    segments = 0
    for span in TIERS:
        for segment in _small(directory, due(directory.chain(), span), span):
            if (
                span > SPAN
                and how.keys
                and everywhere is not None
                and not _reach(directory, segment, everywhere)
            ):
                break
            segments += roll_up(directory, segment, how, everywhere=everywhere)
    return segments


def _small(directory: LogDirectory, segments: Sequence[Range], span: int) -> list[Range]:
    """Those whose files are small together, by one listing."""
    if not segments:
        return []
    total = dict.fromkeys(segments, 0)
    for status in directory.io.list(directory.path):
        numbers = files.numbers(status.name)
        if numbers is not None and (segment := segment_of(numbers[0], span)) in total:
            total[segment] += status.size
    return [segment for segment in segments if total[segment] <= _LARGEST]


def expire(
    directory: LogDirectory, keep: Offsets, *, retention_ms: int | None, retention_bytes: int | None
) -> int:
    """Remove the oldest files that are too old, or too many bytes, and lie wholly below `keep`; how many
    bytes went. The newest file stays, and so do those younger than `SETTLED_MS`; all do where the new start
    of the log cannot be written down first."""
    directory.end()
    directory.forget()
    for name in directory.unneeded(keep):
        directory.io.delete(join(directory.path, name))
    if retention_ms is None and retention_bytes is None:
        return 0
    chain = directory.chain()
    sizes = _sizes(directory)
    total, removed, now = sum(sizes.values()), 0, directory.env.now_ms()
    oldest = 0
    for file in _until_young(directory, chain, now - SETTLED_MS):
        header = file.header
        too_old = retention_ms is not None and header.timestamp_ms < now - retention_ms
        too_much = retention_bytes is not None and total - removed > retention_bytes
        if not (too_old or too_much) or not reaches(keep, header.end):
            break
        if not continuity.note_start(directory, header.last + 1):
            break  # the next time
        while oldest < len(chain) and chain[oldest][1] <= header.last:  # torn ones before it, too
            removed += _delete(directory, directory.file_path(chain[oldest]), sizes)
            oldest += 1
        for part in header.parts:  # nothing names them any more
            removed += _delete(directory, directory.part_path(part), sizes)
    directory.forget()
    if removed:
        log.info("expired %d files of %s: %d bytes", oldest, directory.path, removed)
    return removed


def orphans(directory: LogDirectory, *, older_than_ms: int) -> list[tuple[str, int]]:
    """(path, bytes) of part and temporary files of that age that no log file names: what killed writers left.
    Parts that tasks staged and nobody has committed yet are among them, so the age must be that of the
    longest write."""
    before = directory.env.now_ms() - older_than_ms
    parts = join(directory.path, "parts")
    entries = [
        *(
            (directory.path, s)
            for s in directory.io.list(directory.path, hidden=True)
            if s.name.endswith(".tmp")
        ),
        *((parts, s) for s in directory.io.list(parts, hidden=True)),
    ]
    unnamed = {join(folder, s.name): s.size for folder, s in entries if s.modified_ms < before}
    if unnamed:  # what is committed meanwhile names its parts
        directory.end()
        directory.forget()
        for file in directory.files_of(directory.chain()):
            for part in file.header.parts:
                unnamed.pop(directory.part_path(part), None)
    return sorted(unnamed.items())


def _rolled_up(
    directory: LogDirectory, small: Sequence[LogFile], how: RollUp
) -> tuple[list[LogChunk], list[pa.Buffer]]:
    """The chunks of a segment, by bucket, and their bytes."""
    chunks: list[LogChunk] = []
    body: list[pa.Buffer] = []
    length = 0
    every = [(file, chunk) for file in small for chunk in file.header.chunks]
    for bucket in sorted({chunk.bucket for _, chunk in every}):
        for run in _runs([pair for pair in every if pair[1].bucket == bucket], gaps=bool(how.keys)):
            first, last = run[0][1], run[-1][1]
            if first.part is not None:
                chunks.append(first)
                continue
            sparse = first.sparse or bool(how.keys)
            batches = [_batch(directory, file, chunk, sparse=sparse) for file, chunk in run]
            table = pa.Table.from_batches(batches)
            if how.keys and set(how.keys) <= set(table.schema.names):
                table = _newest(table, how.keys)
            data = files.encode_rows(table.combine_chunks().to_batches(), how.compression)
            body.append(data)
            chunk = replace(first, end=last.end, rows=table.num_rows, position=length, length=len(data))
            chunks.append(replace(chunk, crc=zlib.crc32(data), sparse=sparse))
            length += len(data)
    return chunks, body


def _runs(
    pairs: Sequence[tuple[LogFile, LogChunk]], *, gaps: bool
) -> Iterator[list[tuple[LogFile, LogChunk]]]:
    """Adjacent chunks of a bucket that can be one: of one schema, and dense together unless `gaps`."""
    run: list[tuple[LogFile, LogChunk]] = []
    for pair in pairs:
        chunk = pair[1]
        if run:
            before = run[-1][1]
            alike = before.schema_id == chunk.schema_id and before.part is None and chunk.part is None
            dense = not before.sparse and not chunk.sparse and before.end == chunk.start
            if not (alike and (gaps or dense or (before.sparse and chunk.sparse))):
                yield run
                run = []
        run.append(pair)
    if run:
        yield run


def _batch(directory: LogDirectory, file: LogFile, chunk: LogChunk, *, sparse: bool) -> pa.RecordBatch:
    """The rows of a chunk, with their offsets if `sparse`."""
    data = directory.rows_of(file, chunk)
    files.require_intact(data, chunk, file.path)
    with pa.ipc.open_stream(data) as reader:
        (rows,) = reader.read_all().combine_chunks().to_batches()
    if chunk.sparse or not sparse:
        return rows
    field = pa.field(files.OFFSET, pa.int64(), nullable=False)
    return rows.add_column(1, field, pa.array(np.arange(chunk.start, chunk.end)))


def _newest(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The newest row of each key, in the order of the log."""
    places = pa.array(np.arange(table.num_rows))
    last = table.select(list(keys)).append_column(files.OFFSET, places).group_by(list(keys))
    chosen = last.aggregate([(files.OFFSET, "max")]).column(f"{files.OFFSET}_max").to_numpy()
    return table.take(pa.array(np.sort(chosen)))


def _reach(directory: LogDirectory, segment: Range, keep: Offsets) -> bool:
    chain = [numbers for numbers in directory.chain() if numbers[0] >= segment[0]]
    return all(reaches(keep, file.header.end) for file in directory.files_of(chain, last=segment[1]))


def _until_young(directory: LogDirectory, chain: Sequence[Range], before_ms: int) -> Iterator[LogFile]:
    """The sound files but for the newest, up to the first that was appended at or behind that moment."""
    older: LogFile | None = None
    for file in directory.files_of(chain):
        if older is not None:
            if older.header.timestamp_ms >= before_ms:
                return
            yield older
        older = file


def _delete(directory: LogDirectory, path: str, sizes: Mapping[str, int]) -> int:
    directory.io.delete(path)
    return sizes.get(path, 0)


def _sizes(directory: LogDirectory) -> dict[str, int]:
    """Bytes of every log and part file."""
    parts = join(directory.path, "parts")
    return {
        join(folder, status.name): status.size
        for folder in (directory.path, parts)
        for status in directory.io.list(folder)
        if not status.is_dir
    }
