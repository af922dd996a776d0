"""What the next compactions would leave, held against what they leave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.table.table import Table


def waiting(path: Path, *, buckets: int = 1, options: dict[str, object] | None = None) -> Table:
    """A table with runs that wait to be compacted, and one merge that shows how keys repeat."""
    table = ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "v": ts.BYTES},
        primary_key=["k"],
        options={"bucket": buckets, "write-only": True, "file.compression": "none", **(options or {})},
    )
    chance = np.random.default_rng(7)
    for number in range(12):
        keys = np.unique(chance.integers(0, 400, 120))
        table.write(pa.table({"k": keys, "v": [chance.bytes(100) for _ in keys]}))
        if number == 5:
            table.with_options({"write-only": False}).compact(full=True)
    return table


@pytest.mark.parametrize("buckets", [1, 3])
def test_the_amplification_afterwards_is_as_expected(tmp_path: Path, buckets: int) -> None:
    table = waiting(tmp_path, buckets=buckets)
    job = table.with_options({"write-only": False})
    actual = job.compact(dry_run=True).amplification_after(
        table.inspect.levels(), table.inspect.amplification()
    )
    assert actual is not None
    assert not actual.exact
    history = table.inspect.amplification(per="snapshot")
    assert job.compact(dry_run=True).amplification_after(table.inspect.levels(), history) == actual
    job.compact()
    after = table.inspect.amplification().to_pylist()[0]
    assert actual.runs == after["runs"]
    assert actual.write_amplification == pytest.approx(after["write_amplification"], rel=0.1)
    assert actual.space_amplification == pytest.approx(after["space_amplification"], rel=0.15)


def test_of_one_bucket_only_its_own_numbers_count(tmp_path: Path) -> None:
    table = waiting(tmp_path, buckets=2)
    job = table.with_options({"write-only": False})
    now = table.inspect.amplification(partition="", bucket=1)
    actual = job.compact(dry_run=True, bucket=1).amplification_after(table.inspect.levels(), now)
    assert actual is not None
    assert actual.runs == 1
    job.compact(bucket=1)
    after = table.inspect.amplification(partition="", bucket=1).to_pylist()[0]
    assert actual.write_amplification == pytest.approx(after["write_amplification"], rel=0.1)


def test_there_is_none_where_nothing_would_be_done(tmp_path: Path) -> None:
    table = waiting(tmp_path)
    job = table.with_options({"write-only": False})
    job.compact()
    planned = job.compact(dry_run=True)
    assert planned.amplification_after(table.inspect.levels(), table.inspect.amplification()) is None
