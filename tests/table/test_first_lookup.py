"""Which manifests the first lookup in a table opens, and what it makes of their entries."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format import checksums
from tablestore.format.manifests import manifest
from tablestore.meta import manifest_cache, manifests
from tests.faults import FaultyIO


def test_a_first_lookup_opens_no_manifest_of_other_buckets(tmp_path: Path) -> None:
    """Nor does it keep entries: a second one, in another bucket, reads them all and keeps them."""
    lake = ts.connect(str(tmp_path))
    types = {"k": ts.BIGINT, "v": ts.STRING}
    options = {"bucket": 16, "write-only": True}
    table = lake.create_table("shop.t", schema=types, primary_key=["k"], options=options)
    for key in range(8):
        table.write([{"k": key, "v": f"row {key}"}])
    listed = table.store.manifests.manifests(table.store.snapshots.get(8))
    buckets = {m.min_bucket for m in listed}
    assert len(buckets) > 2

    fresh = ts.open(table.location, io=(io := FaultyIO()))
    cached = partial(fresh.store.manifests._cache.cached_in, f"{table.location}/manifest")
    assert fresh.get({"k": 3}) == {"k": 3, "v": "row 3"}
    opened = {line.rpartition("/")[2] for line in io.log if "/manifest-" in line and "-list-" not in line}
    bucket = next(m.min_bucket for m in listed[3:])
    assert opened == {m.file_name for m in listed if m.min_bucket == bucket}
    assert not cached()
    assert [fresh.get({"k": key}) for key in range(9)] == [
        *({"k": key, "v": f"row {key}"} for key in range(8)),
        None,
    ]
    assert {path.rpartition("/")[2] for path, _ in cached()} == {m.file_name for m in listed}


@pytest.mark.parametrize("partitioned", [False, True])
def test_first_lookups_in_manifests_of_all_buckets(
    partitioned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of files that a compaction took away are among them; many entries are decoded as columns."""
    lake, types = ts.connect(str(tmp_path)), {"k": ts.INT, "p": ts.INT, "v": ts.INT}
    by: dict[str, Any] = {"partition_by": ["p"]} if partitioned else {}
    table = lake.create_table("shop.t", schema=types, primary_key=["k", "p"], options={"bucket": 4}, **by)
    for v in range(4):
        table.write([{"k": k, "p": k % 3, "v": v} for k in range(v, 48)])
        if v == 2:
            table.compact()
    wanted = [{"k": k, "p": k % 3, "v": min(k, 3)} for k in range(48)]
    for most in (10_000, 0):
        monkeypatch.setattr(manifests, "_MOST_SKIPPED", most)
        monkeypatch.setattr(manifests, "_MANY_SKIPPED", most)
        for row in wanted[::5]:
            manifest_cache.LOCAL.clear()
            fresh = ts.open(table.location)
            assert fresh.get({"k": row["k"], "p": row["p"]}) == row
            assert fresh.get({"k": row["k"], "p": 7}) is None


def test_a_first_lookup_names_the_manifest_with_a_damaged_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, types = ts.connect(str(tmp_path)), {"k": ts.INT, "v": ts.INT}
    table = lake.create_table("shop.t", schema=types, primary_key=["k"], options={"bucket": 2})
    table.write([{"k": k, "v": k} for k in range(9)])
    (listed,) = table.store.manifests.manifests(table.store.snapshots.get(1))
    path = Path(table.location) / "manifest" / listed.file_name
    entries = manifest.decode_entries(path.read_bytes(), str(path))
    damaged = [replace(e, file=replace(e.file, min_key=e.file.min_key[:5])) for e in entries]
    path.write_bytes(manifest.encode_entries(damaged, "zstd"))
    monkeypatch.setattr(checksums, "require_named", lambda _, data: data)  # as of a writer without checksums
    manifest_cache.LOCAL.clear()
    with pytest.raises(Corrupt, match=re.escape(str(path))):
        ts.open(table.location).get({"k": 3})
