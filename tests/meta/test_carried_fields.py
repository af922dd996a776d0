"""Fields of later releases in manifests, their lists and index manifests stay where they are, and files that
lists name are kept, and removed, with their manifest."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import commit_message
from tablestore.format.avro.container import CarriedField
from tablestore.format.commit_message import CommitMessage, CompactionTask, decode_task, encode_task
from tablestore.format.manifests import index_manifest, manifest, manifest_columns
from tablestore.format.manifests.index_manifest import IndexEntry, IndexFileMeta
from tablestore.format.manifests.manifest import EMPTY_STATS, ManifestEntry, ManifestFileMeta
from tablestore.meta import manifest_cache
from tablestore.meta.manifests import ManifestWriter
from tests.tables import KEYED

SIDECAR = "manifest-of-tomorrow.sidecar"
BUCKETS = CarriedField("_TOTAL_BUCKETS", '["null", "int"]', 4)
FILES = CarriedField("_EXTRA_FILES", '["null", {"type": "array", "items": "string"}]', [SIDECAR])
NESTED = '["null", {"type": "record", "name": "t.of_tomorrow", "fields": [{"name": "a", "type": "int"}]}]'
STRANGE = CarriedField("_STRANGE", NESTED, {"a": 7})


def listed(*carried: CarriedField) -> ManifestFileMeta:
    return ManifestFileMeta("manifest-1", 5, 1, 0, EMPTY_STATS, 0, 0, 0, 0, 0, 3, 9, carried)


def test_lists_carry_fields_of_later_releases() -> None:
    rows = [listed(BUCKETS, FILES, STRANGE), listed(), listed(BUCKETS)]
    data = manifest.encode_list(rows, "zstd")
    assert manifest.decode_list(data, "there") == rows
    many = manifest_columns.decode_lists([("there", data)] * 1_000)
    assert many == [rows] * 1_000
    assert rows[0].names == ("manifest-1", SIDECAR)
    plain = manifest.encode_list([listed()], "zstd")
    assert b"_EXTRA_FILES" not in plain
    assert manifest.decode_list(plain, "there") == [listed()]


def test_a_file_outside_the_directory_is_refused() -> None:
    outside = replace(FILES, value=["../../etc/passwd"])
    with pytest.raises(Corrupt, match="points outside its directory"):
        manifest.decode_list(manifest.encode_list([listed(outside)], "zstd"), "there")


def test_index_manifests_carry_fields_of_later_releases() -> None:
    file = IndexFileMeta("HASH", "index-1", 4, 1, carried=(STRANGE,))
    entries = [IndexEntry(manifest.ADD, manifest.EMPTY_ROW, 0, f) for f in (file, replace(file, carried=()))]
    data = index_manifest.encode(entries, "zstd")
    decoded = index_manifest.decode(data, "there")
    assert [e.file.carried for e in decoded] == [(STRANGE,), ()]
    assert index_manifest.decode(index_manifest.encode(decoded, "none"), "there") == entries


def test_sidecars_live_and_go_with_their_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = KEYED.create(tmp_path, {"manifest.merge-min-count": 4})
    sidecar = Path(t.store.paths.manifest(SIDECAR))

    def finished(self: ManifestWriter, *args: Any) -> ManifestFileMeta:
        sidecar.parent.mkdir(exist_ok=True)
        sidecar.write_bytes(b"what a later release looks up faster")
        return replace(original(self, *args), carried=(BUCKETS, FILES))

    original = ManifestWriter.finished
    with monkeypatch.context() as m:
        m.setattr(ManifestWriter, "finished", finished)
        t.write([{"k": 1, "v": "a"}])
    manifest_cache.LOCAL.clear()
    assert t.write([{"k": 2, "v": "b"}])
    latest = t.store.snapshots.latest()
    assert latest is not None
    first, *_ = t.store.manifests.read_list(latest.base_manifest_list)
    assert first.carried == (BUCKETS, FILES)
    assert t.remove_orphans(older_than="0 ms", force=True).files == ()
    assert SIDECAR not in str(t.remove_orphans(older_than="0 ms", force=True, dry_run=False).files)
    assert sidecar.exists()
    assert t.check() == []
    held = t.inspect.storage().files.to_pylist()
    assert [r["state"] for r in held if r["path"].endswith(SIDECAR)] == ["live"]
    for k in range(3, 9):  # the manifest is merged into another one
        t.write([{"k": k, "v": "c"}])
    t.expire_snapshots(keep=1)
    assert not sidecar.exists()
    assert t.check() == []
    assert t.scan().count() == 8


MOMENT = datetime(2031, 4, 5, tzinfo=UTC)
HELD = CarriedField("_HELD_UNTIL", '["null", {"logicalType": "timestamp-millis", "type": "long"}]', MOMENT)
WHERE = CarriedField("_WHERE", '["null", "bytes"]', b"\x00cold")


def carrying(number: int, *, entry: bool = True) -> ManifestEntry:
    stats = manifest.SimpleStats()
    some = (f"f-{number}", 9, 5, manifest.EMPTY_ROW, manifest.EMPTY_ROW, stats, stats, 0, 4, 0, 0)
    file = manifest.DataFileMeta(*some, carried=(WHERE, STRANGE) if number % 2 else ())
    return ManifestEntry(manifest.ADD, manifest.EMPTY_ROW, 0, 1, file, (HELD,) if entry else ())


def fields(entries: Iterable[ManifestEntry]) -> list[tuple[tuple[CarriedField, ...], ...]]:
    return [(e.carried, e.file.carried) for e in entries]


def test_manifests_carry_fields_of_later_releases_of_entries_and_files() -> None:
    entries = [carrying(n) for n in range(4)]
    data = manifest.encode_entries(entries, "zstd")
    actual = manifest.decode_entries(data, "there")
    assert actual == entries
    assert fields(actual) == fields(entries)
    for some in (manifest_columns.decode([("there", data)])[0], manifest_columns.of(actual)):
        assert fields(manifest_columns.entries(some)) == fields(entries)
    plain = manifest.encode_entries([carrying(0, entry=False)], "zstd")
    assert b"_HELD_UNTIL" not in plain
    assert fields(manifest.decode_entries(plain, "there")) == [((), ())]


def test_messages_carry_fields_of_later_releases() -> None:
    file, index = carrying(1).file, IndexFileMeta("HASH", "index-1", 4, 1, carried=(STRANGE,))
    message = CommitMessage(manifest.EMPTY_ROW, 0, 1, compact_before=(file,), new_index=(index,))
    decoded = commit_message.decode(commit_message.encode(message))
    assert decoded.compact_before[0].carried == file.carried
    assert decoded.new_index[0].carried == (STRANGE,)
    task = CompactionTask(manifest.EMPTY_ROW, 0, 1, (file,), (index,), True, None, 3)
    again = decode_task(encode_task(task))
    assert (again.files[0].carried, again.index_files[0].carried) == (file.carried, (STRANGE,))


@pytest.mark.parametrize("rows", [1, 40])
def test_merged_manifests_carry_what_their_entries_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """With few entries, and with so many that their blocks could be copied."""
    t = KEYED.create(tmp_path, {"manifest.merge-min-count": 4, "bucket": rows, "write-only": True})

    def encoded(self: ManifestWriter, entries: Iterable[ManifestEntry], schema: Any = None) -> bytes:
        some = [replace(e, file=replace(e.file, carried=(WHERE,)), carried=(HELD,)) for e in entries]
        return original(self, some, schema)

    original = ManifestWriter.encoded
    with monkeypatch.context() as m:
        m.setattr(ManifestWriter, "encoded", encoded)
        t.write([{"k": k, "v": "a"} for k in range(rows * 30)])
    manifest_cache.LOCAL.clear()
    files = {e.file.file_name for e in t.store.manifests.live_entries(t.store.snapshots.latest())}
    for k in range(8):
        t.write([{"k": k, "v": "b"}])
    manifest_cache.LOCAL.clear()
    latest = t.store.snapshots.latest()
    assert latest is not None
    assert len(t.store.manifests.manifests(latest)) < 8
    for e in t.store.manifests.live_entries(latest):
        expected = ((HELD,), (WHERE,)) if e.file.file_name in files else ((), ())
        assert (e.carried, e.file.carried) == expected
    assert t.check() == []
    t.with_options({"write-only": False}).compact(full=True)
    manifest_cache.LOCAL.clear()
    assert t.scan().count() == max(rows * 30, 8)
    assert t.check() == []


def test_files_that_later_fields_name_are_no_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = KEYED.create(tmp_path, {"bucket": 1, "write-only": True})
    deep = CarriedField("_BESIDE", '["null", {"type": "map", "values": "string"}]', {"index": "vectors-1"})

    def encoded(self: ManifestWriter, entries: Iterable[ManifestEntry], *schema: Any) -> bytes:
        some = [replace(e, file=replace(e.file, carried=(deep,))) for e in entries]
        return original(self, some, *schema)

    original = ManifestWriter.encoded
    with monkeypatch.context() as m:
        m.setattr(ManifestWriter, "encoded", encoded)
        t.write([{"k": 1, "v": "a"}])
    manifest_cache.LOCAL.clear()
    folder = tmp_path / "d.db" / "t" / "bucket-0"
    for name in ("vectors-1", "vectors-2"):
        (folder / name).write_bytes(b"of a later release")
        os.utime(folder / name, (1, 1))
    removed = t.remove_orphans(older_than="0 ms", force=True, dry_run=False).files
    assert [Path(path).name for path, _ in removed] == ["vectors-2"]
    assert (folder / "vectors-1").exists()
