"""Merged manifests of a table with a primary key are in order of partitions, and lose nothing by it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import tablestore as ts
from tablestore.format import binary_row
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta, ManifestFileMeta
from tablestore.format.types.arrow_types import INT
from tablestore.meta import manifest_cache
from tablestore.write.commit.committer import CommitRequest, Committer
from tests.meta.test_partition_reads import Decoded, file, partition

MERGED_AT_ONCE = {"manifest.target-file-size": "16 kb", "manifest.full-compaction-threshold-size": "1 kb"}


def table(folder: Path, **options: object) -> ts.Table:
    return ts.connect(str(folder)).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.BIGINT, "v": ts.BIGINT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"bucket": 1, "write-only": True, "manifest.merge-min-count": 5, **options},
    )


def add(t: ts.Table, files: dict[DataFileMeta, int], *, gone: bool = False) -> None:
    """Commit files by their partitions, or a compaction that deletes them."""
    where = "compact_before" if gone else "new_files"
    messages = [CommitMessage(partition(p), 0, 1, **{where: (f,)}) for f, p in files.items()]
    Committer(t.store).commit(messages, CommitRequest("test"))


def base(t: ts.Table) -> list[ManifestFileMeta]:
    return t.store.manifests.read_list(t.store.snapshots.latest().base_manifest_list)


def covered(m: ManifestFileMeta) -> tuple[int, int]:
    """The least and the greatest partition of a manifest."""
    rows = m.partition_stats.min_values, m.partition_stats.max_values
    low, high = (binary_row.decode(row, [INT])[0] for row in rows)
    return low, high


def live(t: ts.Table) -> list[tuple[str, bytes]]:
    entries = t.store.manifests.live_entries(t.store.snapshots.latest())
    return sorted((e.file.file_name, e.partition) for e in entries)


def test_merged_manifests_each_cover_few_partitions(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = Random(seed)
        t = table(tmp_path / str(seed), **MERGED_AT_ONCE)
        there: dict[DataFileMeta, int] = {}
        for commit in range(12):
            new = {file(1_000 * commit + n): rng.randrange(500) for n in range(250)}
            add(t, new)
            there |= new
            gone = {f: there.pop(f) for f in rng.sample(list(there), 20)}
            add(t, gone, gone=True)
        assert live(t) == sorted((f.file_name, partition(p)) for f, p in there.items()), seed
        Committer(t.store).merge_manifests(CommitRequest("test"))
        ranges = [covered(m) for m in base(t)]
        assert len(ranges) > 2, seed
        share = sum(high - low for low, high in ranges) / len(ranges) / 500
        assert share < 0.75, (seed, "in the order of writing each covers all partitions")
        assert live(t) == sorted((f.file_name, partition(p)) for f, p in there.items()), seed


@pytest.mark.parametrize("reached", [False, True])
def test_a_full_merge_reads_large_manifests_only_for_deletes_of_their_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    t = table(tmp_path, **MERGED_AT_ONCE)
    large = {file(n): n % 10 for n in range(2_000)}
    small = {file(5_000 + n): 50 + n % 10 for n in range(100)}
    add(t, large)
    add(t, small)
    gone = dict([*(large if reached else small).items()][:10])
    gone[next(iter(small))] = 50
    add(t, gone, gone=True)
    manifest_cache.LOCAL.clear()
    decoded = Decoded(monkeypatch)
    Committer(t.store).merge_manifests(CommitRequest("test"))
    assert (decoded.entries >= 2_000) == reached
    kept = {f: p for f, p in (large | small).items() if f not in gone}
    assert live(t) == sorted((f.file_name, partition(p)) for f, p in kept.items())
    assert not any(m.num_deleted for m in base(t))


def test_tables_without_a_key_keep_the_order_of_writing(tmp_path: Path) -> None:
    options = {"bucket": -1, "manifest.merge-min-count": 3, "snapshot.num-retained.min": 100}
    t = ts.connect(str(tmp_path)).create_table(
        "d.log", schema={"p": ts.INT, "k": ts.BIGINT}, partition_by=["p"], options=options
    )
    names = list[str]()
    for n in range(10):
        f = file(n)
        names.append(f.file_name)
        Committer(t.store).commit(
            [CommitMessage(partition(9 - n), 0, -1, new_files=(f,))], CommitRequest("test")
        )
    entries = t.store.manifests.live_entries(t.store.snapshots.latest())
    assert [e.file.file_name for e in entries] == names
