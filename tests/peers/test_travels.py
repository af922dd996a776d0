"""Where reads and streams begin, and what they give, as Java Paimon says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import NotFound, TablestoreError
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon
from tests.peers.travels import TABLE, copied, rows

pytestmark = pytest.mark.peer

TRAVELS: list[dict[str, Any]] = [
    {"scan.snapshot-id": 2},
    {"scan.tag-name": "t1"},
    {"scan.version": "t1"},
    {"scan.version": "3"},
    {"scan.version": "9"},
    {"scan.version": "no such"},
    {"scan.tag-name": "no such"},
    {"scan.snapshot-id": 77},
    {"scan.timestamp-millis": 1},
    {"scan.timestamp-millis": 9_999_999_999_999},
    {"scan.timestamp": "2026-11-21 00:31:06.990"},
    {"scan.watermark": 3},
    {"scan.mode": "latest"},
    {"scan.mode": "full"},
    {"scan.mode": "compacted-full"},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 2},
    {"scan.mode": "from-snapshot"},
    {"scan.mode": "latest-full", "scan.snapshot-id": 2},
    {"scan.mode": "from-timestamp", "scan.timestamp-millis": 1_795_221_066_990},
    {"scan.file-creation-time-millis": 1_795_221_067_000},
    {"scan.creation-time-millis": 1_795_221_066_950},
    {"scan.creation-time-millis": 1},
    {"incremental-between": "1,3"},
    {"incremental-between": "0,6"},
    {"incremental-between": "kept,t1"},
    {"incremental-between": "t1,nix"},
    {"incremental-between": "3,1"},
    {"incremental-between": "2,2"},
    {"incremental-between": "0,99"},
    {"incremental-between": "t1,kept", "incremental-between-tag-to-snapshot": True},
    {"incremental-between": "2,6", "incremental-between-scan-mode": "changelog"},
    {"incremental-between": "0,3", "incremental-between-scan-mode": "delta"},
    {"incremental-between-timestamp": "1795221066940,1795221067100"},
    {"incremental-between-timestamp": "2026-11-21 00:31:06.950,2026-11-21 00:31:07.001"},
]


def _both(java: JavaPaimon, path: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """What both say; a refusal is the word "refused"."""
    try:
        rows = ts.open(path).with_options(options).system("audit_log").to_arrow()
        ours: Any = in_order(cells(rows))
    except TablestoreError:
        ours = "refused"
    try:
        theirs: Any = in_order(java.read(path, suffix="audit_log", options=options).rows)
    except JavaError:
        theirs = "refused"
    return ours, theirs


@pytest.mark.parametrize("options", TRAVELS, ids=str)
@pytest.mark.sample(12)
def test_where_a_read_starts_is_where_java_s_does(
    java: JavaPaimon, tmp_path: Path, options: dict[str, Any]
) -> None:
    ours, theirs = _both(java, copied(tmp_path, "branch_tags"), options)
    assert ours == theirs


def test_watermarks_are_travelled_to_alike(java: JavaPaimon, tmp_path: Path) -> None:
    path = copied(tmp_path, "analyzed")
    marks = sorted({s.watermark for s in ts.open(path).store.snapshots.all() if s.watermark is not None})
    assert marks
    for mark in (marks[0] - 1, *marks, marks[-1] + 1):
        ours, theirs = _both(java, path, {"scan.watermark": mark})
        assert ours == theirs, mark


@pytest.mark.parametrize("name", ["overwrite", "pk_changelog_input", "pk_changelog_lookup", "pk_levels"])
@pytest.mark.sample(2)
def test_differences_are_those_of_the_states(java: JavaPaimon, tmp_path: Path, name: str) -> None:
    """Java compares by files: it also tells rows that were written again as they were, and of a tombstone its
    own values, be the key new or not. Of rows that really differ both tell the same."""
    path = copied(tmp_path, name)
    table = ts.open(path)
    ids, keys = table.store.snapshots.ids(), table.primary_key
    for start, end in ((ids[0], ids[-1]), (ids[1], ids[3 % len(ids)]), (ids[-2], ids[-1])):
        if start >= end:
            continue
        options = {"incremental-between": f"{start},{end}", "incremental-between-scan-mode": "diff"}
        ours, theirs = _both(java, path, options)
        before, after = ({tuple(r[k] for k in keys): r for r in state(table, s)} for s in (start, end))
        expected = {(*("+I",), *map(str, r.values())) for k, r in after.items() if before.get(k) != r}
        expected |= {(*("-D",), *map(str, r.values())) for k, r in before.items() if k not in after}
        diff = table.changes(since=start, until=end, mode="diff").to_pylist()
        assert {(r.pop("rowkind").replace("+U", "+I"), *map(str, r.values())) for r in diff} == expected
        there = [r for r in theirs if r[0][0] == "+"]
        assert [r for r in there if r in ours] == [r for r in ours if r[0][0] == "+"], options
        again = [r[1:] for r in there if r not in ours]
        assert all(r in in_order(cells(table.at(snapshot=start).scan().to_arrow())) for r in again), options
        gone, theirs_gone = ({str(r[1 : 1 + len(keys)]) for r in x if r[0] == "-D"} for x in (ours, theirs))
        assert gone <= theirs_gone, options
        assert table.with_options(options).scan().count() == len([r for r in ours if r[0][0] == "+"])


def state(table: ts.Table, snapshot: int) -> list[dict[str, Any]]:
    return table.at(snapshot=snapshot).scan().to_arrow().to_pylist()


STREAMS: list[dict[str, Any]] = [
    {},
    {"scan.mode": "latest"},
    {"scan.mode": "from-snapshot", "scan.snapshot-id": 2},
    {"scan.snapshot-id": 4},
    {"scan.mode": "from-snapshot-full", "scan.snapshot-id": 3},
    {"scan.mode": "compacted-full"},
    {"scan.timestamp-millis": 1},
    {"streaming-read-overwrite": True, "scan.snapshot-id": 1},
    {"scan.tag-name": "t1"},
]


@pytest.mark.parametrize("options", STREAMS, ids=str)
@pytest.mark.parametrize("name", ["overwrite", "pk_changelog_lookup", "branch_tags"])
@pytest.mark.sample(9)
def test_streams_begin_and_go_on_as_java_s(
    java: JavaPaimon, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    path = copied(tmp_path, name)
    try:
        steps: object = [
            in_order(cells(c.to_arrow()))
            for c in ts.open(path).with_options(options).stream(follow=False, normalize=False)
        ]
    except TablestoreError:
        steps = "refused"
    try:
        theirs: object = [in_order(p["changes"]) for p in java.stream(path, start=None, options=options)]
    except JavaError:
        theirs = "refused"
    assert steps == theirs


def test_a_consumer_of_java_s_is_gone_on_with(java: JavaPaimon, tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    t.write(rows(0, 2, "a"))
    java.stream(t.location, start=None, done=True, options={"consumer-id": "job"})
    assert t.consumers.list().to_pylist() == [{"consumer_id": "job", "next_snapshot_id": 2}]
    t.write(rows(5, 1, "b"))
    (step,) = t.with_options({"consumer-id": "job"}).stream(follow=False)
    assert step.to_arrow().to_pylist() == [{"rowkind": "+I", "k": 5, "v": "b"}]
    assert java.read(t.location, suffix="consumers").named() == [
        {"consumer_id": "job", "next_snapshot_id": 3}
    ]
    t.write(rows(6, 1, "c"))
    t.expire_snapshots(keep=1)
    assert t.store.snapshots.ids() == [3]
    java.expire(t.location, max=1, min=1, time_ms=0)
    assert t.store.snapshots.ids() == [3]
    t.consumers.delete("job")
    with pytest.raises(NotFound, match="no consumer 'job'"):
        t.consumers.delete("job")
