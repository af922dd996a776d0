"""A plan in parts: the splits of the whole plan, of which few are held at once. Tables are metadata alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.env import SYSTEM
from tablestore.format import binary_row
from tablestore.format.commit_message import CommitMessage
from tablestore.format.manifests import manifest_columns
from tablestore.format.manifests.manifest import DataFileMeta, SimpleStats
from tablestore.format.types.arrow_types import BIGINT, INT, STRING
from tablestore.meta import manifest_cache, manifests, partition_sweep
from tablestore.meta.manifests import ManifestStore
from tablestore.read.scan.fallback import BranchSplit
from tablestore.read.scan.plan import Plan, PlanCounts
from tablestore.write.commit.committer import CommitRequest, Committer

PART = 20
TYPES = (STRING, INT)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts, groups and the cache are small, so that a small table is a large one."""
    manifest_cache.LOCAL.clear()
    monkeypatch.setattr(partition_sweep, "PART_ENTRIES", PART)
    monkeypatch.setattr(manifests, "_DECODED_AT_ONCE", PART)
    monkeypatch.setattr(manifests, "MAX_ENTRIES", PART)
    monkeypatch.setattr(manifest_columns, "_AT_ONCE", 15)


def file(rng: Random, number: int) -> DataFileMeta:
    low = rng.randrange(1_000)
    keys = [binary_row.encode([k], [BIGINT]) for k in (low, low + rng.randrange(300))]
    return DataFileMeta(
        f"data-{number:08d}.parquet",
        *(1_000 + number, 10),
        *keys,
        SimpleStats(*keys, (0,)),
        SimpleStats(),
        *(10 * number, 10 * number + 9),
        schema_id=0,
        level=rng.choice([0, 0, 4, 5]),
        creation_time_ms=SYSTEM.local_now_ms(),  # a commit looks for older files, which are not there
        delete_count=0,
        value_stats_cols=(),
    )


def table(
    folder: Path,
    rng: Random,
    *,
    partitions: Sequence[tuple[str | None, int | None]],
    commits: int,
    keyed: bool,
) -> ts.Table:
    """Each commit adds files to some neighbouring partitions and deletes some older ones."""
    t = ts.connect(str(folder)).create_table(
        "d.t",
        schema={"p": ts.STRING, "q": ts.INT, "k": ts.BIGINT, "v": ts.BIGINT},
        primary_key=["p", "q", "k"] if keyed else None,
        partition_by=["p", "q"],
        options={
            **({"bucket": 2} if keyed else {}),
            "write-only": True,
            "manifest.target-file-size": "8 kb",
            "manifest.merge-min-count": rng.choice([3, 1_000]),
            "snapshot.num-retained.min": 1_000,
        },
    )
    fill(t, rng, partitions=partitions, commits=commits, buckets=2 if keyed else 1)
    return t


def fill(
    t: ts.Table,
    rng: Random,
    *,
    partitions: Sequence[tuple[str | None, int | None]],
    commits: int,
    buckets: int,
    since: int = 0,
) -> None:
    """Commits of files that are not there, numbered from `since` on."""
    live = list[tuple[bytes, int, DataFileMeta]]()
    for commit in range(since, since + commits):
        first = rng.randrange(len(partitions))
        some = [partitions[(first + n) % len(partitions)] for n in range(max(1, len(partitions) // 4))]
        places = [(binary_row.encode(p, TYPES), b) for p in some for b in range(buckets)]
        new = [(p, b, file(rng, commit * 10_000 + n)) for n, (p, b) in enumerate(places)]
        gone = rng.sample(live, len(live) // 8)
        names = {f.file_name for *_, f in gone}
        live = [e for e in live if e[2].file_name not in names] + new
        total = 2 if t.primary_key else -1
        messages = [CommitMessage(p, b, total, new_files=(f,)) for p, b, f in new]
        messages += [CommitMessage(p, b, total, compact_before=(f,)) for p, b, f in gone]
        Committer(t.store).commit(messages, CommitRequest("test"))


def described(plans: Sequence[Plan]) -> list[tuple[Any, ...]]:
    """Every split by its place, with its files in their order, sizes and kind."""
    return [
        (s.partition, s.bucket, s.total_buckets, s.raw, s.rows, s.size, tuple(f.file_name for f in s.files))
        for p in plans
        for s in p.splits
    ]


def by_place(split: tuple[Any, ...]) -> tuple[bytes, int]:
    return split[0], split[1]


def order(row: bytes) -> tuple[Any, ...]:
    return binary_row.key_order(row, [t.as_nullable() for t in TYPES])


@pytest.mark.parametrize("keyed", [True, False])
def test_parts_have_the_splits_of_the_plan(tmp_path: Path, seeds: tuple[int, ...], keyed: bool) -> None:
    words = ["", "a", "a word of more than seven bytes", "é", "z"] + ([] if keyed else [None])
    for seed in seeds:
        rng = Random(seed)
        numbers = [-5, 0, 3, 70_000] if keyed else [-5, 0, 3, None]
        names = rng.sample([(w, n) for w in words for n in numbers], 15)
        names.sort(key=lambda p: order(binary_row.encode(p, TYPES)))
        t = table(tmp_path / str(seed), rng, partitions=names, commits=14, keyed=keyed)
        for where in (None, ts.col("q") > 0, ts.col("k") < 300, ts.col("p") == "nowhere"):
            scan = t.scan(where=where)
            parts, whole = list(scan.plan_parts()), scan.plan()
            assert sorted(described(parts), key=by_place) == sorted(described([whole]), key=by_place), seed
            there = [[e.partition for e in p.looked_at or ()] for p in parts]
            assert all(len(set(part)) == 1 or len(part) <= PART for part in there)
            assert where is not None or len(there) > 1
            some = [row for part in there for row in dict.fromkeys(part)]
            assert len(some) == len(set(some)), "no partition is in two parts"
            assert len(there) < 2 or some == sorted(some, key=order)


@pytest.mark.parametrize("option", ["scan.fallback-branch", "scan.primary-branch"])
def test_parts_of_two_branches_have_the_splits_of_the_plan(
    tmp_path: Path, seeds: tuple[int, ...], option: str
) -> None:
    """Each partition comes from the branch that the plan takes it from, and no part is larger than one of a
    table without branches."""
    for seed in seeds:
        rng = Random(seed)
        names = [(word, n) for word in ("a", "b", "c") for n in range(4)]
        t = table(tmp_path / str(seed), rng, partitions=names, commits=0, keyed=True)
        t.branches.create("b")
        fill(t, rng, partitions=names[:8], commits=12, buckets=2)
        fill(t.branch("b"), rng, partitions=names[4:], commits=12, buckets=2)
        fill(t.branch("b"), rng, partitions=names[8:9], commits=1, buckets=2, since=12)
        scan = t.with_options({option: "b"}).scan()
        parts, whole = list(scan.plan_parts()), scan.plan()
        assert sorted(described(parts), key=by_place) == sorted(described([whole]), key=by_place), seed
        there = [{e.partition for e in part.looked_at or ()} for part in parts]
        assert all(len(s) == 1 or len(p.looked_at or ()) <= PART for s, p in zip(there, parts, strict=True))
        assert sum(map(len, there)) == len(set().union(*there)) == len({s.partition for s in whole.splits})
        beside = [
            {s.partition for p in plans for s in p.splits if isinstance(s, BranchSplit)}
            for plans in (parts, [whole])
        ]
        assert beside[0] == beside[1] != set()
        for plans in (parts, [whole]):
            counts = PlanCounts()
            for part in plans:
                counts.add(part)
            each = [len(s.manifests.manifests(s.snapshots.latest())) for s in (t.store, t.branch("b").store)]
            assert counts.manifests == sum(each), "those of each branch, once"


def test_few_entries_are_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(3)
    t = table(tmp_path, rng, partitions=[("p", n) for n in range(300)], commits=1, keyed=True)
    for first in range(300, 600, 100):
        rows = [binary_row.encode(("p", n), TYPES) for n in range(first, first + 100)]
        new = [
            CommitMessage(p, n % 2, 2, new_files=(file(rng, n),)) for n, p in enumerate(rows, 1_000 * first)
        ]
        Committer(t.store).commit(new, CommitRequest("test"))
    stored = len(t.store.manifests.stored_entries(t.store.snapshots.latest()))
    manifest_cache.LOCAL.clear()
    held = _decoded(monkeypatch)
    most, given = 0, 0
    for part in t.scan().plan_parts():
        most = max(most, held() - given)
        given += len(part.looked_at or ())
    assert given == held() == stored > 6 * PART
    assert most < stored / 2, "entries are decoded as parts are asked for"
    assert not manifest_cache.LOCAL.cached_in(f"{t.location}/manifest"), "what the cache cannot hold"


def _decoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A function that says how many entries of manifests were decoded so far."""
    decode, counts = ManifestStore._decoded_bytes, list[int]()

    def counted(store: ManifestStore, files: Sequence[tuple[str, bytes]], rows: int) -> list[pa.Table]:
        tables = decode(store, files, rows)
        counts.extend(t.num_rows for t in tables)
        return tables

    monkeypatch.setattr(ManifestStore, "_decoded_bytes", counted)
    return lambda: sum(counts)


def test_a_limit_decodes_the_first_part_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.rows", schema={"p": ts.INT, "k": ts.BIGINT}, partition_by=["p"], options={"write-only": True}
    )
    for p in (2, 0, 1):
        t.write(pa.table({"p": pa.array([p] * 4, pa.int32()), "k": range(4)}))
    monkeypatch.setattr(partition_sweep, "PART_ENTRIES", 1)
    for module, name in ((manifests, "_DECODED_AT_ONCE"), (manifests, "MAX_ENTRIES")):
        monkeypatch.setattr(module, name, 1)
    manifest_cache.LOCAL.clear()
    decoded = _decoded(monkeypatch)
    assert t.scan().head(3).to_arrow().column("p").to_pylist() == [0, 0, 0]
    assert decoded() == 1
    assert t.scan().count() == 12
    assert t.scan().to_arrow().column("p").to_pylist() == [0] * 4 + [1] * 4 + [2] * 4
