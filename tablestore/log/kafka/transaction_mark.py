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
    def decode(cls, value: bytes) -> TransactionMark:
        """The mark of a header's value."""
        body = json.loads(value)
        rows = {int(bucket): count for bucket, count in body["rows"].items()}
        return cls(body["id"], body["order"], body["time"], rows, CommitMark(**body["mark"]))
