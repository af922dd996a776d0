"""Files that a cluster has put elsewhere, segments of logs, snapshots of keys and offsets of the lake: where
they are.

A folder that this machine sees, too, or S3, with the endpoint and the keys of the environment (`AWS_…`). A
server says where they are, so a file is only read in the place that Fluss has for the bucket that is asked
for, and never through a link or a device below `remote.data.dir`:

    <remote.data.dir>/log/<database>/<table>-<table id>/[<partition>-p<partition id>/]<bucket>/<segment id>/…
    <remote.data.dir>/kv/ … the same … /<bucket>/shared/…  and  /snap-<snapshot id>/…
    <remote.data.dir>/lake/<database>/<table>-<table id>/metadata/<name>.offsets     (from 0.9 on)
"""

from __future__ import annotations

import re
from typing import Any

from tablestore.core.errors import Corrupt, InvalidRequest, Unsupported
from tablestore.fluss.answers import require
from tablestore.fluss.tables import FlussTable, TableBucket
from tablestore.io.confined import confined
from tablestore.io.fileio import FileIO
from tablestore.io.paths import is_plain, join, location
from tablestore.io.routed import file_io_for

LOG, KEYS = "log", "kv"


def remote_location(path: str, where: str) -> str:
    """The location of a remote file or folder; raises Unsupported, naming `where`, for another store."""
    try:
        return location(path)
    except Unsupported:
        scheme = path.partition("://")[0]
        raise Unsupported(
            f"remote files of Fluss at {scheme}://",
            f"{where}: remote.data.dir must be a folder that this machine sees, or s3://",
        ) from None
    except InvalidRequest as e:
        raise Corrupt(where, f"a remote file whose place is none: {e}") from None


def bucket_files(
    kind: str, path: str, table: FlussTable, bucket: TableBucket, *, io: FileIO | None = None
) -> tuple[str, FileIO]:
    """The location of a remote file or folder of a bucket's LOG or KEYS, and what reads it: `io`, by default
    that of its place, without links. Raises Corrupt where Fluss has no such files, Unsupported for another
    store."""
    where = f"{table.path}: {bucket}"
    place = remote_location(path, where)
    named = re.escape(f"{table.path.database}/{table.path.table}-{table.table_id}")
    partition = "" if bucket.partition_id is None else rf"/[^/]+-p{bucket.partition_id}"
    inside = re.fullmatch(rf"(.+)/{kind}/{named}{partition}/{bucket.bucket}(/.*)?", place, re.DOTALL)
    if inside is None:
        raise Corrupt(where, f"the server names {place!r}, which is no place of its {kind} files: not read")
    return place, confined(io or file_io_for(place), inside[1])


def lake_file(path: str, table: FlussTable) -> tuple[str, FileIO]:
    """The location of a file of offsets of the lake table, and what reads it; as `bucket_files`."""
    place = remote_location(path, str(table.path))
    named = re.escape(f"{table.path.database}/{table.path.table}-{table.table_id}")
    inside = re.fullmatch(rf"(.+)/lake/{named}/metadata/[^/]+\.offsets", place, re.DOTALL)
    if inside is None:
        text = f"the lake names {place!r}, which is no place of offsets of this table: not read"
        raise Corrupt(str(table.path), text)
    return place, confined(file_io_for(place), inside[1])


def segment_files(
    remote: Any, table: FlussTable, bucket: TableBucket, *, io: FileIO | None = None
) -> tuple[list[tuple[str, int]], int, FileIO]:
    """Segment files of a log as (path, the offset behind the last row), where the first is to be read from,
    and what reads them. Raises as `bucket_files`, and Corrupt for what is no list of segments."""
    folder, io = bucket_files(LOG, remote.tablet_dir, table, bucket, io=io)
    where, files = f"{table.path}: {bucket}: segments", []
    for segment in remote.segments:
        start, end = segment.start_offset, segment.end_offset
        right = is_plain(segment.segment_id) and 0 <= start < end
        require(right, where, f"a segment {segment.segment_id[:100]!r} from offset {start} to {end}")
        files.append((join(folder, segment.segment_id, f"{start:020d}.log"), end))
    require(remote.first_start_pos >= 0, where, f"a place {remote.first_start_pos} in a file")
    return files, remote.first_start_pos, io
