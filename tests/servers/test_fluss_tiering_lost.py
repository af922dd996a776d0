"""Rows that the retention of a real Fluss takes before a round of tiering: nobody passes over them."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.fluss.admin import EARLIEST
from tablestore.fluss.tables import FlussTable
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tablestore.log.log import LogExpired
from tablestore.tiering.report import RoundReport
from tests.servers.fluss import LAKE, Fluss

EXPIRING = {
    **LAKE,
    "table.log.ttl": "3s",
    "table.log.tiered.local-segments": "1",
    "table.log.arrow.compression.type": "NONE",
}
_BATCH = 1000


def append(fluss: Fluss, table: FlussTable, first: int, count: int) -> None:
    """So many rows of about 600 bytes, numbered from `first`."""
    with TableWriter(fluss.cluster, table) as writer:
        for start in range(first, first + count, _BATCH):
            ids = np.arange(start, min(start + _BATCH, first + count))
            writer.append(pa.table({"id": ids, "s": [f"{n:0>600}" for n in ids]}))


def round_of(fluss: Fluss, lake: ts.Lake, table: FlussTable, **options: str) -> RoundReport:
    service = lake.tier(f"fluss://{fluss.address}", tables=str(table.path), follow=False, **options)
    assert service.wait(240)
    (done,) = service.rounds()
    return done


@pytest.mark.large
@pytest.mark.parametrize("rows_before", [0, 10])
def test_rows_that_retention_took_before_a_round_are_an_error_until_they_are_passed_over(
    fluss: Fluss, tmp_path: Path, rows_before: int
) -> None:
    table = fluss.table({"id": BIGINT, "s": STRING}, properties=EXPIRING)
    (bucket,) = fluss.admin.buckets(table)
    lake = ts.connect(tmp_path)
    if rows_before:
        append(fluss, table, 0, rows_before)
        assert round_of(fluss, lake, table).outcome == "committed"
    append(fluss, table, rows_before, 30_000)  # several segments of 4 MB, of which the newest stays
    over = time.monotonic() + 240
    while (start := fluss.admin.offsets(table, [bucket], EARLIEST)[bucket]) <= rows_before:
        assert time.monotonic() < over, "nothing expires"
        time.sleep(0.2)
    failed = round_of(fluss, lake, table)
    assert (failed.outcome, failed.rows) == ("failed", 0)
    assert f"ROWS ARE LOST: bucket 0: offsets [{rows_before}, " in failed.reason
    assert '; lost_rows="skip" (tier --lost-rows skip) goes on without them' in failed.reason
    ours = lake.table(str(table.path))
    (actual,) = ours.check()
    assert f"offsets [{rows_before}, " in actual.text
    if rows_before:  # the doctor looks at tables with a snapshot
        assert "lost rows" in ours.inspect.doctor().kinds
    gone = rf"offsets \[{rows_before}, \d+\) of .*, up to [\d,]+ rows, are gone.*lost_rows=\"skip\""
    with pytest.raises(LogExpired, match=gone):
        ours.scan(log=True).count()
    passed = round_of(fluss, lake, table, lost_rows="skip")
    assert passed.outcome == "incomplete"
    assert f"offsets [{rows_before}, " in passed.notes[0]
    assert ours.refresh().check() == []
    assert not {"lost rows", "untiered rows"} & {*ours.inspect.doctor().kinds}
    ids = sorted(ours.scan(log=True).to_arrow()["id"].to_pylist())
    begin = ids[rows_before]
    assert begin >= start
    assert ids == [*range(rows_before), *range(begin, 30_000 + rows_before)]
    assert round_of(fluss, lake, table).outcome == "empty"
