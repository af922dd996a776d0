"""The ledger: sums of made-up events, and of real tables against their own metadata."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format.snapshot import APPEND, COMPACT
from tablestore.insight.explain.table_history import BASE, BucketEvent, events
from tablestore.insight.inspect.amplification.ledger import Ledger
from tests.insight.explain.test_table_history import SMALL_TRIGGER, live
from tests.lsm.trees import KEY, data_file

PLACE = ("", 0)


def event(kind: str, snapshot: int, **files: Any) -> BucketEvent:
    return BucketEvent(snapshot, 0, kind, "", 0, **files)


def test_each_byte_is_entered_where_it_was_written() -> None:
    a, b = (
        data_file("a", 0, 9, file_size=100, row_count=10),
        data_file("b", 5, 14, file_size=60, row_count=10),
    )
    out = data_file("c", 0, 14, file_size=130, row_count=15, level=5)
    ledger = Ledger(KEY)
    ledger.enter(event(APPEND, 1, flushed=(a,)))
    account = ledger.enter(event(APPEND, 2, flushed=(b,)))
    assert (account.runs, account.reads.point_files, account.reads.point_bytes) == (2, 2, 160)
    assert (account.write_amplification, ledger.space(PLACE).exact) == (1.0, False)
    account = ledger.enter(event(COMPACT, 3, before=(b, a), after=(out,)))
    assert (account.compacted, account.read, account.moved) == (130, 160, 0)
    assert account.write_amplification == pytest.approx(290 / 160)
    space = ledger.space(PLACE)
    assert (account.runs, account.live_bytes, space.amplification, space.exact) == (1, 130, 1.0, True)
    assert not account.exact  # nobody recorded what was in between


def test_a_moved_file_is_not_written_again() -> None:
    file = data_file("a", 0, 9, file_size=100)
    ledger = Ledger(KEY)
    ledger.enter(event(APPEND, 1, flushed=(file,)))
    account = ledger.enter(event(COMPACT, 2, before=(file,), after=(file.upgraded(5),)))
    assert (account.compacted, account.moved, account.write_amplification) == (0, 100, 1.0)
    assert account.bytes[5] == 100


def test_what_was_there_before_is_live_but_not_ingested() -> None:
    account = Ledger(KEY).enter(event(BASE, 7, after=(data_file("a", 0, 9, file_size=100, level=5),)))
    assert (account.live_bytes, account.ingested, account.write_amplification) == (100, 0, None)


def test_deletes_at_the_top_make_the_copy_smaller() -> None:
    ledger = Ledger(KEY)
    file = data_file("a", 0, 9, file_size=100, row_count=10, delete_count=5, level=5)
    ledger.enter(event(BASE, 1, after=(file,)))
    space = ledger.space(PLACE)
    assert (space.compacted_bytes, space.amplification, space.exact) == (50, 2.0, False)


def test_a_file_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(Corrupt, match="I6"):
        Ledger(KEY).enter(event(COMPACT, 1, before=(data_file("a", 0, 9),)))


def test_the_ledger_of_a_real_table_agrees_with_its_metadata(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        table = SMALL_TRIGGER.create(tmp_path / str(seed))
        live(seed, table, steps=8)
        ledger = Ledger(table.store.key_types)
        happened = list(events(table.store))
        for each in happened:
            ledger.enter(each)
        entries = table.store.manifests.live_entries(table.store.snapshots.latest())
        accounts = ledger.accounts.values()
        assert sum(a.live_bytes for a in accounts) == sum(e.file.file_size for e in entries)
        assert sum(a.live_files for a in accounts) == len(entries)
        assert sum(a.live_rows for a in accounts) == table.store.snapshots.latest().total_record_count
        assert sum(f.file_size for each in happened for f in each.flushed) == sum(
            a.ingested for a in accounts
        )
        place = random.Random(seed).choice(list(ledger.accounts))
        assert ledger.space(place).compacted_bytes <= ledger.accounts[place].live_bytes
