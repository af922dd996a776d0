"""Segment files and snapshots that a cluster has put into S3; the cluster itself is a scripted one."""

from __future__ import annotations

import contextlib

import pytest

from tablestore.fluss.cluster import Cluster
from tablestore.fluss.log_scan import LogScan
from tablestore.fluss.messages import pb
from tablestore.io.routed import file_io_for
from tests.fluss.test_log_scan import TABLE, ZERO, Leader, batch, log_of
from tests.servers.s3 import KEY, SECRET, S3Server


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_segments_in_s3_come_before_the_log(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    folder = f"{moto.bucket()}/remote/log/d/t-7/0"
    io = file_io_for(folder, moto.options)
    assert io.write_new(f"{folder}/a/{0:020d}.log", b"".join(map(batch, (0, 10, 20))))
    assert io.write_new(f"{folder}/b/{30:020d}.log", b"".join(map(batch, (30, 40))))
    for name, value in (
        ("ENDPOINT_URL", moto.endpoint),
        ("ACCESS_KEY_ID", KEY),
        ("SECRET_ACCESS_KEY", SECRET),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)

    def fetch(asked: pb.FetchBucket) -> dict:
        if asked.fetch_offset >= 50:
            return log_of(70)(asked)
        segments = [
            pb.RemoteLogSegment(segment_id=name, start_offset=start, end_offset=end, size_in_bytes=1)
            for name, start, end in (("a", 0, 30), ("b", 30, 50))
        ]
        remote = pb.RemoteLog(
            tablet_dir=folder.replace("s3", scheme, 1), segments=segments, first_start_pos=len(batch(0))
        )
        return {"high_watermark": 70, "remote_log": remote}

    with (
        contextlib.closing(Leader(fetch, None)) as leader,
        Cluster(f"127.0.0.1:{leader.port}") as cluster,
        LogScan(cluster, TABLE, {ZERO: 15}, {ZERO: 65}, stall_seconds=240) as scan,
    ):
        assert [i for records in scan for i in records.rows["id"].to_pylist()] == list(range(15, 65))
