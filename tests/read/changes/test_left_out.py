"""A stream that leaves out what an OVERWRITE changed says so."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import tablestore as ts


def test_what_a_stream_leaves_out_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    t = ts.connect(tmp_path).create_table(
        "d.t",
        schema={"p": ts.INT, "k": ts.INT, "v": ts.INT},
        primary_key=["p", "k"],
        partition_by=["p"],
    )
    t.write([{"p": p, "k": k, "v": k} for p in (1, 2) for k in (1, 2)])
    latest = t.store.snapshots.latest_id()
    assert latest is not None
    with caplog.at_level(logging.WARNING, logger="tablestore.read.changes.overwritten"):
        assert list(t.stream(start=latest, follow=False, normalize=False)) != []
        assert caplog.messages == []
        t.truncate(partition={"p": 1})
        assert list(t.stream(start=latest + 1, follow=False, normalize=False)) == []
    assert [f"snapshot {latest + 1} is an OVERWRITE" in text for text in caplog.messages] == [True]
    assert "streaming-read-overwrite" in caplog.messages[0]
