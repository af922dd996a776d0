"""`check` finds each kind of damage, names its invariant, and never raises."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, InvalidOption, NotFound
from tablestore.format import checksums
from tablestore.format.manifests import manifest as manifest_format
from tablestore.format.manifests.manifest import ADD, DELETE, ManifestEntry
from tablestore.insight.check.check import check, examine
from tablestore.insight.check.file_rows import rising
from tablestore.io.fileio import LocalFileIO
from tablestore.table.table import Table


@pytest.fixture(autouse=True)
def without_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of manifests tell no checksums: other manifests may be written under them."""
    monkeypatch.setattr(checksums, "named", lambda uuid, data: uuid)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two commits over the same keys in two buckets, then a delete."""
    created = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.STRING},
        primary_key=["k"],
        options={"bucket": 2, "write-only": True, "changelog-producer": "input"},
    )
    for i in range(2):
        created.write(pa.table({"k": pa.array(range(20), pa.int32()), "v": [f"v{i}"] * 20}))
    gone = {
        "k": pa.array([3, 4], pa.int32()),
        "v": pa.array([None, None], pa.string()),
        "rowkind": ["-D", "-D"],
    }
    created.write(pa.table(gone), row_kind_column="rowkind")
    assert created.check() == []
    return created


def found(table: Table) -> set[str]:
    return {v.invariant for v in check(ts.open(table.location).store)}


def snapshot(table: Table, number: int, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path(table.location) / "snapshot" / f"snapshot-{number}"
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def delta(table: Table, number: int, change: Callable[[list[ManifestEntry]], list[ManifestEntry]]) -> None:
    """Rewrite the delta manifest of a snapshot, keeping the metadata around it consistent."""
    store = table.store
    s = store.snapshots.get(number)
    (meta,) = store.manifests.read_list(s.delta_manifest_list)
    path = Path(store.paths.manifest(meta.file_name))
    entries = change(manifest_format.decode_entries(path.read_bytes(), str(path)))
    path.write_bytes(manifest_format.encode_entries(entries, "zstd"))
    kinds = [e.kind for e in entries]
    sizes = {
        "file_size": path.stat().st_size,
        "num_added": kinds.count(ADD),
        "num_deleted": kinds.count(DELETE),
    }
    for other in store.snapshots.ids():
        body = store.snapshots.get(other)
        for name in (body.base_manifest_list, body.delta_manifest_list):
            listed = store.manifests.read_list(name)
            changed = [replace(m, **sizes) if m.file_name == meta.file_name else m for m in listed]
            data = manifest_format.encode_list(changed, "zstd")
            Path(store.paths.manifest(name)).write_bytes(data)
            key = "base" if name == body.base_manifest_list else "delta"
            snapshot(
                table, other, lambda b, key=key, data=data: b.update({f"{key}ManifestListSize": len(data)})
            )


def edit(**changes: Any) -> Callable[[list[ManifestEntry]], list[ManifestEntry]]:
    """Change the first entry's file."""
    return lambda entries: [replace(entries[0], file=replace(entries[0].file, **changes)), *entries[1:]]


def data_file(table: Table, number: int = 1) -> Path:
    e = table.store.manifests.delta_entries(table.store.snapshots.get(number))[0]
    return Path(table.store.file_path(e.partition, e.bucket, e.file))


def rewrite(table: Table, change: Callable[[pa.Table], pa.Table]) -> None:
    """Other rows in a data file, with its new size in the manifest."""
    path = data_file(table)
    before = pq.ParquetFile(path).read()
    pq.write_table(change(before).cast(before.schema), path)
    delta(table, 1, edit(file_size=path.stat().st_size))


def cut(path: Path, end: int) -> None:
    path.write_bytes(path.read_bytes()[:end])


def one(table: Table, pattern: str) -> Path:
    """A file of the table."""
    return min(Path(table.location).glob(pattern))


def at_level(level: int) -> Callable[[list[ManifestEntry]], list[ManifestEntry]]:
    return lambda entries: [replace(e, file=replace(e.file, level=level)) for e in entries]


def with_the_base_of_the_first(table: Table) -> None:
    first = table.store.snapshots.get(1)
    size = first.base_manifest_list_size
    lists = {"baseManifestList": first.base_manifest_list, "baseManifestListSize": size}
    snapshot(table, 3, lambda b: b.update(lists))


def with_a_field_id_used_again(table: Table) -> None:
    folder = Path(table.location) / "schema"
    body = json.loads((folder / "schema-0").read_text())
    dropped = {**body, "id": 1, "fields": body["fields"][:1]}
    again = {**body, "id": 2, "fields": [body["fields"][0], {"id": 1, "name": "w", "type": "INT"}]}
    (folder / "schema-1").write_text(json.dumps(dropped))
    (folder / "schema-2").write_text(json.dumps(again))


def with_a_delete_of_nothing(entries: list[ManifestEntry]) -> list[ManifestEntry]:
    unknown = replace(entries[0].file, file_name="data-x.parquet")
    return [*entries, replace(entries[0], kind=DELETE, file=unknown)]


def with_the_greatest_key_as_least(table: Table) -> None:
    greatest = table.store.manifests.delta_entries(table.store.snapshots.get(1))[0].file.max_key
    delta(table, 1, edit(min_key=greatest))


def with_statistics_of_another_file(table: Table) -> None:
    stats = table.store.manifests.delta_entries(table.store.snapshots.get(2))[0].file.value_stats
    delta(table, 1, edit(value_stats=stats))  # v is "v0" there and "v1" here


DAMAGE: dict[str, tuple[Callable[[Table], object], set[str]]] = {
    "a data file is missing": (lambda t: data_file(t).unlink(), {"I2"}),
    "a data file is cut": (lambda t: cut(data_file(t), -10), {"I2"}),
    "a changelog file is missing": (lambda t: one(t, "bucket-0/changelog-*").unlink(), {"I2"}),
    "statistics leave a value out": (with_statistics_of_another_file, {"I8"}),
}
"""What happens to a table, and all invariants that are violated then."""
FURTHER: dict[str, tuple[Callable[[Table], object], set[str]]] = {
    "a manifest is cut": (lambda t: cut(one(t, "manifest/manifest-[!l]*"), 50), {"I2"}),
    "a manifest list is missing": (lambda t: one(t, "manifest/manifest-list-*").unlink(), {"I2"}),
    "a snapshot is no JSON": (lambda t: one(t, "snapshot/snapshot-2").write_text("{"), {"I2"}),
    "a gap in the snapshots": (lambda t: one(t, "snapshot/snapshot-2").unlink(), {"I1"}),
    "a snapshot under another number": (lambda t: snapshot(t, 3, lambda b: b.update(id=7)), {"I1"}),
    "no schema of this id": (lambda t: snapshot(t, 2, lambda b: b.update(schemaId=4)), {"I9"}),
    "a field id used again": (with_a_field_id_used_again, {"I9"}),
    "a file added twice": (lambda t: delta(t, 1, lambda es: [*es, es[0]]), {"I6", "I8"}),
    "a deleted file was not live": (lambda t: delta(t, 2, with_a_delete_of_nothing), {"I6"}),
    "a base that is not the state before": (with_the_base_of_the_first, {"I6"}),
    "an older file above a newer one": (lambda t: delta(t, 2, at_level(3)), {"I5"}),
    "keys out of order": (lambda t: rewrite(t, backwards), {"I3"}),
    "a key twice in a file": (
        lambda t: rewrite(t, lambda rows: rows.take(pa.array([0, 0, *range(2, rows.num_rows)]))),
        {"I3"},
    ),
    "a least key that is not the first": (with_the_greatest_key_as_least, {"I4"}),
    "a partition with two bucket counts": (
        lambda t: delta(t, 3, lambda es: [replace(e, total_buckets=4) for e in es]),
        {"I10"},
    ),
    "a wrong row count": (lambda t: delta(t, 1, edit(row_count=99)), {"I8"}),
    "a wrong delete count": (lambda t: delta(t, 1, edit(delete_count=1)), {"I8"}),
    "a wrong greatest sequence": (lambda t: delta(t, 1, edit(max_sequence=0)), {"I8"}),
    "a file of no schema": (lambda t: delta(t, 1, edit(schema_id=9)), {"I2"}),
    "a file outside its bucket": (lambda t: delta(t, 1, edit(file_name="../data.parquet")), {"I2"}),
    "an index that is missing": (lambda t: delta(t, 1, edit(extra_files=("data.index",))), {"I2"}),
}
"""The same with invariants that are among those violated."""


def backwards(rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_violates_these_invariants_alone(table: Table, what: str) -> None:
    happens, violated = DAMAGE[what]
    happens(table)
    assert found(table) == violated


@pytest.mark.parametrize("what", FURTHER)
def test_damage_violates_these_invariants_and_maybe_others(table: Table, what: str) -> None:
    happens, violated = FURTHER[what]
    happens(table)
    assert violated <= found(table)


def test_wrong_record_counts(table: Table) -> None:
    snapshot(table, 2, lambda b: b.update(deltaRecordCount=7))
    assert found(table) == {"I8"}
    snapshot(table, 2, lambda b: b.update(deltaRecordCount=20, totalRecordCount=20))
    assert found(table) == {"I8"}
    snapshot(table, 2, lambda b: b.update(totalRecordCount=40, changelogRecordCount=1))
    assert found(table) == {"I8"}


def test_overlapping_files_of_one_level(table: Table) -> None:
    delta(table, 1, at_level(3))
    assert found(table) == set()
    delta(table, 2, at_level(3))
    assert "I4" in found(table)


def test_rows_of_another_bucket(table: Table) -> None:
    delta(table, 1, lambda es: [replace(es[0], bucket=es[1].bucket), replace(es[1], bucket=es[0].bucket)])
    assert "I2" in found(table)  # the files are looked for where the entries say
    names = [p.name for p in data_file(table).parent.parent.glob("bucket-*")]
    assert sorted(names) == ["bucket-0", "bucket-1"]


def test_rows_hashed_to_another_bucket(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table(
        "d.h", schema={"k": ts.INT}, primary_key=["k"], options={"bucket": 1, "write-only": True}
    )
    table.write(pa.table({"k": pa.array(range(20), pa.int32())}))
    delta(table, 1, lambda es: [replace(e, total_buckets=2) for e in es])
    assert found(table) == {"I10"}


def test_a_replayed_identifier(table: Table) -> None:
    user = table.store.snapshots.get(1).commit_user
    for number in (1, 2):
        snapshot(table, number, lambda b: b.update(commitUser=user, commitIdentifier=5))
    assert found(table) == {"I11"}
    snapshot(table, 2, lambda b: b.update(commitIdentifier=6))
    assert found(table) == set()


def test_a_tag_that_keeps_nothing(table: Table) -> None:
    folder = Path(table.location) / "tag"
    folder.mkdir()
    body = json.loads((Path(table.location) / "snapshot" / "snapshot-1").read_text())
    (folder / "tag-good").write_text(json.dumps(body))
    assert found(table) == set()
    (folder / "tag-bad").write_text(json.dumps({**body, "deltaManifestList": "manifest-list-gone"}))
    assert found(table) == {"I2"}


@pytest.mark.large
def test_no_damage_of_any_file_makes_it_raise(table: Table, seeds: tuple[int, ...]) -> None:
    files = [p for p in sorted(Path(table.location).rglob("*")) if p.is_file()]
    for path in files:
        sound = path.read_bytes()
        for seed in seeds:
            rng = random.Random(f"{seed} {path.name.rsplit('-', 1)[-1]}")
            at = rng.randrange(len(sound))
            path.write_bytes(sound[:at] + bytes([rng.randrange(256)]) + sound[at + 1 :])
            _checked(table)
        path.write_bytes(sound[: len(sound) // 2])
        if path.name not in ("LATEST", "EARLIEST"):
            assert _checked(table), f"half of {path.name} is missing and nobody says so"
        path.write_bytes(sound)
    assert found(table) == set()


def _checked(table: Table) -> list[Any]:
    """Violations, or the error of a table whose schema is so damaged that it cannot be opened at all."""
    try:
        store = ts.open(table.location).store
        store.options  # noqa: B018 - parsed on first use
    except (Corrupt, NotFound, InvalidOption) as e:
        return [e]
    return check(store)


def test_data_files_can_be_left_closed(table: Table) -> None:
    rewrite(table, backwards)
    assert examine(table.store, data=False).violations == []


def test_an_empty_table_is_clean(tmp_path: Path) -> None:
    table = ts.connect(str(tmp_path)).create_table("d.e", schema={"k": ts.INT}, primary_key=["k"])
    assert table.check() == []


def test_key_order_of_floats_has_two_zeros_and_ends_with_nan() -> None:
    assert _rise([pa.array([float("-inf"), -1.0, -0.0, 0.0, 1.0, float("inf"), float("nan")])])
    assert not _rise([pa.array([0.0, -0.0])])
    assert not _rise([pa.array([1, 1]), pa.array(["b", "a"])])
    assert _rise([pa.array([1, 1, 2]), pa.array(["a", "b", ""])])
    assert not _rise([pa.array([1, 1])])


def _rise(columns: list[pa.Array]) -> bool:
    return bool(rising(columns).all())


@pytest.mark.parametrize("options", [{"deletion-vectors.enabled": True}, {"merge-engine": "first-row"}])
def test_a_key_that_is_live_at_two_levels_which_are_read_unmerged(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """The state after two compactions of which neither saw the other's files."""
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1, **options}
    )
    rows = pa.table({"k": pa.array(range(9), pa.int32()), "v": pa.array(range(9), pa.int32())})
    table.write(rows)
    table.compact(full=True)
    assert table.check() == []
    twin = ts.connect(str(tmp_path / "twin")).create_table(
        "d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options={"bucket": 1, **options}
    )
    twin.write(rows.slice(0, 4))
    (entry,) = twin.store.manifests.live_entries(twin.store.snapshots.latest())
    assert entry.file.level == 5
    bucket = Path(table.location) / "bucket-0"
    (bucket / entry.file.file_name).write_bytes(
        (Path(twin.location) / "bucket-0" / entry.file.file_name).read_bytes()
    )
    last = table.store.snapshots.latest_id()
    delta(
        table,
        last,
        lambda es: [*es, replace(entry, file=replace(entry.file, level=3, min_sequence=9, max_sequence=20))],
    )
    violations = [v.text for v in check(ts.open(table.location).store) if v.invariant == "I4"]
    assert violations == ["4 keys are live in two files above level 0, which readers do not merge"]


class _MeanwhileIO(LocalFileIO):
    """Before its operation number `at`, something else happens to the table."""

    VERBS = ("read", "open_input", "list", "exists", "size")

    def __init__(self, at: int, happens: Callable[[], object]) -> None:
        super().__init__()
        self.left, self.happens = at, happens

    def __getattribute__(self, name: str) -> Any:
        if name in _MeanwhileIO.VERBS:
            self.left -= 1
            if self.left == -1:
                self.happens()
        return super().__getattribute__(name)


def test_what_expires_while_it_is_looked_at_is_no_damage(tmp_path: Path) -> None:
    start = ts.connect(tmp_path / "start").create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.STRING},
        primary_key=["k"],
        options={"changelog-producer": "input", "write-only": True},
    )
    for k in range(3):
        start.write([{"k": k, "v": "x"}])
    start.tags.create("old", 1)
    start.analyze()
    operation, happened = 0, True
    while happened:
        shutil.copytree(tmp_path / "start", tmp_path / "t")
        other = ts.connect(tmp_path / "t").table("d.t")

        def happens(other: ts.Table = other) -> None:
            other.compact(full=True)
            other.tags.delete("old")
            other.expire_snapshots(keep=1)

        io = _MeanwhileIO(operation, happens)
        looked_at = ts.connect(tmp_path / "t", io=io).table("d.t")
        assert looked_at.check() == [], operation
        happened = io.left < 0
        operation += 3
        shutil.rmtree(tmp_path / "t")
    assert operation > 30


def test_damage_of_what_stays_is_reported_though_other_things_expire(tmp_path: Path) -> None:
    table = ts.connect(tmp_path).create_table("d.t", schema={"k": ts.BIGINT}, options={"bucket": -1})
    for k in range(3):
        table.write([{"k": k}])
    (entry,) = table.store.manifests.delta_entries(table.store.snapshots.get(2))
    lost = table.store.file_path(entry.partition, entry.bucket, entry.file)
    table.store.io.delete(lost)
    actual = examine(table.store, data=False)
    (violation,) = actual.violations
    assert (violation.invariant, violation.where) == ("I2", lost)
    assert actual.holders[violation] == {"snapshot-2", "snapshot-3"}
    actual.without(lambda holder: holder == "snapshot-2")
    assert actual.violations == [violation]
    actual.without(lambda holder: True)
    assert actual.violations == []


def test_a_tag_of_the_newest_is_made_though_that_one_expires_meanwhile(tmp_path: Path) -> None:
    for operation in range(8):
        root = tmp_path / str(operation)
        table = ts.connect(root).create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"])
        table.write([{"k": 1}])

        def happens(table: ts.Table = table) -> None:
            table.write([{"k": 2}])
            table.expire_snapshots(keep=1)

        ts.connect(root, io=_MeanwhileIO(operation, happens)).table("d.t").tags.create("new")
        assert table.at(tag="new").scan().count() in (1, 2)
        assert table.check() == []


def test_rows_whose_lookup_is_left_to_the_next_commit_may_wait_at_level_0(tmp_path: Path) -> None:
    """With `lookup-wait` = false a commit compacts what earlier ones left, not its own rows."""
    options = {"bucket": 1, "changelog-producer": "lookup", "lookup-wait": False}
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options=options
    )
    for k in range(3):
        table.write([{"k": k}])
    assert [s.commit_kind for s in table.store.snapshots.all()][-1] == "COMPACT"
    assert 0 in table.inspect.levels()["level"].to_pylist()
    assert table.check() == []


def test_rows_whose_lookup_is_gentle_may_wait_at_level_0(tmp_path: Path) -> None:
    """With `lookup-compact` = gentle a bucket is compacted when a rule says so, while another one is."""
    options = {
        **{"bucket": 2, "changelog-producer": "lookup", "lookup-compact": "gentle"},
        **{"num-sorted-run.compaction-trigger": 3, "lookup-compact.max-interval": 9},
    }
    table = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options=options
    )
    for first in range(8):  # both buckets reach the trigger at different commits
        table.write([{"k": k} for k in range(first, 8 if first == 3 else first + 1)])
        assert table.check() == []
    assert [s.commit_kind for s in table.store.snapshots.all()].count("COMPACT") >= 1
    assert 0 in table.inspect.levels()["level"].to_pylist()
    assert table.check() == []
