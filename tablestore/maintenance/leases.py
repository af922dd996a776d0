"""Leases: which service keeps which table, in files of the warehouse that are put if absent.

<directory>/<database>/<table>/lease-<n>     who has it, and until when

A claim, a renewal and a release each write the next number, which only one process can: so a service that
was late learns that it lost the table, and two services never renew the same lease. Clocks decide only when
a lease of a service that was killed may be taken; what a late service still commits, the table's own commit
accepts or refuses as of any writer. Safe to share between threads.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

from tablestore.core.env import Env
from tablestore.core.errors import Corrupt, require_there
from tablestore.io.fileio import FileIO
from tablestore.io.paths import join

_PREFIX = "lease-"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a table: its number, who has it, and the end of it, in milliseconds after 1970."""

    table: str
    number: int
    holder: str
    until_ms: int


class LeaseBook:
    """The leases of tables, as one holder sees them."""

    def __init__(self, io: FileIO, directory: str, holder: str, *, lease_ms: int, env: Env) -> None:
        self.holder = holder
        self._io, self._directory, self._lease_ms, self._env = io, directory, lease_ms, env
        self._mine: dict[str, Lease] = {}
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """How long a lease lasts."""
        return self._lease_ms / 1000

    def claim(self, table: str) -> Lease:
        """The lease of a table: ours, new or renewed, or that of the other service that has it. Raises
        Unavailable where ours is gone: the lake is away."""
        with self._lock:
            now = self._env.now_ms()
            mine = self._mine.get(table)
            if mine is not None and now < mine.until_ms - self._lease_ms // 2:
                return mine
            for _ in range(_ATTEMPTS):
                newest = self._newest(table)
                if newest is not None and newest.holder not in ("", self.holder) and now < newest.until_ms:
                    self._mine.pop(table, None)
                    return newest
                if newest is None:
                    lost = self._mine.pop(table, None)
                    require_there(lost is None, f"the lease in {self._folder(table)}")
                number = 1 if newest is None else newest.number + 1
                lease = Lease(table, number, self.holder, now + self._lease_ms)
                if self._written(lease):
                    self._mine[table] = lease
                    return lease
            raise Corrupt(self._folder(table), "its leases change faster than they can be read")

    def has(self, table: str) -> bool:
        """Whether the lease of a table is still ours; renewed where half of it is over."""
        return self.claim(table).holder == self.holder

    def renew(self) -> None:
        """Renew what is ours and half over."""
        for table in self.tables:
            self.claim(table)

    def release(self, table: str) -> None:
        """Give a table back; another service takes it at once."""
        with self._lock:
            mine = self._mine.pop(table, None)
            if (
                mine is not None and self._newest(table) is not None
            ):  # else the lake is away, or the lease gone
                self._written(Lease(table, mine.number + 1, "", self._env.now_ms()))

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables whose lease was ours when we last looked."""
        with self._lock:
            return tuple(self._mine)

    def _written(self, lease: Lease) -> bool:
        text = json.dumps({"holder": lease.holder, "until_ms": lease.until_ms})
        folder = self._folder(lease.table)
        if not self._io.write_new(join(folder, f"{_PREFIX}{lease.number}"), text.encode()):
            return False
        for number in self._numbers(lease.table):
            if number < lease.number - 1:  # the one before stays, for those who have just listed it
                self._io.delete(join(folder, f"{_PREFIX}{number}"))
        return True

    def _newest(self, table: str) -> Lease | None:
        for _ in range(_ATTEMPTS):
            number = max(self._numbers(table), default=None)
            if number is None:
                return None
            path = join(self._folder(table), f"{_PREFIX}{number}")
            try:
                values = json.loads(self._io.read(path))
                return Lease(table, number, str(values["holder"]), int(values["until_ms"]))
            except FileNotFoundError:  # newer ones have come meanwhile
                continue
            except (ValueError, KeyError, TypeError) as e:
                raise Corrupt(path, f"it is no lease: {e}") from None
        raise Corrupt(self._folder(table), "its leases change faster than they can be read")

    def _numbers(self, table: str) -> list[int]:
        try:
            names = [status.name for status in self._io.list(self._folder(table))]
        except FileNotFoundError:
            return []
        return [int(n.removeprefix(_PREFIX)) for n in names if n.removeprefix(_PREFIX).isdigit()]

    def _folder(self, table: str) -> str:
        return join(self._directory, *table.split(".", 1))
