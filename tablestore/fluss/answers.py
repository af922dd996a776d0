"""What a server answers, checked against what it was asked: names, ids, offsets, counts.

A cluster may be a stranger's. What it says becomes names of tables and files, sizes of lists and places in
logs, so each of these is looked at once, where an answer becomes values. Corrupt names the server's part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tablestore.core.errors import Corrupt, InvalidRequest
from tablestore.fluss.tables import FlussTable, TableBucket
from tablestore.io.paths import checked_name

_REMEDY = "the address names no sound server of Fluss"


def require(right: object, where: str, problem: str) -> None:
    """Raise Corrupt, naming `where`, unless `right`."""
    if not right:
        raise Corrupt(where, problem, remedy=_REMEDY)


def name_of(text: str, what: str, where: str) -> str:
    """The name of a database or a table, which cannot leave its folder."""
    try:
        checked_name(text, what)
    except InvalidRequest as e:
        raise Corrupt(where, e, remedy=_REMEDY) from None
    require("." not in text, where, f"{what} name {text!r} holds a point")
    return text


def offset_of(message: Any, field: str, where: str) -> int:
    """An offset that must be there, of a log that begins at 0."""
    require(message.HasField(field) and getattr(message, field) >= 0, where, f"no {field} or one below 0")
    return int(getattr(message, field))


def bucket_of(message: Any, where: str, *, partition_id: int | None, table: FlussTable) -> TableBucket:
    """The bucket that a part of an answer names: one of `table`, of the partition that was asked for."""
    right = 0 <= message.bucket_id < table.buckets
    require(right, where, f"an answer for bucket {message.bucket_id} of {table.buckets}")
    return TableBucket(table.table_id, partition_id, message.bucket_id)


def partition_of(message: Any) -> int | None:
    """The partition that a part of an answer names, None for a table without."""
    return message.partition_id if message.HasField("partition_id") else None


def same(answered: object, asked: object, what: str, where: str) -> None:
    """Raise Corrupt unless an answer is about what was asked."""
    require(answered == asked, where, f"an answer for {what} {answered}, asked was {asked}")


def all_of(answered: Collection[Any], asked: Iterable[Any], where: str) -> None:
    """Raise Corrupt unless an answer has a part for each that was asked for."""
    missing = [each for each in asked if each not in answered]
    require(not missing, where, f"an answer without {missing[0] if missing else ''}")


def unique(answered: Sequence[Any], what: str, where: str) -> None:
    """Raise Corrupt where an answer names one twice."""
    require(len(set(answered)) == len(answered), where, f"it names a {what} twice")


def values_of(spec: Any, where: str) -> Mapping[str, str]:
    """The values of the partition keys."""
    require(spec.values, where, "a partition without values")
    unique([value.key for value in spec.values], "partition key", where)
    return {value.key: value.value for value in spec.values}
