"""`check` walks from snapshot to snapshot: what it reads grows with what changed, and nothing is overlooked.
Tables are metadata alone, so that every file is missing; only what is said of snapshots counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.format import binary_row
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests.manifest import DataFileMeta, ManifestEntry, SimpleStats
from tablestore.format.snapshot import to_json
from tablestore.format.types.arrow_types import BIGINT, INT
from tablestore.insight.check import live_files, metadata_reader
from tablestore.insight.check.check import check
from tablestore.insight.check.findings import CheckFindings, Violation
from tablestore.insight.check.live_files import LiveEntries
from tablestore.meta.entries import Entries
from tablestore.meta.manifests import ManifestWriter
from tablestore.write.commit.committer import CommitRequest, Committer

PARTITIONS = 10


def file(number: int) -> DataFileMeta:
    keys = [binary_row.encode([k], [BIGINT]) for k in (10 * number, 10 * number + 9)]
    return DataFileMeta(
        f"data-{number:08d}.parquet",
        *(1_000 + number, 10),
        *keys,
        SimpleStats(*keys, (0,)),
        SimpleStats(),
        *(10 * number, 10 * number + 9),
        schema_id=0,
        level=0,
        creation_time_ms=SYSTEM.local_now_ms(),  # a commit looks for older files, which are not there
        delete_count=0,
        value_stats_cols=(),
    )


def table(folder: Path, rng: Random, *, commits: int) -> ts.Table:
    """Each commit adds a file to each partition and deletes some older ones; manifests are merged."""
    t = ts.connect(str(folder)).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.BIGINT},
        primary_key=["p", "k"],
        partition_by=["p"],
        options={
            "bucket": 1,
            "write-only": True,
            "manifest.merge-min-count": rng.choice([2, 3, 5]),
            "snapshot.num-retained.min": 1_000,
        },
    )
    live = list[tuple[int, DataFileMeta]]()
    for commit in range(commits):
        new = [(p, file(commit * PARTITIONS + p)) for p in range(PARTITIONS)]
        gone = rng.sample(live, len(live) // 10)
        live = [e for e in live if e not in gone] + new
        messages = [CommitMessage(partition(p), 0, 1, new_files=(f,)) for p, f in new]
        messages += [CommitMessage(partition(p), 0, 1, compact_before=(f,)) for p, f in gone]
        Committer(t.store).commit(messages, CommitRequest("test"))
    return t


def partition(number: int) -> bytes:
    return binary_row.encode([number], [INT])


def of_snapshots(violations: Iterable[Violation]) -> list[str]:
    """What is wrong with snapshots, not with the files, which are not there."""
    return [f"{v.invariant} {v.where}: {v.text}" for v in violations if v.where.startswith("snapshot-")]


def rewrite_base(t: ts.Table, number: int, entries: Sequence[ManifestEntry]) -> None:
    """Give a snapshot another base list, of one manifest with these entries."""
    store = t.store
    s = store.snapshots.get(number)
    writer = ManifestWriter(store.io, store.paths, store.options, [INT], store.env)
    name, size = writer.list(writer.manifest(entries, 0))
    changed = replace(s, base_manifest_list=name, base_manifest_list_size=size)
    store.io.replace(store.paths.snapshot(number), to_json(changed))


def before(t: ts.Table, number: int) -> list[ManifestEntry]:
    return list(t.store.manifests.entries_before(t.store.snapshots.get(number)))


def test_files_are_walked_once(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many snapshots there are, each change is applied once, and merged manifests are compared."""
    applied = list[int]()
    apply = LiveEntries.apply

    def counted(
        live: LiveEntries, actual: CheckFindings, where: str, entries: Sequence[ManifestEntry]
    ) -> None:
        applied.append(len(entries))
        apply(live, actual, where, entries)

    monkeypatch.setattr(LiveEntries, "apply", counted)
    for seed in seeds:
        t = table(tmp_path / str(seed), Random(seed), commits=7)
        changes = sum(len(t.store.manifests.delta_entries(s)) for s in t.store.snapshots.all())
        applied.clear()
        assert of_snapshots(check(t.store, data=False)) == [], seed
        assert sum(applied) == changes, seed


def test_a_base_that_is_not_the_state_before_is_named(tmp_path: Path) -> None:
    t = table(tmp_path, Random(1), commits=5)
    there = before(t, 4)
    rewrite_base(t, 4, there)
    assert of_snapshots(check(t.store, data=False)) == [], "the same state in another manifest"
    rewrite_base(t, 4, there[1:])
    (first, *rest) = of_snapshots(check(t.store, data=False))
    assert first == "I6 snapshot-4: its base is not the state of snapshot 3: 1 files are gone, 0 are new"
    assert any(text.startswith("I6 snapshot-5: its base is not the state of snapshot 4") for text in rest)
    e = there[0]
    rewrite_base(t, 4, [replace(e, file=replace(e.file, row_count=7)), *there[1:]])
    (text,) = of_snapshots(check(t.store, data=False))
    assert text.startswith("I8 snapshot-4: totalRecordCount is"), "the same files with other counts"


def test_files_that_overlap_are_named_in_each_snapshot_that_has_them(tmp_path: Path) -> None:
    t = table(tmp_path, Random(2), commits=1)
    both = [replace(file(n), level=5, max_key=file(n + 1).max_key) for n in (1_000, 1_001)]
    Committer(t.store).commit(
        [CommitMessage(partition(3), 0, 1, new_files=tuple(both))], CommitRequest("test")
    )
    other = [CommitMessage(partition(4), 0, 1, new_files=(file(2_000),))]
    Committer(t.store).commit(other, CommitRequest("test"))
    wrong = [text for text in of_snapshots(check(t.store, data=False)) if "overlap in keys" in text]
    assert [text.split()[1] for text in wrong] == ["snapshot-2", "snapshot-3"]


def test_damage_is_seen_though_this_process_has_the_manifest_in_its_cache(tmp_path: Path) -> None:
    t = table(tmp_path, Random(3), commits=3)
    snapshot = t.store.snapshots.latest()
    assert snapshot is not None
    assert len(t.store.manifests.stored_entries(snapshot)) > 0
    path = Path(
        t.store.paths.manifest(t.store.manifests.read_list(snapshot.delta_manifest_list)[0].file_name)
    )
    path.write_bytes(path.read_bytes()[:-1])
    assert len(t.store.manifests.delta_entries(snapshot)) > 0, "the cache still has it"
    assert str(path) in {v.where for v in check(t.store, data=False)}


def test_few_entries_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_reader, "_KEPT", 25)
    kept = metadata_reader.EntryCache()
    some = Entries.of(ManifestEntry(0, partition(0), 0, 1, file(n)) for n in range(10))
    for n in range(6):
        kept.put(f"m{n}", some)
    assert (list(kept.by_name), kept.held) == (["m4", "m5"], 20)
    assert kept.get("m5") == some
    assert kept.get("m0") is None
    kept.put("large", Entries.of(ManifestEntry(0, partition(0), 0, 1, file(n)) for n in range(40)))
    assert (list(kept.by_name), kept.held) == (["large"], 40)


def test_entries_that_are_kept_compressed_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = table(tmp_path, Random(5), commits=6)
    t.tags.create("v", 3)
    rewrite_base(t, 4, before(t, 4)[1:])
    whole = check(t.store)
    assert {v.invariant for v in whole} >= {"I2", "I6"}
    for name, value in (("_BLOCK", 4), ("_RECENT", 6), ("_TABLES", 2)):
        monkeypatch.setattr(live_files, name, value)
    assert check(t.store) == whole


def test_a_check_reports_how_far_it_is(tmp_path: Path) -> None:
    t = table(tmp_path, Random(4), commits=3)
    seen = list[tuple[str, float, float]]()
    t.check(progress=lambda step, done, total, note: seen.append((step, done, total)))
    ends = {step: (done, total) for step, done, total in seen}
    files, snapshots = 3 * PARTITIONS, t.store.snapshots.latest_id()
    assert ends == {
        "check of snapshots": (snapshots, snapshots),
        "check that files are there": (files, files),
        "check of data files": (files, files),
    }
