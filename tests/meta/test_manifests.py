"""Manifests and lists of many snapshots, read together: as each read alone, and damage stays where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import fastavro
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format.avro import blocks
from tablestore.format.manifests import manifest, manifest_columns
from tablestore.format.manifests.manifest import (
    ADD,
    DataFileMeta,
    ManifestEntry,
    ManifestFileMeta,
    SimpleStats,
)
from tablestore.insight.explain.table_history import events
from tablestore.insight.inspect import claim_book
from tablestore.meta import manifest_cache, manifests
from tablestore.meta.entries import Entries, concatenated
from tablestore.meta.manifest_cache import ManifestCache

CODECS = ("zstd", "none", "deflate")


@pytest.fixture(autouse=True)
def _clear_cache() -> None:
    manifest_cache.LOCAL.clear()


def stats(rng: Random) -> SimpleStats:
    nulls = rng.choice([None, (), (0, None, rng.randrange(9))])
    return SimpleStats(rng.randbytes(12), rng.randbytes(20), nulls)


def entry(rng: Random) -> ManifestEntry:
    file = DataFileMeta(
        f"data-{rng.randrange(10**9)}.parquet",
        *(rng.randrange(10**6) for _ in range(2)),
        *(rng.randbytes(12) for _ in range(2)),
        *(stats(rng) for _ in range(2)),
        *sorted(rng.randrange(10**6) for _ in range(2)),
        schema_id=rng.randrange(3),
        level=rng.randrange(6),
        extra_files=tuple(f"x{i}.index" for i in range(rng.randrange(3))),
        delete_count=rng.choice([None, 0, 5]),
        value_stats_cols=rng.choice([None, ("a", "b")]),
    )
    return ManifestEntry(rng.randrange(2), rng.randbytes(12), rng.randrange(-2, 9), 9, file)


def listed(rng: Random) -> ManifestFileMeta:
    bounds = rng.choice([(None,) * 4, (0, 3, 0, 5)])
    counts = (rng.randrange(10**6) for _ in range(3))
    return ManifestFileMeta(f"manifest-{rng.randrange(10**9)}", *counts, stats(rng), 0, *bounds)


def older_list(rows: list[ManifestFileMeta]) -> bytes:
    """A list as releases wrote it that knew no buckets and levels."""
    fields = [f for f in manifest.LIST_SCHEMA["fields"] if not f["name"].startswith(("_MIN_", "_MAX_"))]
    schema = fastavro.parse_schema(
        {**manifest.LIST_SCHEMA, "fields": fields, "__fastavro_parsed_schema": False}
    )
    data = manifest.encode_list(rows, "none")
    out = pa.BufferOutputStream()
    fastavro.writer(out, schema, fastavro.reader(pa.BufferReader(data)))
    return out.getvalue().to_pybytes()


def test_what_is_decoded_together_is_what_each_file_gives_alone(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = Random(seed)
        files, lists = [], []
        for n in range(150):
            some = [entry(rng) for _ in range(rng.choice([0, 1, 1, 2, 40]))]
            files.append((f"manifest-{n}", manifest.encode_entries(some, rng.choice(CODECS))))
            metas = [listed(rng) for _ in range(rng.choice([0, 1, 3, 30]))]
            old = rng.random() < 0.2
            lists.append(
                (f"list-{n}", older_list(metas) if old else manifest.encode_list(metas, rng.choice(CODECS)))
            )
        actual = [manifest_columns.entries(t) for t in manifest_columns.decode(files)]
        assert actual == [manifest.decode_entries(data, path) for path, data in files], seed
        alone = [manifest.decode_list(d, p) for p, d in lists]
        assert manifest_columns.decode_lists(lists) == alone, seed
        named = {m.file_name: m.file_size for some in alone for m in some}
        assert manifest_columns.listed_names(lists) == named, seed


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_with_a_wrong_count_spoils_no_other(change: int, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        rng = Random(seed)
        whole = [manifest.encode_entries([entry(rng) for _ in range(5)], "zstd") for _ in range(120)]
        files = [(f"manifest-{n}", data) for n, data in enumerate(whole)]
        lists = [(f"list-{n}", manifest.encode_list([listed(rng)] * 9, "zstd")) for n in range(120)]
        for some, decode in ((files, manifest_columns.decode), (lists, manifest_columns.decode_lists)):
            at = rng.randrange(len(some))
            good = decode([f for i, f in enumerate(some) if i != at])
            some[at] = (some[at][0], miscounted(some[at][1], change))
            if change > 0:
                with pytest.raises(Corrupt, match=some[at][0]):
                    decode(some)
            else:
                assert [entry for i, entry in enumerate(decode(some)) if i != at] == good, (seed, at)


def test_an_empty_file_beside_a_damaged_one_is_not_the_damage(seeds: tuple[int, ...]) -> None:
    entries = [entry(Random(seeds[0])) for _ in range(5)]
    wrong = replace(entries[2], file=replace(entries[2].file, level=manifest.MAX_LEVELS))
    files = [
        (f"manifest-{name}", manifest.encode_entries(some, "zstd"))
        for name, some in (("empty", []), ("damaged", [*entries, wrong]))
    ]
    with pytest.raises(Corrupt, match="manifest-damaged"):
        manifest_columns.decode(files)
    assert manifest_columns.decode(files[:1])[0].num_rows == 0


def miscounted(data: bytes, change: int) -> bytes:
    header, parts = blocks.BlockReader().parse(data, "a file")
    return blocks.container(header.data, [blocks.AvroBlock(b.rows + change, b.data) for b in parts])


def test_what_is_missing_is_left_to_who_asks(tmp_path: Path) -> None:
    t = table(tmp_path)
    store, every = t.store, t.store.snapshots.all()
    lost = store.manifests.read_list(every[3].delta_manifest_list)[0].file_name
    Path(t.location, "manifest", lost).unlink()
    manifest_cache.LOCAL.clear()
    collected = []
    for snapshot in store.manifests.prefetched(every, bases=True):
        if snapshot.id == every[3].id:
            with pytest.raises(Corrupt, match=lost):
                store.manifests.delta_entries(snapshot)
        else:
            collected.append(len(store.manifests.delta_entries(snapshot)))
    assert len(collected) == len(every) - 1
    assert all(collected)


def test_histories_do_not_depend_on_how_much_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = table(tmp_path)
    t.tags.create("kept", snapshot=2)
    outcomes = []
    for at_once in (500, 2, 3):
        monkeypatch.setattr(manifests, "_AT_ONCE", at_once)
        monkeypatch.setattr(claim_book, "AT_ONCE", at_once)
        manifest_cache.LOCAL.clear()
        fresh = ts.open(t.location)
        views = [fresh.inspect.amplification(per).to_pylist() for per in ("table", "snapshot", "bucket")]
        files, commits = fresh.inspect.storage().files.to_pylist(), fresh.inspect.commits().to_pylist()
        gone = fresh.expire_snapshots(keep=2, older_than="0 ms", dry_run=True)
        outcomes.append((list(events(t.store)), views, files, commits, gone.files, gone.bytes))
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert t.check() == []


def test_lists_are_cached_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_cache, "_MAX_LISTED", 10)
    cache, rng = ManifestCache(), Random(1)
    three = tuple(listed(rng) for _ in range(3))
    for name in "abc":
        cache.put_list(name, three)
        cache.get_list("a")
    assert [cache.get_list(name) for name in "abc"] == [three, None, three]
    cache.clear()
    assert cache.get_list("a") is None


def table(folder: Path) -> ts.Table:
    """Two buckets, compactions, changelog files, snapshots that all stay."""
    t = ts.connect(str(folder)).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.STRING},
        primary_key=["k"],
        options={"bucket": 2, "changelog-producer": "input", "snapshot.num-retained.min": 100},
    )
    for n in range(9):
        t.write(pa.table({"k": pa.array([n, n + 1, n + 2], pa.int64()), "v": [f"v{n}"] * 3}))
    return t


def test_a_cached_manifest_costs_what_its_entries_do(monkeypatch: pytest.MonkeyPatch, seeds: tuple[int, ...]):
    """However many small manifests a process has seen, few are tables; all are what they were."""
    monkeypatch.setattr(manifest_cache, "MOST_TABLES", 5)
    for seed in seeds:
        cache, rng = ManifestCache(), Random(seed)
        held = {f"m{n}": manifest_columns.of(entry(rng) for _ in range(n % 4)) for n in range(40)}
        for name, entries in held.items():
            cache.put(name, entries)
        size = {}
        for name, entries in held.items():
            cached = cache._cached_entries[name, None]
            if cached.packed:
                size[name] = cached._message.size
                assert cached.table.equals(entries)  # as one who has it still reads it
        assert len(size) == 30 - 5  # without those that have no entries
        assert max(size.values()) < 6_000
        for name in rng.sample(sorted(held), 20):
            cached = cache.get(name)
            assert cached is not None
            assert not cached.packed
            assert cached.table.equals(held[name])
        assert sum(not c.packed and c.rows > 0 for c in cache._cached_entries.values()) <= 5


def test_many_small_manifests_weigh_more_than_their_entries(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifest_cache, "MAX_ENTRIES", 1_010)
    cache, rng = ManifestCache(), Random(1)
    for n in range(50):
        cache.put(f"m{n}", manifest_columns.of([entry(rng)]))
    assert [n for n in range(50) if cache.get(f"m{n}") is not None] == list(range(40, 50))
    assert len(cache._tables) == 10


def test_lists_share_the_manifests_that_they_have_in_common():
    cache, rng = ManifestCache(), Random(1)
    first = listed(rng)
    other = replace(first, num_added=first.num_added + 1)  # another table that has the name
    cache.put_list("a", (first, listed(rng)))
    cache.put_list("b", (listed(rng), replace(first)))
    cache.put_list("c", (other,))
    a, b, c = (cache.get_list(name) for name in "abc")
    assert a is not None
    assert b is not None
    assert a[0] is b[1]
    assert c == (other,)


def test_searches_of_manifests_that_are_gone_do_not_add_up():
    cache = ManifestCache()
    for n in range(5_000):
        assert not cache.searched(f"m{n}", 1)
    assert len(cache._searches) <= 2_000
    assert [cache.searched("m", 1) for _ in range(9)] == [False] * 8 + [True]


@pytest.mark.parametrize("partitioned", [False, True])
def test_live_entries_are_those_of_a_new_process_whatever_was_asked_before(
    tmp_path: Path, seeds: tuple[int, ...], partitioned: bool
) -> None:
    """Of later snapshots and earlier ones, where files were compacted away and manifests merged meanwhile; of
    a next snapshot only new manifests are read."""
    for seed in seeds:
        rng = Random(seed)
        t = ts.connect(str(tmp_path / str(seed))).create_table(
            "d.t",
            schema={"p": ts.INT, "k": ts.INT},
            primary_key=["p", "k"],
            partition_by=["p"] if partitioned else [],
            options={
                "bucket": 1,
                "manifest.merge-min-count": 4,
                "num-sorted-run.compaction-trigger": 2,
                "snapshot.num-retained.min": 100,
            },
        )
        for k in range(10):
            t.write([{"p": rng.randrange(3), "k": k}])
        store = t.store
        snapshots = [store.snapshots.get(i) for i in store.snapshots.ids()]
        partitions = store.manifests.live_entries(snapshots[-1]).partitions()[0]
        for some in (None, partitions[:1], partitions):
            expected = []
            for snapshot in snapshots:
                manifest_cache.LOCAL.clear()
                expected.append(list(store.manifests.live_entries(snapshot, partitions=some)))
            manifest_cache.LOCAL.clear()
            for at in (*range(len(snapshots)), *rng.sample(range(len(snapshots)), 8)):
                assert list(store.manifests.live_entries(snapshots[at], partitions=some)) == expected[at]


def test_live_entries_of_few_manifests_more_are_made_of_these() -> None:
    """The manifests that the answer before was made of are not asked for again; the oldest answers go."""
    rng, cache, asked = Random(1), ManifestCache(), list[int]()
    stored = [Entries.of([replace(entry(rng), kind=ADD)]) for _ in range(5)]

    def live(count: int, folder: str = "a") -> Entries:
        def entries(start: int) -> Entries:
            asked.append(start)
            return concatenated(e.table for e in stored[start:count])

        return cache.live((folder, None), [f"manifest-{i}" for i in range(count)], entries)

    assert [len(live(count)) for count in (2, 2, 5, 3)] == [2, 2, 5, 3]
    assert asked == [0, 2, 0]
    for n in range(200):
        live(1, str(n))
    asked.clear()
    assert (len(live(3)), asked) == (3, [0])
