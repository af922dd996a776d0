"""Fields of later releases in manifest lists and index manifests stay where they are, and files that they
name are kept, and removed, with their manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format.avro.carried import CarriedField
from tablestore.format.manifests import index_manifest, manifest, manifest_columns
from tablestore.format.manifests.index_manifest import IndexEntry, IndexFileMeta
from tablestore.format.manifests.manifest import EMPTY_STATS, ManifestFileMeta
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
    found = index_manifest.decode(data, "there")
    assert [e.file.carried for e in found] == [(STRANGE,), ()]
    assert index_manifest.decode(index_manifest.encode(found, "none"), "there") == entries


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
