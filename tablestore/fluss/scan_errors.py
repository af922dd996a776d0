"""What a scan of a log raises of one bucket: it stalls, its rows are gone, or others are in their place."""

from __future__ import annotations

from tablestore.core.errors import NotFound, Unavailable
from tablestore.fluss.tables import TableBucket


class LogStalled(Unavailable):
    """A bucket gives no rows although it has some: `bucket` says which, `offset` where the scan has come
    to."""

    def __init__(self, bucket: TableBucket, offset: int, message: str) -> None:
        self.bucket, self.offset = bucket, offset
        super().__init__(message)


class LogOffsetExpired(NotFound):
    """Rows that are asked for are no longer in the log: `bucket` says whose, `offset` from which on,
    `start` where the log begins now, if known."""

    def __init__(self, bucket: TableBucket, offset: int, start: int | None, message: str) -> None:
        self.bucket, self.offset, self.start = bucket, offset, start
        super().__init__(message)


class LogRewritten(NotFound):
    """A log does not have the rows any more that were read of it, and has others at their offsets: `bucket`
    says whose, `offset` up to where rows were read."""

    def __init__(self, bucket: TableBucket, offset: int, message: str) -> None:
        self.bucket, self.offset = bucket, offset
        super().__init__(message)


def rewritten(where: str, offset: int) -> str:
    """What there is to say of a log whose batch before an offset is another one by now."""
    return (
        f"{where}: the log was cut below offset {offset}, up to which its rows were read, and has others "
        "there now: a server that was killed lost rows which it had acknowledged"
    )
