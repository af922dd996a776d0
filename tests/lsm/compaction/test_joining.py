"""Small files with keys apart from each other become one without being decoded: the same rows, statistics and
pages; where that cannot be, rows are written anew; damage and failures leave nothing wrong behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import binary_row, stats
from tablestore.format.manifests.manifest import SimpleStats
from tablestore.format.parquet.checked_file import require_pages
from tablestore.format.parquet.joining import join
from tablestore.format.stats import ColumnStats
from tablestore.format.types.arrow_types import BIGINT, STRING, DataField, DataType
from tablestore.io.fileio import LocalFileIO
from tablestore.lsm.compaction import rewriter
from tablestore.lsm.compaction.decision import CompactUnit
from tablestore.lsm.compaction.rewriter import Rewriter
from tests.faults import FullDisk
from tests.lsm.bucket import LiveBucket

DOUBLE = DataType("DOUBLE")
FIELDS = (DataField(0, "id", BIGINT), DataField(1, "v", STRING), DataField(2, "d", DOUBLE))
ROWS = 4_000  # of a file, which is large enough to have a checksum for each page
IO = LocalFileIO()


@pytest.fixture(autouse=True)
def small_files_are_joined(monkeypatch):
    monkeypatch.setattr(rewriter, "LEAST_BYTES", 1)


def rows(number, *, count=ROWS, step=1):
    """Rows of the file of this number, after those of the files before; a few values are absent."""
    start = number * ROWS
    ids = range(start, start + count, step)
    return [(i, None if i % 7 == 0 else f"text {i * 7919 % 1_000_003}", i * 0.5) for i in ids]


def bucket_of(tmp_path, *batches, fields=FIELDS, **options):
    names = {name.replace("_", "-"): value for name, value in options.items()}
    bucket = LiveBucket(str(tmp_path / "bucket"), {"file.compression": "none", **names}, fields=fields)
    for batch in batches:
        bucket.write(batch)
    return bucket


def compacted(bucket, level=5, **options):
    result = Rewriter(bucket.files, **options).run(CompactUnit(level, bucket.levels.files), bucket.levels)
    for file in result.before:
        bucket.live.remove(file)
    bucket.live += result.after
    return result


def groups(bucket, file):
    return pq.read_metadata(f"{bucket.directory}/{file.file_name}").num_row_groups


def test_the_rows_of_all_files_come_in_key_order_from_one(tmp_path):
    bucket = bucket_of(tmp_path, *(rows(n) for n in (2, 0, 1)))
    sources = sorted(bucket.live, key=lambda f: f.max_sequence)
    wanted = bucket.rows()
    result = compacted(bucket)
    (file,) = result.after
    assert groups(bucket, file) == 3
    assert bucket.rows() == wanted
    assert [r[2] for r in bucket.file_rows(file)] == list(range(3 * ROWS))
    assert set(result.before) == set(sources)
    assert require_pages(IO, f"{bucket.directory}/{file.file_name}")


def test_the_metadata_is_that_of_a_file_written_anew(tmp_path, monkeypatch):
    collected = []
    for least in (1, 1 << 40):
        monkeypatch.setattr(rewriter, "LEAST_BYTES", least)
        bucket = bucket_of(tmp_path / str(least), *(rows(n) for n in (1, 0)))
        (file,) = compacted(bucket).after
        kept = ("row_count", "min_key", "max_key", "key_stats", "value_stats", "min_sequence", "max_sequence")
        kept += ("schema_id", "level", "delete_count", "file_source", "value_stats_cols", "extra_files")
        collected.append({name: getattr(file, name) for name in kept})
        assert groups(bucket, file) == (2 if least == 1 else 1)
        assert file.file_size == Path(bucket.directory, file.file_name).stat().st_size
    assert collected[0] == collected[1]


def test_a_joined_file_is_joined_again(tmp_path):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    compacted(bucket, level=4)
    bucket.write(rows(2))
    wanted = bucket.rows()
    (file,) = compacted(bucket).after
    assert groups(bucket, file) == 3
    assert bucket.rows() == wanted


def test_files_end_at_the_target_size_and_one_alone_moves(tmp_path):
    bucket = bucket_of(tmp_path, *(rows(n) for n in range(3)))
    largest = max(f.file_size for f in bucket.live)
    bucket.options = {
        **bucket.options,
        "target-file-size": str(2 * largest),
        "compaction.small-file-ratio": "1",
    }
    wanted = bucket.rows()
    last = max(bucket.live, key=lambda f: f.max_sequence)
    result = compacted(bucket)
    assert [f.row_count for f in result.after] == [2 * ROWS, ROWS]
    assert result.after[1] == last.upgraded(5)
    assert len(result.written) == 1
    assert bucket.rows() == wanted


def test_progress_is_shown_in_bytes(tmp_path):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    read = []
    compacted(bucket, on_read=read.append)
    assert sorted(read) == sorted(f.file_size for f in bucket_of(tmp_path / "again", rows(0), rows(1)).live)


CHANGES = {
    "keys of two files": lambda bucket: bucket.write(rows(0, step=3)),
    "deletions at the oldest level": lambda bucket: bucket.write(
        [(10 * ROWS + i, "x" * 60, 0.0) for i in range(ROWS)], [3] * ROWS
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_are_written_anew_where_some_change(tmp_path, change):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    CHANGES[change](bucket)
    wanted = {row[0]: row for n in (0, 1) for row in rows(n)}
    (file,) = compacted(bucket).after
    assert groups(bucket, file) == 1
    assert {row[0]: row for row in bucket.rows()} == wanted
    assert file.delete_count == 0


def test_another_form_of_files_is_written_anew(tmp_path):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    bucket.options = {**bucket.options, "file.compression.per.level": "5:zstd"}
    (file,) = compacted(bucket).after
    assert groups(bucket, file) == 1
    chunk = pq.read_metadata(f"{bucket.directory}/{file.file_name}").row_group(0).column(0)
    assert chunk.compression == "ZSTD"


def test_files_of_an_older_schema_are_written_anew(tmp_path):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    bucket.older[0] = bucket.schema
    bucket.fields = (*FIELDS, DataField(3, "new", STRING))
    (file,) = compacted(bucket).after
    assert (groups(bucket, file), file.schema_id) == (1, 1)


def test_file_indexes_are_made_anew(tmp_path):
    options = {"file-index.bloom-filter.columns": "v"}
    bucket = bucket_of(tmp_path, rows(0), rows(1), **options)
    (file,) = compacted(bucket).after
    assert groups(bucket, file) == 1
    assert file.extra_files or file.embedded_index


def test_files_without_checksums_of_pages_are_not_joined(tmp_path):
    """As other programs write them."""
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    for file in bucket.live:
        path = Path(bucket.directory, file.file_name)
        pq.write_table(pq.read_table(path), path)
    paths = [f"{bucket.directory}/{f.file_name}" for f in bucket.live]
    assert join(IO, paths, str(tmp_path / "joined")) is None
    assert not (tmp_path / "joined").exists()


def test_files_of_other_columns_are_not_joined(tmp_path):
    first = bucket_of(tmp_path / "one", rows(0))
    other = bucket_of(tmp_path / "other", [(i, "x" * 60) for i in range(ROWS)], fields=FIELDS[:2])
    paths = [f"{b.directory}/{b.live[0].file_name}" for b in (first, other)]
    assert join(IO, paths, str(tmp_path / "joined")) is None
    assert not (tmp_path / "joined").exists()


def flipped(bucket, file, at):
    path = Path(bucket.directory, file.file_name)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("at", [6, -200, -30])
def test_damage_in_a_header_or_the_footer_ends_the_compaction(tmp_path, at):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    flipped(bucket, bucket.live[1], at)
    before = bucket.on_disk()
    with pytest.raises(Corrupt, match=bucket.live[1].file_name):
        compacted(bucket)
    assert bucket.on_disk() == before


def test_damage_in_a_page_stays_visible(tmp_path):
    bucket = bucket_of(tmp_path, rows(0), rows(1))
    flipped(bucket, bucket.live[1], bucket.live[1].file_size // 2)
    (file,) = compacted(bucket).after
    with pytest.raises(Corrupt, match=file.file_name):
        bucket.file_rows(file)
    with pytest.raises(ValueError, match="does not match its checksum"):
        require_pages(IO, f"{bucket.directory}/{file.file_name}")


def test_nothing_is_left_of_a_failure(tmp_path):
    bucket = bucket_of(tmp_path, *(rows(n) for n in range(4)))
    size = max(f.file_size for f in bucket.live)
    bucket.options = {**bucket.options, "target-file-size": str(2 * size), "compaction.small-file-ratio": "1"}
    before = bucket.on_disk()
    bucket.io = FullDisk(1)
    with pytest.raises(OSError, match="No space left"):
        compacted(bucket)
    assert bucket.on_disk() == before


TYPES = [BIGINT, STRING, DOUBLE]


def of(*columns):
    return stats.encode([ColumnStats(*c, 10) for c in columns], TYPES)


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ([(1, 5, 0), (3, 9, 2)], (1, 9, 2)),
        ([(None, None, 10), (3, 9, 2)], (3, 9, 12)),
        ([(None, None, 3), (3, 9, 2)], (None, None, 5)),
        ([(1, 5, None), (3, 9, 2)], (1, 9, None)),
        ([(None, None, 10), (None, None, 10)], (None, None, 20)),
    ],
)
def test_statistics_of_files_together(parts, wanted):
    empty = (None, None, 10)
    actual = stats.merged([of(part, empty, empty) for part in parts], TYPES, [10] * len(parts))
    assert isinstance(actual, SimpleStats)
    decoded = stats.decode(actual, TYPES, 20)[0]
    assert (decoded.min, decoded.max, decoded.null_count) == wanted


def test_bounds_of_floats_order_as_in_java():
    nan = float("nan")
    empty = (None, None, 10)
    parts = [of(empty, ("b", "c", 0), (0.0, 1.0, 0)), of(empty, ("a", "bb", 0), (-0.0, nan, 0))]
    for order in (parts, parts[::-1]):
        actual = stats.merged(order, TYPES, [10, 10])
        assert actual.min_values == binary_row.encode([None, "a", -0.0], TYPES)
        assert actual.max_values == binary_row.encode([None, "c", nan], TYPES)
