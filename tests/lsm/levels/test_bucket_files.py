"""Files of a bucket: append layout, files outside the table, and nothing left behind when anything fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, InvalidOption, InvalidRequest, TablestoreError, Unsupported
from tablestore.core.options.table_options import TableOptions
from tablestore.format.manifests.manifest import COMPACT_SOURCE
from tablestore.format.types.arrow_types import BIGINT, STRING
from tablestore.io.confined import ConfinedFileIO, named_roots
from tablestore.io.fileio import LocalFileIO
from tablestore.io.paths import EXTERNAL_PATHS, ExternalPaths, checked_external, external_roots
from tablestore.lsm.levels.bucket import AppendRows, Bucket, BucketFiles, FileNames, RollingWriter, write_all
from tests.faults import FaultyIO
from tests.tables import schema_of

FORMS = ("parquet", "orc", "avro")


def bucket(
    folder: Path, options: dict[str, str], *, io: Any = None, partitions: tuple[str, ...] = ()
) -> BucketFiles:
    columns = {"k": BIGINT, "s": STRING, "p": STRING}
    schema = schema_of(columns, partition_by=partitions, options=options)
    parts = [options["data-file.path-directory"]] if "data-file.path-directory" in options else []
    parts += [f"{p}=a%2Fb" for p in partitions]
    table, chosen = str(folder / "t"), TableOptions.parse(options)
    directory = "/".join([table, *parts, "bucket-0"])
    named = [place.removeprefix("file:") for place in external_roots(options.get(EXTERNAL_PATHS, ""))]
    own = ConfinedFileIO(io or LocalFileIO(), table, named_roots(named))
    return BucketFiles(Bucket(Env(), own, b"", 0, 1, directory, schema, chosen, lambda i: schema, str))


def batches(rows: int, step: int = 1000) -> Iterator[pa.RecordBatch]:
    for at in range(0, rows, step):
        numbers = range(at, min(at + step, rows))
        yield pa.record_batch(
            {"k": numbers, "s": [f"{n * 7919 % rows:09d}" * 3 for n in numbers], "p": ["a/b"] * len(numbers)}
        )


def append(files: BucketFiles, first: int = 0) -> RollingWriter:
    return RollingWriter(files, FileNames(files).data, level=0, source=0, append=AppendRows(first))


@pytest.mark.parametrize("form", FORMS)
def test_append_files_roll_and_count_rows(tmp_path: Path, form: str) -> None:
    files = bucket(tmp_path, {"file.format": form, "target-file-size": "100 kb", "file.block-size": "64 kb"})
    writer = append(files, 17)
    for batch in batches(60_000):
        writer.write(batch)
    written = writer.close()
    assert len(written) > 1
    assert written[0].min_sequence == 17
    for before, after in pairwise(written):
        assert after.min_sequence == before.max_sequence + 1
    assert written[-1].max_sequence == 17 + 60_000 - 1
    assert all(f.file_name.endswith(f".{form}") and f.delete_count == 0 for f in written)
    numbers = [n for f in written for b in files.read(f, system=False) for n in b.column("k").to_pylist()]
    assert numbers == list(range(60_000))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
def test_nothing_stays_when_any_operation_fails(tmp_path: Path, form: str, outside: bool) -> None:
    options = {
        "file.format": form,
        "file-index.bitmap.columns": "s",
        "file-index.in-manifest-threshold": "0b",
        "target-file-size": "20 kb",
    }
    if outside:
        options |= {"data-file.external-paths": f"file:{tmp_path}/x, file:{tmp_path}/y"}
        options |= {"data-file.external-paths.strategy": "round-robin"}
    whole = FaultyIO()
    written = write_all(append(bucket(tmp_path / "whole", options, io=whole)), batches(1500, 700))
    for f in written:
        (index,) = f.extra_files
        assert re.fullmatch(rf"{re.escape(f.file_name)}\.crc32-[0-9a-f]{{8}}\.index", index)
    assert outside == (written[0].external_path is not None)
    for path in list(tmp_path.rglob("data-*")):
        path.unlink()
    steps = range(0, whole.count, 1 if whole.count < 40 else 3)
    for step in steps:
        io = FaultyIO(step)
        files = bucket(tmp_path, options, io=io)
        with pytest.raises((TablestoreError, OSError)):
            write_all(append(files), batches(1500, 700))
        io.fail_at = None
        assert [p.name for p in tmp_path.rglob("data-*")] == [], (step, io.log)


def test_files_outside_the_table_go_in_turn_and_keep_their_tail(tmp_path: Path) -> None:
    options = {
        "data-file.external-paths": f"file://{tmp_path}/one/ , file:{tmp_path}/two",
        "data-file.external-paths.strategy": "round-robin",
        "data-file.path-directory": "data/files",
        "target-file-size": "1 kb",
    }
    files = bucket(tmp_path, options, partitions=("p",))
    written = write_all(append(files), batches(300_000, 65_536))
    tails = {f.external_path.rpartition("/")[0] for f in written}
    assert tails == {f"file:{tmp_path}/{root}/data/files/p=a%2Fb/bucket-0" for root in ("one", "two")}
    assert sum(b.num_rows for f in written for b in files.read(f, system=False)) == 300_000
    files.delete(written)
    assert list(tmp_path.rglob("data-*")) == []


def test_external_paths_that_leave_the_named_roots_are_refused(tmp_path: Path) -> None:
    options = {
        "data-file.external-paths": f"file:{tmp_path}/x",
        "data-file.external-paths.strategy": "round-robin",
    }
    files = bucket(tmp_path, options)
    (file,) = write_all(append(files), batches(5))
    moved = {
        "another root": f"file:{tmp_path}/secret/bucket-0/{file.file_name}",
        "up": f"file:{tmp_path}/x/../secret/{file.file_name}",
        "another name": f"file:{tmp_path}/x/bucket-0/other.parquet",
        "a prefix": f"file:{tmp_path}/xy/{file.file_name}",
        "another scheme": f"s3://{tmp_path}/x/{file.file_name}",
    }
    for path in moved.values():
        with pytest.raises(Corrupt, match="points outside the table"):
            list(files.read(replace(file, external_path=path), system=False))
    later = replace(files.bucket.schema, id=1, options={})
    schemas = [files.bucket.schema, later].__getitem__
    now = BucketFiles(replace(files.bucket, schema=later, options=TableOptions(), schema_of=schemas))
    assert sum(b.num_rows for b in now.read(file, system=False)) == 5


def test_roots_that_only_the_table_names_are_refused_with_the_remedy(tmp_path: Path) -> None:
    options = {
        "data-file.external-paths": f"file:{tmp_path}/x",
        "data-file.external-paths.strategy": "round-robin",
    }
    files = bucket(tmp_path, options)
    (file,) = write_all(append(files), batches(5))
    alone = BucketFiles(replace(files.bucket, io=ConfinedFileIO(LocalFileIO(), str(tmp_path / "t"))))
    remedy = re.escape(f"roots=['{tmp_path}/x']")
    with pytest.raises(InvalidRequest, match=remedy):
        list(alone.read(file, system=False))
    with pytest.raises(InvalidRequest, match=remedy):
        write_all(append(alone), batches(5))
    linked = tmp_path / "link"
    linked.symlink_to(tmp_path / "x")
    by_link = BucketFiles(
        replace(files.bucket, io=ConfinedFileIO(LocalFileIO(), str(tmp_path / "t"), named_roots([linked])))
    )
    assert sum(b.num_rows for b in by_link.read(file, system=False)) == 5


def test_choices_of_external_roots() -> None:
    def of(**options: str) -> ExternalPaths:
        named = {
            f"data-file.external-paths{k.replace('_', '-').replace('0', '.')}": v for k, v in options.items()
        }
        return ExternalPaths.of(TableOptions.parse(named))

    roots = "s3://b/x, file:/y"
    assert of(**{"": roots}).roots == ()
    assert of(**{"": roots, "0strategy": "round-robin"}).roots == ("s3://b/x", "file:/y")
    assert of(**{"": roots, "0strategy": "specific-fs", "0specific_fs": "s3"}).roots == ("s3://b/x",)
    weighted = of(**{"": roots, "0strategy": "weight-robin", "0weights": "2,1"}).roots
    assert sorted(weighted) == ["file:/y", "s3://b/x", "s3://b/x"]
    with pytest.raises(InvalidOption, match="write it with a scheme"):
        of(**{"": "/plain", "0strategy": "round-robin"})
    with pytest.raises(InvalidOption, match="specific-fs"):
        of(**{"": roots, "0strategy": "specific-fs", "0specific_fs": "oss"})
    with pytest.raises(Unsupported, match="entropy-inject"):
        of(**{"": roots, "0strategy": "entropy-inject"})


def test_one_spelling_of_a_place() -> None:
    for spelling in ("file:/a/b", "file:///a/b/", "/a//b", "file:////a/b"):
        path = checked_external("file:///a/b/f", "f", allowed=[spelling], option=None)
        assert path == "/a/b/f"
    path = checked_external("s3://host/a//f", "f", allowed=["s3://host//a/"], option=None)
    assert path == "s3://host/a/f"


def test_files_roll_at_a_number_of_rows_when_written_but_not_when_compacted(tmp_path: Path) -> None:
    files = bucket(tmp_path, {"target-file-row-num": "400"})
    written = write_all(append(files), batches(1500, 700))
    assert [(f.row_count, f.min_sequence) for f in written] == [(400, 0), (400, 400), (400, 800), (300, 1200)]
    compacted = RollingWriter(
        files, FileNames(files).data, level=0, source=COMPACT_SOURCE, append=AppendRows(0)
    )
    assert [f.row_count for f in write_all(compacted, batches(1500))] == [1500]
