"""Which transaction of an embedded log a snapshot has last: its number, and a uuid that no other one has.

A snapshot names it beside its offsets (`offsets.PROPERTY`). So everybody who begins to read or append sees
whether the log is still the one that the snapshot was made from, and whether it goes that far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tablestore.core.errors import Corrupt, NotFound
from tablestore.format.snapshot import Snapshot
from tablestore.log import offsets

PROPERTY = "tablestore.log-transaction"
"""The property of a snapshot that holds it, as text `number uuid`."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """One transaction of a log. `number`: that of its file, from 1 on."""

    number: int
    uuid: str

    @property
    def text(self) -> str:
        """As a property holds it.

        >>> TransactionId(7, "c0ffee").text
        '7 c0ffee'
        """
        return f"{self.number} {self.uuid}"


def parse(value: str, path: str) -> TransactionId:
    """The transaction of a text; raises Corrupt, with the `path` of the file that holds it, for anything
    else."""
    number, _, uuid = value.partition(" ")
    if not (number.isascii() and number.isdigit() and uuid):
        raise Corrupt(path, f"{PROPERTY} {value!r} is no number and uuid of a transaction")
    return TransactionId(int(number), uuid)


def newest(some: TransactionId | None, other: TransactionId | None) -> TransactionId | None:
    """The one of the higher number."""
    if some is None or other is None:
        return some or other
    return max(some, other, key=lambda t: t.number)


def of_snapshot(snapshot: Snapshot) -> TransactionId | None:
    """What a snapshot names, None if it names none."""
    value = (snapshot.properties or {}).get(PROPERTY)
    return None if value is None else parse(value, f"snapshot-{snapshot.id}")


def known(latest: Snapshot | None, get: Callable[[int], Snapshot]) -> TransactionId | None:
    """The transaction that holds at a snapshot: its own, or where another engine made it, that of the newest
    older one with offsets. None where that is not known. `get` gives the snapshot of an id or raises
    NotFound."""
    at = latest
    while at is not None and offsets.of_snapshot(at) is None:
        try:
            at = get(at.id - 1) if at.id > 1 else None
        except NotFound:
            return None
    return None if at is None else of_snapshot(at)
