"""LogPosition: a place in the binlog between two transactions, by file and offset and by GTID.

File and offset are found at once, a GTID only by reading the file from its start; but a GTID means the same
on every server of a replication, so positions have both. They are ordered by file number and offset; those of
two servers are not comparable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tablestore.core.errors import InvalidRequest, NotFound


@dataclass(frozen=True, slots=True)
class LogPosition:
    """All before `offset` of `file`; `gtid` is the last transaction of each domain (of each server:
    MySQL). `created`: the second after 1970 in which the file was begun, 0 where that is not known."""

    file: str
    offset: int
    gtid: str = ""
    created: int = field(default=0, compare=False)

    @property
    def order(self) -> tuple[int, int]:
        """What orders positions of one server: binlog.999999 comes before binlog.1000000."""
        number = self.file.rpartition(".")[2]
        if not number.isdigit():
            raise InvalidRequest(f"{self.file!r} is no name of a binlog file")
        return int(number), self.offset

    def reaches(self, other: LogPosition) -> bool:
        """Whether everything before `other` is before this one."""
        return self.order >= other.order

    def end_before(self, target: LogPosition, end: LogPosition) -> LogPosition:
        """Where one that goes on from here stops: at the target, or at the end of the log before that."""
        return self if self.reaches(target) else target if end.reaches(target) else end

    def includes(self, other: LogPosition) -> bool:
        """Whether every transaction before `other`, maybe a position of another server, is before this one,
        by their GTIDs. Those of MySQL are not compared: True only for the same text."""
        mine = {gtid.split("-")[0]: gtid for gtid in self.gtid.split(",") if gtid.count("-") == 2}
        for wanted in filter(None, other.gtid.split(",")):
            if wanted.count("-") != 2:
                return self.gtid == other.gtid
            domain, _, number = wanted.split("-")
            if int(mine.get(domain, "0-0-0").split("-")[2]) < int(number):
                return False
        return True

    def of_another_log(self, address: str, why: str) -> NotFound:
        """The error where the server has a log of which this is no position."""
        return NotFound(
            f"{address}: the binlog is another one than that of {self}: {why}. It was begun anew (RESET "
            "MASTER), lost its end, or the server is another one: "
            "start with a new snapshot; a capture does so with read_again='*.*' (--read-again '*.*')"
        )

    def to_json(self) -> list[Any]:
        return [self.file, self.offset, self.gtid, *([self.created] if self.created else [])]

    @classmethod
    def from_json(cls, item: Any) -> LogPosition:
        try:
            file, offset, gtid, *created = item
            (second,) = created or [0]
            return cls(str(file), int(offset), str(gtid), int(second))
        except (TypeError, ValueError):
            raise InvalidRequest(f"{item!r} is no position in a binlog") from None

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}" + (f" ({self.gtid})" if self.gtid else "")
