"""Change-log tables without a primary key: equal rows are counted, and nobody sees the counts."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore import col
from tablestore.core.errors import (
    CommitConflict,
    InvalidOption,
    InvalidRequest,
    NotFound,
    SchemaMismatch,
    Unsupported,
)
from tablestore.lsm.merge import counted
from tablestore.table import writes
from tablestore.table.handle import Handle
from tablestore.table.table import Table

KINDS = ["+I", "-U", "+U", "-D"]


def made(path: Path, partition_by: tuple[str, ...] = (), **options: Any) -> Table:
    lake = ts.connect(str(path))
    return lake.create_table(
        "d.t",
        schema={"p": ts.INT, "a": ts.INT, "b": ts.STRING},
        partition_by=partition_by,
        options={"write-mode": "change-log"} | options,
    )


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in table.to_pylist())


def put(table: Table, *changes: tuple[int, int, str, str]) -> None:
    names = ("p", "a", "b", "kind")
    table.write([dict(zip(names, c, strict=True)) for c in changes], row_kind_column="kind")


def test_it_is_stored_as_an_aggregation_table_whose_key_is_the_row(tmp_path: Path) -> None:
    t = made(tmp_path)
    stored = t.store.schema
    assert stored.primary_keys == ("p", "a", "b")
    assert [str(f.type) for f in stored.fields] == [
        "INT NOT NULL",
        "INT NOT NULL",
        "STRING NOT NULL",
        "BIGINT",
    ]
    assert {k: v for k, v in t.options.items() if k != "tablestore.uuid"} == {
        "tablestore.row-count-field": "_count",
        "merge-engine": "aggregation",
        "fields._count.aggregate-function": "sum",
        "bucket": "1",
    }
    assert (t.schema.names, t.primary_key) == (["p", "a", "b"], ())
    assert "3 columns, change-log without a primary key" in repr(t)


def test_the_option_of_ours_names_the_counts(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    options = {"tablestore.row-count-field": "n"}
    t = lake.create_table("d.t", schema={"_count": ts.INT}, options=options)
    t.write([{"_count": 7}] * 2)
    assert t.scan().to_arrow().to_pydict() == {"_count": [7, 7]}
    with pytest.raises(InvalidOption, match="leave one of them out"):
        lake.create_table("d.u", schema={"k": ts.INT}, primary_key=["k"], options=options)


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_kind_adds_or_takes_away_one(tmp_path: Path, kind: str) -> None:
    t = made(tmp_path)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"))
    put(t, (0, 1, "x", kind))
    wanted = 3 if kind in ("+I", "+U") else 1
    assert t.scan().to_arrow().num_rows == t.scan().count() == wanted


def test_a_row_may_go_before_it_comes(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (0, 1, "x", "-D"))
    assert t.scan().to_arrow().num_rows == t.scan().count() == 0
    t.compact(full=True)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"))
    assert rows(t.scan().to_arrow()) == {(0, 1, "x"): 1}
    assert t.check() == []


FORMS = [
    pytest.param((), {"bucket": 2}, id="buckets"),
    pytest.param(("p",), {"bucket": 2, "bucket-key": "b"}, id="partitions"),
    pytest.param(("p",), {"bucket": -1}, id="dynamic"),
    pytest.param((), {"bucket": 1, "num-sorted-run.compaction-trigger": 2}, id="compacting"),
    pytest.param((), {"bucket": 1, "file.format": "orc"}, id="orc"),
    pytest.param((), {"bucket": 1, "deletion-vectors.enabled": True}, id="deletion vectors"),
]


@pytest.mark.parametrize(("partition_by", "options"), FORMS)
@pytest.mark.sample(1)
def test_every_way_to_read_repeats_what_was_written(
    tmp_path: Path, seeds: tuple[int, ...], partition_by: tuple[str, ...], options: dict[str, Any]
) -> None:
    for seed in seeds[:1]:
        rng = random.Random(seed)
        t = made(tmp_path / str(seed), partition_by, **options)
        model: Counter[tuple[int, int, str]] = Counter()
        for _ in range(8):
            some = [
                (rng.randrange(2), rng.randrange(4), rng.choice("xyz"), rng.choice([*KINDS, "+I"]))
                for _ in range(rng.randrange(1, 30))
            ]
            put(t, *some)
            for *row, kind in some:
                model[tuple(row)] += 1 if kind in ("+I", "+U") else -1
            if rng.random() < 0.3:
                t.compact(full=rng.random() < 0.5)
            require_equal(t, +model, seed)
        summed: Counter[tuple[int, int, str]] = Counter()
        for change in t.stream(start="earliest", follow=False):
            for kind, *row in rows(change.to_arrow()).elements():
                summed[tuple(row)] += {"+I": 1, "-D": -1}[kind]
        assert {k: n for k, n in summed.items() if n} == {k: n for k, n in model.items() if n}
        assert t.check() == []


def require_equal(t: Table, model: Counter[tuple[int, int, str]], seed: int) -> None:
    assert rows(t.scan().to_arrow()) == model, seed
    assert t.scan().count() == model.total(), seed
    assert rows(t.scan(["b"]).to_arrow()) == project(model, lambda r: (r[2],)), seed
    chosen = Counter({r: n for r, n in model.items() if r[1] == 2 and r[0] < 1})
    assert rows(t.scan(where=(col("a") == 2) & (col("p") < 1)).to_arrow()) == chosen, seed
    assert t.scan(where=col("a") == 2).count() == sum(n for r, n in model.items() if r[1] == 2), seed
    narrow = t.scan(["p"], where=col("b") == "x").to_arrow()
    assert rows(narrow) == project(Counter({r: n for r, n in model.items() if r[2] == "x"}), lambda r: r[:1])
    assert len(t.scan().head(3).to_pandas()) == min(3, model.total())
    scan = t.scan()
    split = pa.Table.from_batches((b for s in scan.plan().splits for b in t.read_split(s)), t.schema)
    assert rows(split) == model, seed
    log = t.system("audit_log").to_arrow()
    assert rows(log) == Counter({("+I", *r): n for r, n in model.items()}), seed


def project(model: Counter[Any], of: Any) -> Counter[Any]:
    collected: Counter[Any] = Counter()
    for row, n in model.items():
        collected[of(row)] += n
    return collected


def test_postponed_rows_are_counted_when_they_get_their_bucket(tmp_path: Path) -> None:
    t = made(tmp_path, bucket=-2)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"), (0, 2, "y", "-D"))
    with pytest.raises(InvalidRequest, match="wait in postponed buckets"):
        t.delete(col("a") == 1)
    t.compact()
    put(t, (0, 2, "y", "+I"), (0, 1, "x", "-D"))
    t.compact()
    assert rows(t.scan().to_arrow()) == {(0, 1, "x"): 1}


def test_changes_count_rows_that_came_and_went(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"), (0, 2, "y", "+I"))
    put(t, (0, 1, "x", "-U"), (0, 1, "z", "+U"), (0, 2, "y", "-D"), (0, 2, "y", "+I"))
    t.compact(full=True)
    assert rows(t.changes(since=0, until=1)) == {("+I", 0, 1, "x"): 2, ("+I", 0, 2, "y"): 1}
    assert rows(t.changes(since=1)) == {("-D", 0, 1, "x"): 1, ("+I", 0, 1, "z"): 1}
    between = t.with_options({"incremental-between": "0,2"}).scan()
    assert rows(between.to_arrow())[(0, 1, "x")] == 2
    (state,) = t.stream(follow=False, columns=["b"])
    assert rows(state.to_arrow()) == {("+I", "x"): 1, ("+I", "y"): 1, ("+I", "z"): 1}
    with pytest.raises(Unsupported, match="without a primary key"):
        t.changes(since=1, until=2, mode="diff")


def test_deletes_and_updates_count_what_is_there(tmp_path: Path) -> None:
    t = made(tmp_path)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"), (0, 2, "y", "+I"), (0, 3, "z", "-D"))
    t.update({"b": "y", "a": 2}, where=col("b") == "x")
    assert rows(t.scan().to_arrow()) == {(0, 2, "y"): 3}
    t.delete(col("a") > 0)
    assert t.scan().count() == 0
    put(t, (0, 3, "z", "+I"))  # what went before it came was no row to delete
    assert t.scan().count() == 0
    assert t.delete(col("a") > 0).snapshots == ()


def test_a_delete_that_another_commit_overtook_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = made(tmp_path)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"))
    original, done = counted.negated, []

    def overtaken(batch: pa.RecordBatch, count: str) -> pa.RecordBatch:
        if not done:
            done.append(put(t, (0, 1, "x", "-D")))
        return original(batch, count)

    monkeypatch.setattr(counted, "negated", overtaken)
    t.delete(col("a") == 1)
    put(t, (0, 1, "x", "+I"))
    assert t.scan().count() == 1  # a count of −1 would have swallowed it
    monkeypatch.setattr(counted, "negated", lambda b, c: (put(t, (0, 9, "q", "+I")), original(b, c))[1])
    with pytest.raises(CommitConflict, match="changed rows that this commit was made from"):
        t.delete(col("a") == 1)


def test_overwriting_rescaling_and_branches_keep_the_counts(tmp_path: Path) -> None:
    t = made(tmp_path, ("p",), bucket=1)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"), (1, 1, "x", "+I"), (1, 5, "n", "-D"))
    t.rescale(3)
    t = t.refresh()
    put(t, (1, 5, "n", "+I"))
    assert rows(t.scan().to_arrow()) == {(0, 1, "x"): 2, (1, 1, "x"): 1}
    t.overwrite([{"p": 1, "a": 2, "b": "y"}] * 3, partition={"p": 1})
    assert rows(t.scan().to_arrow()) == {(0, 1, "x"): 2, (1, 2, "y"): 3}
    t.tags.create("then")
    t.truncate(partition={"p": 0})
    assert t.scan().count() == 3
    assert t.at(tag="then").scan().count() == 5
    t.analyze()
    assert t.inspect.statistics().to_pylist()[0]["mergedRecordCount"] == 3
    assert t.check() == []


def test_compaction_to_the_top_drops_rows_that_are_there_no_more(tmp_path: Path) -> None:
    t = made(tmp_path, **{"num-sorted-run.compaction-trigger": 9})
    put(t, *((0, i, "x", "+I") for i in range(50)))
    put(t, *((0, i, "x", "-D") for i in range(49)))
    t.compact(full=True)
    assert t.inspect.files()["record_count"].to_pylist() == [1]
    assert rows(t.scan().to_arrow()) == {(0, 49, "x"): 1}
    assert t.check() == []


def test_a_large_count_is_not_repeated_at_once(tmp_path: Path) -> None:
    t = made(tmp_path)
    row = {"p": 0, "a": 1, "b": "x", "_count": 10**12}
    target = writes.table_write(t.store)
    target.write_stored(pa.RecordBatch.from_pylist([row], schema=t.store.schema.arrow))
    writes.commit_written(Handle(t.store, t.name), target, writes.batch_request(t.store))
    assert t.scan().count() == 10**12
    assert t.scan().head(5).to_arrow().num_rows == 5
    assert next(t.scan().to_batches()).num_rows <= 65_536


REFUSED = [
    ({"a": ts.ARRAY(ts.INT)}, {}, SchemaMismatch, "column 'a' is ARRAY<INT>, which cannot be compared"),
    ({"_count": ts.INT}, {}, SchemaMismatch, "'_count' has the name under which equal rows are counted"),
    ({"a": ts.INT}, {"changelog-producer": "lookup"}, InvalidOption, "changelog-producer lookup"),
    ({"a": ts.INT}, {"merge-engine": "first-row"}, InvalidOption, "must be aggregation, not first-row"),
    ({"a": ts.STRING}, {"rowkind.field": "a"}, InvalidOption, "'rowkind.field' would make"),
    ({"a": ts.INT}, {"sequence.field": "a"}, InvalidOption, "'sequence.field' means nothing"),
]


@pytest.mark.parametrize(("schema", "options", "error", "text"), REFUSED)
def test_what_cannot_be_counted_is_refused(
    tmp_path: Path, schema: Any, options: dict[str, str], error: type[Exception], text: str
) -> None:
    lake = ts.connect(str(tmp_path))
    with pytest.raises(error, match=text):
        lake.create_table("d.t", schema=schema, options={"write-mode": "change-log"} | options)
    with pytest.raises(SchemaMismatch, match="all columns are partition columns"):
        lake.create_table(
            "d.t", schema={"a": ts.INT}, partition_by=["a"], options={"write-mode": "change-log"}
        )
    assert lake.tables() == []


def test_counts_that_cannot_be_are_named_before_a_row_is_read(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table("d.t", schema={"k": ts.INT, "n": ts.STRING}, primary_key=["k"])
    t.write([{"k": 1, "n": "x"}])
    options = t.store.schema.with_options({"tablestore.row-count-field": "n"})
    with pytest.raises(InvalidOption, match="is 'n', which is not a BIGINT column outside the key"):
        Table(t.store.with_schema(options), "d.t").scan().to_arrow()
    with pytest.raises(InvalidOption, match="which is not a BIGINT column outside the key"):
        t.alter(ts.set_options({"tablestore.row-count-field": "n"}))


CALLS = [
    (lambda t: t.scan(["_count"]).to_arrow(), NotFound, "no column '_count'; there are: a, b, p"),
    (lambda t: t.scan(where=col("_count") > 1).to_arrow(), NotFound, "no column '_count'"),
    (lambda t: next(t.stream(columns=["_count"])), NotFound, "no column '_count'"),
    (lambda t: t.read_split(t.scan().plan().splits[0], columns=["_count"]), NotFound, "no column '_count'"),
    (lambda t: t.update({"_count": 3}, where=col("a") == 1), NotFound, "no column '_count'"),
    (lambda t: t.analyze(["_count"]), NotFound, "no column '_count'"),
    (lambda t: t.write([{"p": 0, "a": 1, "b": "x", "_count": 4}]), SchemaMismatch, "'_count' is not in the"),
    (lambda t: t.write([{"p": 0, "a": None, "b": "x"}]), SchemaMismatch, "'a' is NOT NULL and row 0"),
    (lambda t: t.update({"a": None}, where=col("a") == 1), SchemaMismatch, "'a' is NOT NULL"),
    (lambda t: t.get({"a": 1}), InvalidRequest, "has no primary key; scan it with a filter"),
    (lambda t: t.get_many([{"a": 1}]), InvalidRequest, "has no primary key; scan it with a filter"),
    (lambda t: t.delete([{"a": 1}]), InvalidRequest, "no primary key: delete by a condition"),
    (lambda t: t.alter(ts.add("c", ts.INT)), InvalidOption, "columns cannot be added"),
    (lambda t: t.alter(ts.drop("a")), InvalidRequest, "key"),
    (
        lambda t: t.with_options({"tablestore.row-count-field": "a"}),
        InvalidOption,
        "for one use",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), CALLS)
def test_no_call_shows_or_takes_the_counts(
    tmp_path: Path, call: Any, error: type[Exception], text: str
) -> None:
    t = made(tmp_path)
    put(t, (0, 1, "x", "+I"), (0, 1, "x", "+I"))
    with pytest.raises(error, match=text):
        call(t)
    assert rows(t.refresh().scan().to_arrow()) == {(0, 1, "x"): 2}
