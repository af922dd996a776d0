"""What a scan reads and where a stream begins, as a decision; the rows that it gives: `test_scan_mode.py`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.core.options.table_options import ChangelogProducer
from tablestore.format.snapshot import APPEND, BATCH_IDENTIFIER, COMPACT
from tablestore.meta.store import Store
from tablestore.read.changes.diff import StateDiff
from tablestore.read.changes.incremental import ChangeRange
from tablestore.read.scan import scan_mode
from tablestore.read.scan.scan_mode import ScanTarget, SnapshotState
from tests.faults import SimEnv
from tests.tables import KEEP_ALL, KEYED

NOW = 1_700_000_000_000
SINCE = "scan.creation-time-millis"
BEGINNINGS: list[tuple[dict[str, Any], tuple[int | None, int | None, int | None]]] = [
    ({}, (None, 3, None)),
    ({"scan.mode": "full"}, (None, 3, None)),
    ({"scan.mode": "latest"}, (4, None, None)),
    ({"scan.mode": "compacted-full"}, (None, 3, None)),
    ({"scan.timestamp-millis": NOW + 500}, (2, None, None)),
    ({"scan.file-creation-time-millis": NOW + 1_900}, (None, 3, NOW + 1_900)),
    ({SINCE: NOW + 900}, (2, None, None)),
    ({SINCE: NOW + 1_000}, (2, None, None)),
    ({SINCE: NOW + 1_001}, (3, None, None)),
    ({SINCE: NOW}, (None, 3, NOW)),
    ({SINCE: NOW - 5}, (None, 3, NOW - 5)),
    ({SINCE: NOW + 9_000}, (None, 3, NOW + 9_000)),
    ({"scan.snapshot-id": 2}, (2, None, None)),
    ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": 2}, (None, 2, None)),
]
"""Options, with the next snapshot, the snapshot whose state comes first, and the time of its files."""


@pytest.fixture
def table(tmp_path: Path) -> ts.Table:
    """A table with the snapshots 1, 2 and 3, a second apart."""
    env = SimEnv()
    table = KEYED.create(tmp_path, KEEP_ALL, env=env)
    for key in range(3):
        table.write({"k": [key]})
        env.sleep(1)
    return table


def beginning(table: ts.Table, options: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    start = scan_mode.following(table.with_options(options).store)
    return start.next_snapshot, start.full and start.full.id, start.made_since_ms


def shape(target: ScanTarget) -> tuple[Any, ...]:
    """What a target reads: the difference of two states, the changes between two snapshots, or one state."""
    if isinstance(target, StateDiff):
        return "diff", target.start.id, target.end.id
    if isinstance(target, ChangeRange):
        return "changes", target.since, target.until
    return "state", target.snapshot and target.snapshot.id


@pytest.mark.parametrize(("options", "wanted"), BEGINNINGS, ids=[str(options) for options, _ in BEGINNINGS])
def test_options_say_where_a_stream_begins(table: ts.Table, options: dict[str, Any], wanted: object) -> None:
    assert beginning(table, options) == wanted


def test_a_stream_from_a_snapshot_that_expired_begins_with_the_oldest(table: ts.Table) -> None:
    table.expire_snapshots(keep=2)
    assert beginning(table, {"scan.snapshot-id": 1}) == (2, None, None)
    assert beginning(table, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 1}) == (None, 2, None)


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    table = KEYED.create(tmp_path)
    assert beginning(table, {}) == (None, None, None)
    assert beginning(table, {"scan.mode": "latest"}) == (1, None, None)
    assert shape(scan_mode.between_times(table.store, 1, 2)) == ("changes", 0, 0)
    chosen = table.with_options({"incremental-to-auto-tag": "2024-01-01"})
    assert shape(scan_mode.batch(chosen.store)) == ("changes", 0, 0)


@pytest.mark.parametrize("options", [{"incremental-between": "1,2"}, {"scan.watermark": 5}])
def test_options_of_batch_reads_are_named(table: ts.Table, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"with {next(iter(options))} is for batch reads"):
        beginning(table, options)


def test_a_state_of_files_of_some_time_is_not_whole() -> None:
    assert SnapshotState(None).whole
    assert not SnapshotState(None, 0).whole


BETWEEN = [
    (NOW, NOW + 1_000, "auto", ("changes", 1, 2)),
    (NOW + 500, NOW + 2_500, "auto", ("changes", 1, 3)),
    (NOW + 1_000, NOW + 1_999, "auto", ("changes", 2, 2)),
    (NOW - 5, NOW + 1_000, "auto", ("changes", 0, 2)),
    (NOW + 1_000, NOW + 1_000, "auto", ("changes", 3, 3)),
    (NOW + 2_001, NOW + 3_000, "auto", ("changes", 3, 3)),
    (NOW + 2_000, NOW + 3_000, "auto", ("changes", 3, 3)),
    (NOW - 9, NOW - 1, "auto", ("changes", 3, 3)),
    (NOW - 9, NOW, "auto", ("changes", 0, 1)),
    (NOW, NOW + 1_000, "diff", ("diff", 1, 2)),
    (NOW + 1_500, NOW + 9_000, "diff", ("diff", 2, 3)),
    (NOW - 5, NOW + 1_000, "diff", ("state", 2)),
]


@pytest.mark.parametrize(("start", "end", "mode", "wanted"), BETWEEN)
def test_two_moments_name_snapshots(
    table: ts.Table, start: int, end: int, mode: str, wanted: tuple[Any, ...]
) -> None:
    assert shape(scan_mode.between_times(table.store, start, end, mode=mode)) == wanted


def test_moments_before_the_oldest_snapshot_that_is_there(table: ts.Table) -> None:
    table.expire_snapshots(keep=2)
    assert shape(scan_mode.between_times(table.store, NOW, NOW + 2_500)) == ("changes", 1, 3)
    assert shape(scan_mode.between_times(table.store, NOW, NOW + 2_500, mode="diff")) == ("diff", 2, 3)


def test_moments_go_forward(table: ts.Table) -> None:
    with pytest.raises(InvalidRequest, match="goes forward: 6 comes after 5"):
        scan_mode.between_times(table.store, 6, 5)


def test_a_difference_may_be_of_one_snapshot(table: ts.Table) -> None:
    assert shape(scan_mode.between(table.store, "2", "2", mode="diff")) == ("diff", 2, 2)
    with pytest.raises(InvalidRequest, match="snapshot 3 comes after 2"):
        scan_mode.between(table.store, "3", "2", mode="diff")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("2024-01-03", ("diff", 2, 3)),
        ("2024-01-02", ("diff", 1, 2)),
        ("2024-01-01", ("changes", 3, 3)),
        ("2024-01-04", ("changes", 3, 3)),
    ],
)
def test_the_tag_before_a_tag_is_that_of_the_time_before(
    table: ts.Table, name: str, wanted: tuple[Any, ...]
) -> None:
    for number in (1, 2, 3):
        table.tags.create(f"2024-01-0{number}", number)
    table.tags.create("2024-01", 3)  # of another period
    chosen = table.with_options({"incremental-to-auto-tag": name})
    assert shape(scan_mode.batch(chosen.store)) == wanted


def test_a_mode_of_changes_that_is_none_is_refused(table: ts.Table) -> None:
    between = {"incremental-between": "1,2", "incremental-between-scan-mode": "odd"}
    with pytest.raises(InvalidOption, match="'odd'"):
        scan_mode.batch(table.with_options(between).store)


KINDS = [
    (1, APPEND, 1),
    (2, COMPACT, 2),
    (3, COMPACT, 3),
    (4, COMPACT, BATCH_IDENTIFIER),
    (5, COMPACT, 5),
    (6, APPEND, 6),
]


@pytest.mark.parametrize(
    ("producer", "every", "without", "wanted"),
    [
        ("none", None, (), 5),
        ("none", 1, (), 5),
        ("none", 0, (), 5),
        ("none", 2, (), 4),
        ("none", 2, (4,), 2),
        ("none", 3, (4,), 3),
        ("none", 7, (4,), 6),
        ("full-compaction", None, (), 5),
        ("full-compaction", 2, (4,), 2),
        ("lookup", None, (2, 3, 4, 5), 6),
    ],
)
def test_the_newest_full_compaction(
    producer: str, every: int | None, without: tuple[int, ...], wanted: int
) -> None:
    """`every`: of so many commits one compacts fully; of a batch each does. `without` these snapshots."""
    snapshots = [
        SimpleNamespace(id=number, commit_kind=kind, commit_identifier=identifier)
        for number, kind, identifier in KINDS
        if number not in without
    ]
    options = SimpleNamespace(changelog_producer=ChangelogProducer(producer), full_delta_commits=every)
    there = SimpleNamespace(all=lambda: snapshots, latest=lambda: snapshots[-1])
    compacted = scan_mode.compacted(cast(Store, SimpleNamespace(options=options, snapshots=there)))
    assert compacted is not None
    assert compacted.id == wanted
