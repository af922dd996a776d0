"""The mark of a transaction: a header of the first message of each of its partitions, as JSON.

id      tells the transaction from others
order   grows from transaction to transaction of a slot, whatever the clock does
time    milliseconds after 1970
rows    the number of its messages in each partition
mark    the commit of the table that it is of
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tablestore.core.errors import SchemaMismatch
from tablestore.log.log import CommitMark

HEADER = "tablestore-commit"


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """What the header says."""

    id: str
    order: int
    timestamp_ms: int
    rows: Mapping[int, int]
    mark: CommitMark

    def encode(self) -> bytes:
        """The header's value."""
        body = {
            "id": self.id,
            "order": self.order,
            "time": self.timestamp_ms,
            "rows": dict(self.rows),
            "mark": {**asdict(self.mark), "properties": dict(self.mark.properties)},
        }
        return json.dumps(body).encode()

    @classmethod
    def decode(cls, value: bytes | str | None) -> TransactionMark:
        """The mark of a header's value. Raises SchemaMismatch for what is none: others may write messages."""
        try:
            body = json.loads(value or b"")
            rows = {int(bucket): count for bucket, count in body["rows"].items()}
            decoded = cls(body["id"], body["order"], body["time"], rows, CommitMark(**body["mark"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise SchemaMismatch(f"the header {HEADER!r} of a message is no mark of a transaction") from None
        if not decoded._is_sound():
            raise SchemaMismatch(f"the header {HEADER!r} of a message has values that no transaction has")
        return decoded

    def _is_sound(self) -> bool:
        numbers = (self.order, self.timestamp_ms, self.mark.identifier, *self.rows.values())
        position, watermark = self.mark.position, self.mark.watermark
        properties = self.mark.properties
        return (
            all(type(number) is int for number in numbers)
            and all(bucket >= 0 and count > 0 for bucket, count in self.rows.items())
            and isinstance(self.id, str)
            and isinstance(self.mark.user, str)
            and (position is None or isinstance(position, str))
            and (watermark is None or type(watermark) is int)
            and isinstance(properties, dict)
            and all(isinstance(text, str) for text in properties.values())
        )
