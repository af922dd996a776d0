"""Small files of a bucket with keys apart from each other, joined into larger ones without decoding them.

What a rewrite of such files would give, row by row, at the cost of a copy: their row groups stay as they are
(`format/parquet/joining.py`). So only files whose row groups are not small are joined; the others are
decoded and written anew, as are files of another schema or form. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tablestore.format import stats
from tablestore.format.file_index.writing import index_specs
from tablestore.format.file_spec import FileSpec
from tablestore.format.manifests.manifest import COMPACT_SOURCE, DataFileMeta, SimpleStats
from tablestore.format.parquet.joining import join
from tablestore.format.types.arrow_types import DataField
from tablestore.lsm.compaction.compact_result import CompactResult
from tablestore.lsm.compaction.read_progress import ReadListener
from tablestore.lsm.levels.bucket_files import BucketFiles

LEAST_BYTES = 1 << 20  # of a file, on average: scans of row groups this size are as fast as of larger ones


class Joining:
    """Joins files of one bucket; `name` gives names of new ones without their suffix, `on_read` is called
    with the bytes of each that is copied."""

    def __init__(
        self, files: BucketFiles, name: Callable[[], str], *, on_read: ReadListener | None = None
    ) -> None:
        self._files, self._name, self._on_read = files, name, on_read
        self._schema, self._options = files.bucket.schema, files.bucket.options

    def run(self, before: Sequence[DataFileMeta], level: int) -> CompactResult | None:
        """Files of about the target size at `level` with the rows of `before`, which are in key order; one
        that fits to no neighbour moves. None: they cannot be joined, and nothing was written."""
        spec = FileSpec.of(self._options, level=level)
        if not self._alike(before, spec):
            return None
        after: list[DataFileMeta] = []
        written: list[DataFileMeta] = []
        try:
            for group in self._groups(before):
                if len(group) == 1:
                    after.append(group[0].upgraded(level))
                    continue
                joined = self._joined(group, spec, level)
                if joined is None:
                    self._files.delete(written)
                    return None
                written.append(joined)
                after.append(joined)
        except BaseException:
            self._files.delete(written)
            raise
        stay = {f.file_name for f in before if f.level == level} & {f.file_name for f in after}
        return CompactResult(
            tuple(f for f in before if f.file_name not in stay),
            tuple(f for f in after if f.file_name not in stay),
        )

    def _alike(self, files: Sequence[DataFileMeta], spec: FileSpec) -> bool:
        """Whether the files are of the form of new ones, and not too small."""
        if len(files) < 2 or sum(f.file_size for f in files) < LEAST_BYTES * len(files):
            return False
        if spec.format != "parquet" or (spec.indexed and index_specs(self._schema)):
            return False
        return all(
            f.schema_id == self._schema.id
            and f.file_name.endswith(spec.suffix)
            and FileSpec.of(self._options, level=f.level) == spec
            and not f.extra_files
            and f.embedded_index is None
            and f.value_stats_cols == files[0].value_stats_cols
            and f.first_row_id is None
            for f in files
        )

    def _groups(self, files: Sequence[DataFileMeta]) -> Iterator[list[DataFileMeta]]:
        """Neighbours of which each group makes a file."""
        target = self._options.target_bytes(keyed=True)
        group: list[DataFileMeta] = []
        size = 0
        for file in files:
            if group and size + file.file_size > target:
                yield group
                group, size = [], 0
            group.append(file)
            size += file.file_size
        yield group

    def _joined(self, group: Sequence[DataFileMeta], spec: FileSpec, level: int) -> DataFileMeta | None:
        """The file made of a group, with nothing left behind on an error."""
        files, bucket = self._files, self._files.bucket
        name = self._name() + spec.suffix
        external = files.place(name)
        try:
            size = join(bucket.io, [files.path(f) for f in group], files.path(name))
        except BaseException:
            files.delete([name])
            raise
        if size is None:
            return None
        for file in group:
            if self._on_read is not None:
                self._on_read(file.file_size)
        columns = group[0].value_stats_cols
        values = self._schema.fields if columns is None else self._schema.columns(columns)
        return replace(
            group[0],
            file_name=name,
            file_size=size,
            row_count=sum(f.row_count for f in group),
            max_key=group[-1].max_key,
            key_stats=_stats([f.key_stats for f in group], self._schema.key_fields, group),
            value_stats=_stats([f.value_stats for f in group], values, group),
            min_sequence=min(f.min_sequence for f in group),
            max_sequence=max(f.max_sequence for f in group),
            level=level,
            creation_time_ms=bucket.env.local_now_ms(),
            delete_count=_sum([f.delete_count for f in group]),
            file_source=COMPACT_SOURCE,
            external_path=external,
        )


def _stats(
    parts: Sequence[SimpleStats], fields: Sequence[DataField], group: Sequence[DataFileMeta]
) -> SimpleStats:
    return stats.merged(parts, [f.type for f in fields], [f.row_count for f in group])


def _sum(counts: Sequence[int | None]) -> int | None:
    present = [n for n in counts if n is not None]
    return sum(present) if len(present) == len(counts) else None
