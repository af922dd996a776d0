"""Reading some partitions of large manifests: the same entries as reading all, and little is decoded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.format import binary_row
from tablestore.format.avro import container
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests import manifest, manifest_columns
from tablestore.format.manifests.manifest import (
    DataFileMeta,
    ManifestEntry,
    PartitionBounds,
    SimpleStats,
    holding,
    partition_stats,
)
from tablestore.format.types.arrow_types import BIGINT, INT, STRING
from tablestore.meta import manifest_cache
from tablestore.write.buckets import LiveFiles
from tablestore.write.commit.committer import CommitRequest, Committer

CODECS = ("zstd", "none", "deflate")
OPTIONS = {"bucket": 2, "write-only": True, "manifest.merge-min-count": 4, "snapshot.num-retained.min": 100}


@pytest.fixture(autouse=True)
def _clear_cache() -> None:
    manifest_cache.LOCAL.clear()


class Decoded:
    """How many entries of manifests were decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        objects, columns = manifest.decode_entries, manifest_columns.decode

        def decode_entries(data: bytes, path: str) -> list[ManifestEntry]:
            entries = objects(data, path)
            self.entries += len(entries)
            return entries

        def decode(files: Sequence[tuple[str, bytes]]) -> list[pa.Table]:
            tables = columns(files)
            self.entries += sum(t.num_rows for t in tables)
            return tables

        monkeypatch.setattr(manifest, "decode_entries", decode_entries)
        monkeypatch.setattr(manifest_columns, "decode", decode)


def file(number: int) -> DataFileMeta:
    keys = [binary_row.encode([k], [BIGINT]) for k in (10 * number, 10 * number + 9)]
    row = [number] * 3
    return DataFileMeta(
        f"data-{number:08d}.parquet",
        *(1_000 + number, 10),
        *keys,
        SimpleStats(*keys, (0,)),
        SimpleStats(*(binary_row.encode(row, [INT, BIGINT, BIGINT]),) * 2, (0, 0, 0)),
        *(10 * number, 10 * number + 9),
        schema_id=0,
        level=0,
        creation_time_ms=SYSTEM.local_now_ms(),  # a commit looks for older files, which are not there
        delete_count=0,
    )


def partition(number: int) -> bytes:
    return binary_row.encode([number], [INT])


def table(folder: Path, rng: Random, *, partitions: int, commits: int) -> ts.Table:
    """A table of metadata alone: each commit adds two files to each partition and deletes some older ones."""
    t = ts.connect(str(folder)).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.BIGINT, "v": ts.BIGINT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options=OPTIONS,
    )
    live: list[tuple[int, int, DataFileMeta]] = []
    for commit in range(commits):
        new = [(p, b, file((commit * partitions + p) * 2 + b)) for p in range(partitions) for b in range(2)]
        gone = rng.sample(live, len(live) // 4)
        names = {f.file_name for *_, f in gone}
        live = [e for e in live if e[2].file_name not in names] + new
        messages = [CommitMessage(partition(p), b, 2, new_files=(f,)) for p, b, f in new]
        messages += [CommitMessage(partition(p), b, 2, compact_before=(f,)) for p, b, f in gone]
        Committer(t.store).commit(messages, CommitRequest("test"))
    return t


def test_blocks_of_a_partition_hold_all_its_entries(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = Random(seed)
        entries = [
            ManifestEntry(rng.randrange(2), partition(n // 7), n % 3, 3, file(n)) for n in range(3_000)
        ]
        data = manifest.encode_entries(entries, rng.choice(CODECS))
        asked = {partition(rng.randrange(3_000 // 7)) for _ in range(3)}
        part, rows = holding(data, "a manifest", asked)
        chosen = manifest.decode_entries(part, "a manifest")
        assert len(chosen) == rows < 1_500, seed
        assert [e for e in chosen if e.partition in asked] == [e for e in entries if e.partition in asked]


def test_an_unpartitioned_manifest_is_read_whole() -> None:
    entries = [ManifestEntry(0, manifest.EMPTY_ROW, 0, 1, file(n)) for n in range(500)]
    data = manifest.encode_entries(entries, "zstd")
    part, rows = holding(data, "a manifest", {manifest.EMPTY_ROW})
    assert (manifest.decode_entries(part, "a manifest"), rows) == (entries, 500)


def test_entries_of_a_bucket_are_those_of_all(seeds: tuple[int, ...]) -> None:
    """Whatever the size of the manifest, its codec, and the fields that its entries begin with."""
    for seed in seeds:
        rng = Random(seed)
        places = [*(partition(n) for n in range(3)), manifest.EMPTY_ROW]
        entries = [
            ManifestEntry(rng.randrange(2), rng.choice(places), rng.randrange(-2, 90), 90, file(n))
            for n in range(rng.choice([0, 5, 300, 3_000]))
        ]
        data = manifest.encode_entries(entries, rng.choice(CODECS))
        records, schema = container.decode_with_schema(data, "m")
        for r in rng.sample(records, len(records) // 9):  # as a writer without partitions may leave it
            r["_PARTITION"] = r["_PARTITION"].removeprefix(manifest.EMPTY_ROW)
        fields = json.loads(schema)["fields"]
        others = [{"type": "record", "name": "r", "fields": some} for some in (fields, fields[::-1])]
        written = [data, *(container.encode(fastavro.parse_schema(s), records, "zstd") for s in others)]
        for some, bucket in [(rng.choice(places), rng.randrange(-2, 90)) for _ in range(20)]:
            expected = [e for e in entries if (e.partition, e.bucket) == (some, bucket)]
            for m in written:
                assert manifest.decode_entries(m, "m", (some, bucket)) == expected, seed


def test_a_lookup_in_a_small_manifest_decodes_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [ManifestEntry(0, manifest.EMPTY_ROW, n, 64, file(n)) for n in range(64)]
    data, decoded = manifest.encode_entries(entries, "zstd"), list[Any]()
    decode = container.decode_with_schema
    monkeypatch.setattr(container, "decode_with_schema", lambda *a: decoded.append(decode(*a)) or decoded[-1])
    assert manifest.decode_entries(data, "m", (manifest.EMPTY_ROW, 40)) == entries[40:41]
    assert 1 <= len(decoded[0][0]) <= 32


def test_bounds_leave_out_only_manifests_without_the_partitions(seeds: tuple[int, ...]) -> None:
    types = (INT.as_nullable(), STRING.as_nullable())
    values = [(n, t) for n in (None, -3, 0, 7, 400) for t in (None, "", "a", "long text of a partition")]
    for seed in seeds:
        rng = Random(seed)
        there, asked = rng.sample(values, 3), rng.sample(values, 2)
        about = partition_stats([binary_row.encode(v, types) for v in there], [1] * 3, types)
        bounds = PartitionBounds.of([binary_row.encode(v, types) for v in asked], types)
        assert bounds.meets(about) or not set(there) & set(asked), seed
        assert bounds.meets(SimpleStats()), "a manifest without statistics may hold anything"
    low = partition_stats([binary_row.encode([n, "x"], types) for n in (1, 5)], [1, 1], types)
    assert not PartitionBounds.of([binary_row.encode([6, "x"], types)], types).meets(low)
    assert not PartitionBounds.of([binary_row.encode([3, "y"], types)], types).meets(low)


def test_entries_of_partitions_are_those_of_all(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = Random(seed)
        t = table(tmp_path / str(seed), rng, partitions=300, commits=4)
        snapshot, manifests = t.store.snapshots.latest(), t.store.manifests
        asked = {partition(rng.randrange(310)) for _ in range(rng.choice([1, 3, 40]))}
        for _ in range(2):  # decoded, then cached
            narrow = manifests.live_entries(snapshot, partitions=asked)
            tops = manifests.max_sequences(snapshot, asked)
        every = manifests.live_entries(snapshot, partition=asked.__contains__)
        assert sorted(narrow, key=name) == sorted(every, key=name), seed
        of_all = {k: top for k, top in highest(manifests.max_sequences(snapshot)).items() if k[0] in asked}
        assert highest(tops) == of_all, seed


def highest(tops: Sequence[dict[tuple[bytes, int], int]]) -> dict[tuple[bytes, int], int]:
    """The greatest sequence number of each bucket in any manifest."""
    greatest: dict[tuple[bytes, int], int] = {}
    for each in tops:
        greatest |= {place: max(top, greatest.get(place, -1)) for place, top in each.items()}
    return greatest


def name(entry: ManifestEntry) -> str:
    return entry.file.file_name


def test_a_narrow_plan_and_a_small_commit_decode_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = table(tmp_path, Random(1), partitions=1_500, commits=2)
    manifest_cache.LOCAL.clear()
    decoded = Decoded(monkeypatch)
    plan = t.scan(where=ts.col("p") == 1_234).plan()
    there = {f.file_name for s in plan.splits for f in s.files}
    assert 0 < decoded.entries < 1_000
    assert there == {
        e.file.file_name
        for e in t.store.manifests.live_entries(plan.snapshot)
        if e.partition == partition(1_234)
    }
    manifest_cache.LOCAL.clear()
    decoded.entries = 0
    t.write(pa.table({"p": pa.array([77], pa.int32()), "k": [1], "v": [1]}))
    assert decoded.entries < 1_000


def test_writers_to_many_partitions_read_all_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = table(tmp_path, Random(2), partitions=600, commits=2)
    snapshot = t.store.snapshots.latest()
    every = highest(t.store.manifests.max_sequences(snapshot))
    files = t.store.manifests.live_entries(snapshot).objects
    manifest_cache.LOCAL.clear()
    decoded = Decoded(monkeypatch)
    live = LiveFiles(t.store, snapshot)
    for p in range(0, 600, 5):
        place = partition(p), p % 2
        assert live.next_sequence(place) == every[place] + 1
        assert live.of(place) == [e.file for e in files if (e.partition, e.bucket) == place]
    stored = len(t.store.manifests.stored_entries(snapshot))
    assert decoded.entries < 3 * stored
