"""Engine writers that compact say which snapshot they looked at; blind compactions are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format import commit_message
from tablestore.table.table import Table


def made(path: Path, **options: Any) -> Table:
    return ts.connect(str(path)).create_table(
        "d.t",
        schema={"k": ts.INT, "v": ts.STRING},
        primary_key=["k"],
        options={"bucket": 1, "deletion-vectors.enabled": True} | options,
    )


def batch(k: int, v: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": k, "v": v}])


def rows(t: Table) -> dict[int, str]:
    columns = t.scan().to_arrow().to_pydict()
    assert len(set(columns["k"])) == len(columns["k"])
    return dict(zip(columns["k"], columns["v"], strict=True))


def test_messages_that_compact_say_what_they_saw(tmp_path: Path) -> None:
    t = made(tmp_path)
    t.write(batch(1, "a"))
    for compact, compacted_from in ((True, 2), (False, None)):
        writer = t.open_writer(compact=compact)
        writer.write(batch(1, "b"))
        assert [commit_message.decode(m).compacted_from for m in writer.prepare()] == [compacted_from]
        writer.close()


def test_a_compaction_that_did_not_see_another_is_refused(tmp_path: Path) -> None:
    t = made(tmp_path)
    writer = t.open_writer(compact=True)
    writer.write(batch(1, "engine"))
    messages = writer.prepare()
    t.write(batch(1, "first"))
    done = t.commit(messages, user="engine", identifier=1)
    assert (done.snapshots, done.lost_compaction) == ((3, 4), None), "compacted again, from snapshot 3"
    assert rows(t) == {1: "engine"}
    assert t.check() == []


def test_a_writer_that_goes_on_has_seen_its_own_compactions(tmp_path: Path) -> None:
    t = made(tmp_path, bucket=2)
    writer = t.open_writer(compact=True)
    for identifier in range(4):
        for k in range(6):
            writer.write(batch(k, str(identifier)))
        t.commit(writer.prepare(), user="engine", identifier=identifier)
    assert rows(t) == dict.fromkeys(range(6), "3")
    t.write(batch(1, "other"))
    writer.write(batch(1, "late"))
    t.commit(writer.prepare(), user="engine", identifier=9)
    assert rows(t)[1] == "late"
    assert t.check() == []


@pytest.mark.parametrize("options", [{}, {"deletion-vectors.enabled": False, "merge-engine": "first-row"}])
def test_a_compaction_is_refused_where_what_came_between_has_expired(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Two compactions that do not know each other would both show their row of a key."""
    t = made(tmp_path, **{"write-only": True}, **options)
    t.write(batch(1, "a"))
    message = ts.compact_bucket(t.location, t.buckets_to_compact(full=True)[0])
    assert message is not None
    for k in range(3):
        t.write(batch(k, "b"))
    t.expire_snapshots(keep=1)
    with pytest.raises(
        ts.CommitConflict, match="snapshot 2 expired, which may have compacted the same bucket"
    ):
        t.commit([message], user="engine")
    t.compact(full=True)
    assert len(rows(t)) == 3
    assert t.check() == []
