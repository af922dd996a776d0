"""Log batches as servers store them, and all rows of a small log."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tablestore.fluss.log_records import LogRecords, check, decode, heads


def in_format_1(batch: bytes, leader_epoch: int) -> bytes:
    """An encoded batch in format V1, which has the epoch of the leader that took it."""
    size = struct.unpack_from("<i", batch, 8)[0] + 4
    return (
        batch[:8] + struct.pack("<ib", size, 1) + batch[13:21] + struct.pack("<i", leader_epoch) + batch[21:]
    )


def decoded(data: Any, schema: pa.Schema, where: str = "a log") -> Iterator[LogRecords]:
    """All whole batches of `data`, each checked."""
    buffer = pa.py_buffer(data)
    for head in heads(buffer, where):
        check(buffer, head, where)
        yield decode(buffer, head, schema, where)
