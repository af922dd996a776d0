"""`ts.advise_buckets`: the sums behind a number of buckets, over the bucket function that tables use."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.insight.doctor.bucket_advice import CANDIDATES, RESIDUES, BucketAdvice, Question, propose


def rows(count: int, seed: int = 1, **more: Any) -> pa.Table:
    noise = random.Random(seed)
    columns = {"id": pa.array(range(count), pa.int64()), "v": [noise.random() for _ in range(count)]}
    return pa.table(columns | more)


def advice(data: Any, **options: Any) -> BucketAdvice:
    return ts.advise_buckets(data, **({"primary_key": ["id"]} | options))


def bucket_rows(t: ts.Table) -> dict[int, int]:
    buckets = t.inspect.buckets().select(["bucket", "record_count"]).to_pylist()
    return {r["bucket"]: r["record_count"] for r in buckets}


@pytest.mark.parametrize(
    ("key", "options"),
    [
        (["id"], {}),
        (["s", "id"], {"bucket-key": "s"}),
        (["id"], {"bucket-function.type": "mod"}),
        (["s", "id"], {"bucket-function.type": "hive"}),
    ],
)
def test_the_largest_bucket_is_the_one_that_a_table_of_so_many_buckets_has(
    tmp_path: Path, key: list[str], options: dict[str, str]
) -> None:
    data = rows(3_000, s=[f"name {i % 37}" for i in range(3_000)])
    advised = advice(data, primary_key=key, options=options, target_bytes=15_000)
    assert len(advised.alternatives) > 5
    for a in advised.alternatives[:8]:
        t = ts.connect(str(tmp_path)).create_table(
            f"d.t{a.buckets}", schema=data.schema, primary_key=key, options={"bucket": a.buckets, **options}
        )
        t.write(data)
        real = bucket_rows(t)
        assert a.skew == pytest.approx(max(real.values()) * a.buckets / 3_000)
        assert a.empty == a.buckets - len(real)
        spread = advised.spread(a.buckets)
        assert spread["rows"].to_pylist() == [real.get(b, 0) for b in range(a.buckets)]
        assert max(spread["bytes"].to_pylist()) == a.largest_bytes
    with pytest.raises(InvalidRequest, match="5 buckets were not counted; those are 1, 2, 3, 4, 6, 8"):
        advised.spread(5)


def test_the_proposal_is_the_least_that_keeps_buckets_below_the_target() -> None:
    advised = advice(rows(20_000), rows=100_000_000, target_bytes=1 << 28)
    chosen = next(a for a in advised.alternatives if a.buckets == advised.buckets)
    assert chosen.largest_bytes <= 1 << 28
    assert all(a.largest_bytes > 1 << 28 for a in advised.alternatives if a.buckets < advised.buckets)
    assert advised.options == {"bucket": str(advised.buckets), "bucket-key": "id"}
    assert advised.to_arrow().filter(advised.to_arrow()["proposed"])["buckets"].to_pylist() == [
        advised.buckets
    ]
    assert f"{advised.buckets} buckets: " in advised.text
    assert "100,000,000 rows, 20,000 looked at" in advised.text
    assert advised.sampled


def test_bytes_a_row_are_those_of_the_files_that_the_engine_writes(tmp_path: Path) -> None:
    data = rows(50_000)
    advised = advice(data)
    t = ts.connect(str(tmp_path)).create_table("d.t", schema=data.schema, primary_key=["id"])
    t.write(data)
    assert advised.question.bytes_per_row == pytest.approx(bytes_of(t) / 50_000, rel=0.05)
    of_table = ts.advise_buckets(t)
    assert of_table.question.bytes_per_row == bytes_of(t) / 50_000
    assert (of_table.buckets, of_table.call) == (1, "table.rescale(1)")


def bytes_of(t: ts.Table) -> int:
    return sum(t.inspect.files()["file_size_in_bytes"].to_pylist())


def test_growth_and_writers_ask_for_more() -> None:
    data = rows(20_000)
    assert advice(data).buckets == 1
    assert advice(data, parallelism=5).buckets == 6
    assert "5 are to work at once" in advice(data, parallelism=5).reason
    few, many = advice(data, rows=50_000_000), advice(data, rows=50_000_000, growth=10)
    assert many.buckets > few.buckets
    assert "× 10" in many.text


def test_a_heavy_value_is_reported_since_no_number_divides_it() -> None:
    data = rows(10_000, k=[0 if i % 10 < 8 else i for i in range(10_000)])
    advised = advice(data, primary_key=["id", "k"], bucket_key=["k"], rows=200_000_000)
    assert any("one value of the bucket key (k) takes" in note for note in advised.notes)
    assert "no number keeps the largest bucket below the target" in advised.reason
    assert advice(data, primary_key=["id", "k"], bucket_key=["id"], rows=200_000_000).notes == ()


def test_no_buckets_are_proposed_that_would_only_stay_empty() -> None:
    data = rows(1_000, k=[i % 2 for i in range(1_000)])
    alone = advice(rows(1_000, k=[7] * 1_000), bucket_key=["k"], primary_key=["id", "k"], rows=10**12)
    pair = advice(data, bucket_key=["k"], primary_key=["id", "k"], rows=10**12)
    assert (alone.buckets, alone.alternatives[0].empty) == (1, 0)
    assert "no number keeps the largest bucket below the target" in alone.reason
    used = {a.buckets: a.buckets - a.empty for a in pair.alternatives}
    assert used[pair.buckets] == 2
    assert all(n >= pair.buckets for n, filled in used.items() if filled == 2)


def test_too_few_values_leave_buckets_empty() -> None:
    data = rows(1_000, k=[i % 2 for i in range(1_000)])
    advised = advice(data, primary_key=["id", "k"], bucket_key=["k"], parallelism=8)
    assert advised.buckets == 8
    assert any("buckets stay empty" in note for note in advised.notes)


def test_the_largest_partition_decides_and_uneven_ones_are_reported() -> None:
    days = [0 if i % 100 else i // 100 % 9 + 1 for i in range(9_000)]
    data = rows(9_000, day=days)
    keys = {"primary_key": ["id", "day"], "partition_by": ["day"]}
    advised = advice(data, rows=1_000_000_000, **keys)
    assert (advised.partitions, advised.largest) == (10, "day=0")
    assert advised.largest_rows == 990_000_000
    assert any("'bucket' = -1 gives each partition its own number" in note for note in advised.notes)
    shown = next(a for a in advised.alternatives if a.buckets == advised.buckets)
    assert shown.typical_bytes < shown.mean_bytes / 20


def test_rows_without_any_are_one_bucket() -> None:
    advised = advice(rows(0))
    assert (advised.buckets, advised.partitions) == (1, 0)
    assert "there are no rows" in advised.text
    with pytest.raises(ts.InvalidRequest, match="name no columns"):
        advice([])


def test_an_empty_table_is_one_bucket(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"id": ts.INT}, primary_key=["id"])
    assert ts.advise_buckets(t).buckets == 1


def test_null_keys_are_refused() -> None:
    with pytest.raises(ts.SchemaMismatch, match="'id'"):
        advice(pa.table({"id": pa.array([1, None], pa.int64())}))


def test_an_append_table_may_hold_null_in_its_bucket_key() -> None:
    data = pa.table({"k": pa.array([1, None, 3], pa.int64())})
    assert ts.advise_buckets(data, bucket_key=["k"]).question.rows == 3


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"primary_key": ()}, ts.InvalidRequest, "primary_key or bucket_key"),
        ({"primary_key": ["idd"]}, ts.NotFound, "did you mean id"),
        ({"growth": 0}, ts.InvalidRequest, "growth 0"),
        ({"parallelism": 0}, ts.InvalidRequest, "parallelism 0"),
        ({"target_bytes": "1 gb"}, ts.InvalidRequest, "target_bytes '1 gb'"),
        ({"bucket_key": ["v"]}, ts.InvalidOption, "must be part of the primary key"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        advice(rows(3), **options)


def test_a_stream_that_is_larger_than_the_sample_is_thinned_out() -> None:
    batches = (b for part in range(40) for b in rows(1_000, part).to_batches())
    advised = advice(batches, sample_rows=5_000)
    assert advised.question.rows == 40_000
    assert 5_000 <= advised.question.counted <= 25_000
    assert "40,000 rows, " in advised.text


def test_a_table_is_looked_at_by_some_of_its_splits(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema={"id": ts.BIGINT, "v": ts.DOUBLE}, primary_key=["id"], options={"bucket": 8}
    )
    t.write(rows(8_000))
    advised = ts.advise_buckets(t, sample_rows=2_000)
    assert advised.question.rows == 8_000
    assert advised.question.counted < 4_000
    assert advised.sampled
    assert ts.advise_buckets(t, bucket_key=["id"]).question.counted == 8_000


def test_a_change_log_table_has_every_column_for_its_key(tmp_path: Path) -> None:
    t = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"id": ts.BIGINT, "v": ts.DOUBLE},
        options={"write-mode": "change-log", "bucket": 4},
    )
    t.write(rows(1_000))
    advised = ts.advise_buckets(t)
    assert advised.question.bucket_key == ("id", "v")
    real = bucket_rows(t)
    four = ts.advise_buckets(t, parallelism=4)
    assert next(a for a in four.alternatives if a.buckets == 4).skew == max(real.values()) * 4 / 1_000


def test_other_keys_of_a_table_make_another_table(tmp_path: Path) -> None:
    schema = {"id": ts.BIGINT, "k": ts.BIGINT, "v": ts.DOUBLE}
    t = ts.connect(str(tmp_path)).create_table("d.t", schema=schema, primary_key=["id", "k"])
    t.write(rows(100, k=[1] * 100))
    advised = ts.advise_buckets(t, bucket_key=["k"])
    assert advised.call == "lake.create_table(…, options={'bucket': 1, 'bucket-key': 'k'})"


def test_what_is_shown_in_a_notebook_is_text() -> None:
    data = rows(10, p=["<b>"] * 10)
    advised = advice(data, primary_key=["id", "p"], partition_by=["p"])
    assert "<b>" in advised.text
    assert "<b>" not in advised._repr_html_().replace("<pre>", "")


def test_every_candidate_divides_what_is_counted() -> None:
    assert CANDIDATES[:6] == (1, 2, 3, 4, 6, 8)
    counts = np.arange(RESIDUES)[None, :]
    question = Question(int(counts.sum()), int(counts.sum()), 1.0, "told", 1 << 30, 1.0, 1, ("id",))
    actual = propose(counts, [""], question, call="{n}", dynamic=False)
    for a in actual.alternatives:
        sums = [int(counts[0, b :: a.buckets].sum()) for b in range(a.buckets)]
        assert a.largest_bytes == max(sums)
