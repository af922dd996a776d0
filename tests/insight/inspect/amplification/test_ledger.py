"""The ledger: sums of made-up events, and of real tables against their own metadata."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format.snapshot import APPEND, COMPACT
from tablestore.insight.explain.bucket_history import BASE, BucketEvent
from tablestore.insight.explain.table_history import events
from tablestore.insight.inspect.amplification.ledger import Ledger
from tests.insight.explain.test_table_history import SMALL_TRIGGER, live
from tests.lsm.trees import KEY, data_file


def event(kind: str, snapshot: int, **files: Any) -> BucketEvent:
    return BucketEvent(snapshot, 0, kind, "", 0, **files)


def test_each_byte_is_entered_where_it_was_written() -> None:
    a, b = (
        data_file("a", 0, 9, file_size=100, row_count=10),
        data_file("b", 5, 14, file_size=60, row_count=10),
    )
    out = data_file("c", 0, 14, file_size=130, row_count=15, level=5)
    ledger = Ledger(KEY)
    ledger.add(event(APPEND, 1, flushed=(a,)))
    second = ledger.add(event(APPEND, 2, flushed=(b,)))
    assert (second.runs, second.point_files, second.point_bytes) == (2, 2, 160)
    assert (second.write_amplification, second.exact) == (1.0, False)
    row = ledger.add(event(COMPACT, 3, before=(b, a), after=(out,)))
    assert (row.bytes_compacted, row.bytes_read, row.bytes_moved) == (130, 160, 0)
    assert row.write_amplification == pytest.approx(290 / 160)
    assert (row.runs, row.live_bytes, row.space_amplification, row.exact) == (1, 130, 1.0, True)
    assert not row.compaction_exact  # nobody recorded what was in between


def test_a_moved_file_is_not_written_again() -> None:
    file = data_file("a", 0, 9, file_size=100)
    ledger = Ledger(KEY)
    ledger.add(event(APPEND, 1, flushed=(file,)))
    row = ledger.add(event(COMPACT, 2, before=(file,), after=(file.upgraded(5),)))
    assert (row.bytes_compacted, row.bytes_moved, row.write_amplification) == (0, 100, 1.0)
    assert ledger.accounts["", 0].bytes[5] == 100


def test_what_was_there_before_is_live_but_not_ingested() -> None:
    ledger = Ledger(KEY)
    row = ledger.add(event(BASE, 7, after=(data_file("a", 0, 9, file_size=100, level=5),)))
    assert (row.live_bytes, row.total_ingested, row.write_amplification) == (100, 0, None)


def test_deletes_at_the_top_make_the_copy_smaller() -> None:
    ledger = Ledger(KEY)
    file = data_file("a", 0, 9, file_size=100, row_count=10, delete_count=5, level=5)
    row = ledger.add(event(BASE, 1, after=(file,)))
    assert (row.compacted_bytes, row.space_amplification, row.exact) == (50, 2.0, False)


def test_a_file_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(Corrupt, match="I6"):
        Ledger(KEY).add(event(COMPACT, 1, before=(data_file("a", 0, 9),)))


def test_the_ledger_of_a_real_table_agrees_with_its_metadata(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = SMALL_TRIGGER.create(tmp_path / str(seed))
        live(seed, table, steps=8)
        ledger = Ledger(table.store.key_types)
        rows = [ledger.add(e) for e in events(table.store)]
        entries = table.store.manifests.live_entries(table.store.snapshots.latest())
        accounts = ledger.accounts.values()
        assert sum(a.live_bytes for a in accounts) == sum(e.file.file_size for e in entries)
        assert sum(a.live_files for a in accounts) == len(entries)
        assert sum(a.live_rows for a in accounts) == table.store.snapshots.latest().total_record_count
        assert sum(r.bytes_ingested for r in rows) == sum(a.ingested for a in accounts)
        place = random.Random(seed).choice(list(ledger.accounts))
        assert ledger.space(place).compacted_bytes <= ledger.accounts[place].live_bytes
