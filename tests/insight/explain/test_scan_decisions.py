"""What a plan says of partitions, buckets, files and row groups is what is read, no more and no less."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tablestore as ts
from tablestore.format import deletion_vector
from tablestore.format.parquet import data as parquet_data
from tablestore.format.predicates import evaluate, predicate
from tablestore.io.fileio import LocalFileIO


@pytest.fixture
def lake(tmp_path) -> ts.Lake:
    return ts.connect(str(tmp_path))


def filled(lake: ts.Lake, name: str = "a.b", *, keyed: bool = True, **options: str) -> ts.Table:
    """Four commits, key ranges moving on, one of three partitions compacted; row groups of about 60 rows."""
    table = lake.create_table(
        name,
        schema={"m": ts.INT, "k": ts.BIGINT, "q": ts.INT, "s": ts.STRING},
        primary_key=["m", "k"] if keyed else [],
        partition_by=["m"],
        options={"bucket": 2, "file.block-size": "2 kb", "write-only": "true"}
        | ({} if keyed else {"bucket": -1})
        | {"tablestore.scan.threads": "1"}
        | {key.replace("__", "."): value for key, value in options.items()},
    )
    draw = np.random.default_rng(1)
    for n in range(4):
        k = draw.integers(n * 1000, n * 1000 + 3000, 600)
        q = draw.integers(n * 10, n * 10 + 12, 600)
        m = draw.integers(1, 4, 600)
        table.write({"m": m.tolist(), "k": k.tolist(), "q": q.tolist(), "s": [f"x{i}" for i in k.tolist()]})
    if keyed:
        table.with_options({"write-only": "false"}).compact(full=True, partition="m=2")
    return table


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[int]]]:
    """The row groups that are read meanwhile, by file name; files that are opened for none of them too."""
    seen: dict[str, list[int]] = {}
    sources: dict[int, tuple[Any, str]] = {}
    plain = parquet_data.open_checked

    def open_checked(io: LocalFileIO, path: str) -> Any:
        source = plain(io, path)
        sources[id(source)] = source, path.rsplit("/", 1)[-1]
        return source

    class Recording(pq.ParquetFile):
        def __init__(self, source: Any, **given: Any) -> None:
            self.name = sources[id(source)][1]
            super().__init__(source, **given)

        def iter_batches(self, *args: Any, row_groups: Any = None, **given: Any) -> Any:
            seen.setdefault(self.name, []).extend(row_groups)
            return super().iter_batches(*args, row_groups=row_groups, **given)

    with monkeypatch.context() as patch:
        patch.setattr(parquet_data, "open_checked", open_checked)
        patch.setattr(parquet_data.pq, "ParquetFile", Recording)
        yield seen


def row_groups_read(explanation: Any) -> dict[str, list[int]]:
    """File → row groups that are read, as the plan tells."""
    groups = explanation.row_groups()
    kept = groups.filter(pc.field("kept"))
    collected: dict[str, list[int]] = {}
    for name, group in zip(kept["file_name"].to_pylist(), kept["row_group"].to_pylist(), strict=True):
        collected.setdefault(name, []).append(group)
    return collected


CONDITIONS = [
    "m = 2",
    "m IN (2, 3) AND k BETWEEN 100 AND 1500 AND q > 25",
    "m <> 1 AND k = 2100",
    "k = 4000000",
    "q < 5",
    "q > 3 AND q < 14 AND m = 2",
    "s LIKE 'x20%'",
    "k IN (5, 1400, 3999) OR q = 40",
    "s IS NULL",
    "k > 2500 AND NOT (q BETWEEN 0 AND 20)",
]
KINDS: dict[str, dict[str, Any]] = {
    "deduplicate": {},
    "aggregation": {"merge-engine": "aggregation", "fields.q.aggregate-function": "max"},
    "deletion vectors": {"deletion-vectors.enabled": "true", "write-only": "false"},
    "bloom": {"file-index.bloom-filter.columns": "k,q", "file-index.in-manifest-threshold": "1 mb"},
    "bitmap beside": {"file-index.bitmap.columns": "q", "file-index.in-manifest-threshold": "1 b"},
    "append": {"keyed": False},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(2)
def test_the_record_says_which_files_and_row_groups_are_read(
    lake: ts.Lake, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = filled(lake, **KINDS[kind])
    whole = table.scan().to_arrow()
    for text in CONDITIONS:
        scan = table.scan(where=ts.where(text))
        explanation = scan.explain()
        with watched(monkeypatch) as seen:
            rows = scan.to_arrow()
        read = {name: sorted(set(groups)) for name, groups in seen.items() if groups}
        assert read == row_groups_read(explanation), text
        decisions = explanation.decisions()
        kept = set(decisions.filter(pc.field("kept"))["file_name"].to_pylist())
        assert set(read) <= kept, text
        from_record = set(explanation.row_groups()["file_name"].to_pylist())
        assert from_record == kept, text
        mask = evaluate.mask(predicate.bind(ts.where(text), table.store.schema), whole)
        assert rows.num_rows == pc.sum(mask.cast("int64")).as_py(), text


def test_each_rule_has_its_row_and_the_sums_go_on(lake: ts.Lake) -> None:
    table = filled(lake)
    explanation = table.scan(where=ts.where("m IN (2, 3) AND k BETWEEN 100 AND 1500 AND q > 25")).explain()
    steps = explanation.steps().to_pylist()
    assert [s["rule"] for s in steps] == [
        "all files",
        "partition",
        "bucket",
        "key range",
        "column stats",
        "file index",
    ]
    for before, after in pairwise(steps):
        assert after["files"] == before["files"] - after["files_skipped"]
        assert after["bytes"] == before["bytes"] - after["bytes_skipped"]
    decisions = explanation.decisions()
    assert steps[0]["files"] == decisions.num_rows == table.inspect.files().num_rows
    assert steps[-1]["files"] == pc.sum(decisions["kept"].cast("int64")).as_py()
    assert steps[1]["reason"] == "m IN (2, 3): 1 of 3 partitions skipped"
    assert steps[2]["reason"] == "no condition fixes k"


def test_a_skipped_file_comes_with_the_numbers_that_were_compared(lake: ts.Lake) -> None:
    table = filled(lake)
    explanation = table.scan(where=ts.where("k <= 1500 AND q > 25")).explain()
    rows = explanation.decisions().to_pylist()
    by_key = [d for d in rows if d["rule"] == "key range"]
    by_stats = [d for d in rows if d["rule"] == "column stats"]
    assert by_key
    assert by_stats
    for d in by_key:
        assert (d["condition"], d["column"]) == ("k <= 1500", "k")
        assert d["compared"] == f"min {d['min']} > 1500"
        assert int(d["min"]) > 1500
    for d in by_stats:
        assert d["compared"] == f"max {d['max']} ≤ 25"


def test_a_file_kept_for_what_it_overlaps_says_so(lake: ts.Lake) -> None:
    table = lake.create_table(
        "t.t", schema={"k": ts.INT, "q": ts.INT}, primary_key=["k"], options={"write-only": "true"}
    )
    table.write({"k": [1, 2, 3], "q": [90, 90, 90]})
    table.write({"k": [2, 4], "q": [1, 1]})
    explanation = table.scan(where=ts.where("q > 50")).explain()
    notes = explanation.decisions()["note"].to_pylist()
    assert [n for n in notes if n] == [
        "its own column stats would leave it out, but a file it overlaps with may hold other rows of its keys"
    ]
    assert explanation.decisions()["kept"].to_pylist() == [True, True]
    assert "1 file kept for what overlaps" in explanation.steps()["reason"].to_pylist()[4]
    assert table.scan(where=ts.where("q > 50")).to_arrow()["k"].to_pylist() == [1, 3]


def test_the_keys_asked_for_lie_where_levels_draws_them(lake: ts.Lake) -> None:
    table = filled(lake)
    levels = table.inspect.levels(partition="m=2", bucket=0)
    low, high = (int(t.strip("[]")) for t in (levels["min_key"][0].as_py(), levels["max_key"][0].as_py()))
    quarter = low + (high - low) / 4
    explanation = table.scan(where=ts.where(f"k BETWEEN {low} AND {quarter}")).explain()
    asked = explanation.asked_keys("m=2", 0)
    assert asked is not None
    assert (asked.low, asked.high) == (0.0, pytest.approx(0.25, abs=0.001))
    assert table.scan(where=ts.where("q > 1")).explain().asked_keys("m=2", 0) is None
    beyond = table.scan(where=ts.where("k > 1000000")).explain().asked_keys("m=2", 0)
    assert beyond is not None
    assert (beyond.low, beyond.high) == (1.0, 1.0)


def test_other_formats_count_as_one_group_and_a_limit_bounds_what_is_opened(lake: ts.Lake) -> None:
    table = filled(lake, file__format="orc")
    groups = table.scan(where=ts.where("m = 2 AND q > 25")).explain().row_groups()
    assert groups["row_group"].to_pylist() == [0] * groups.num_rows
    assert pc.all(groups["kept"]).as_py()
    parquet = filled(lake, "a.c")
    few = parquet.scan(where=ts.where("q > 25")).explain().row_groups(limit=1)
    assert len(set(few["file_name"].to_pylist())) == 1


def test_a_deletion_vector_without_positions_leaves_out_no_row_group(
    lake: ts.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled(lake, keyed=False, **{"deletion-vectors__enabled": "true"})
    table.delete("k < 100")
    empty = deletion_vector.DeletionVector(np.zeros(0, dtype=np.int64))
    monkeypatch.setattr(deletion_vector, "read", lambda *a, **k: empty)
    assert pc.all(table.scan().explain().row_groups()["kept"]).as_py()


def test_random_conditions_read_the_row_groups_of_the_plan(
    lake: ts.Lake, monkeypatch: pytest.MonkeyPatch, seeds: tuple[int, ...]
) -> None:
    table = filled(lake)
    for seed in seeds:
        source = random.Random(seed)
        for _ in range(6):
            low = source.randrange(6000)
            parts = [f"m = {source.randrange(1, 5)}", f"k BETWEEN {low} AND {low + source.randrange(3000)}"]
            parts += [f"q {source.choice('<>')} {source.randrange(45)}", f"k IN ({low}, {low + 7})"]
            text = source.choice([" AND ", " OR "]).join(source.sample(parts, 2))
            scan = table.scan(where=ts.where(text))
            with watched(monkeypatch) as seen:
                scan.to_arrow()
            read = {name: sorted(set(groups)) for name, groups in seen.items() if groups}
            assert read == row_groups_read(scan.explain()), text


@pytest.mark.parametrize("partitioned", [True, False])
def test_a_condition_that_is_never_true_reads_nothing_and_says_why(lake: ts.Lake, partitioned: bool) -> None:
    by = ["m"] if partitioned else []
    table = lake.create_table(
        "a.b", schema={"m": ts.INT, "k": ts.INT}, primary_key=["m", "k"], partition_by=by
    )
    table.write({"m": [1, 2], "k": [1, 2]})
    for where in ("FALSE", "k = 1 AND FALSE"):
        scan = table.scan(where=ts.where(where))
        assert scan.count() == scan.to_arrow().num_rows == 0
        steps = scan.explain().steps().to_pylist()
        assert steps[-1]["files"] == 0
        assert "FALSE" in steps[1]["reason"]
