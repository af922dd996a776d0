"""Keeps the rows of a stream of one table: what a change takes away is there, and what it adds is not."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from typing import Any

from tablestore.flow.source import Offset
from tests.servers.mariadb import PASSWORD

Row = dict[str, Any]


class KeyedSink:
    """Rows by their key k."""

    def __init__(self, source: Any) -> None:
        self.source, self.rows, self.offset = source, dict[Any, Row](), source.initial()

    @property
    def reading(self) -> bool:
        """Whether the rows that the stream begins with are not all here."""
        return self.offset.get("phase") == "snapshot" or bool(self.offset.get("rows"))

    def batch(
        self,
        *,
        target: Offset | None = None,
        repeat: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> bool:
        """One batch, with its offsets as JSON and its pieces pickled; False where there is nothing new.
        `meanwhile` is done between its planning and its reading."""
        end = json.loads(json.dumps(self.source.next(self.offset, target)))
        if end == self.offset:
            return False
        meanwhile()
        pieces = self.source.pieces(self.offset, end)
        random.Random(len(self.rows)).shuffle(pieces)  # no key is in two of them
        changes = [change for piece in pieces for change in changes_of(piece, self.source)]
        for kind, row in changes:
            self.apply(kind, row)
        if repeat:
            again = [change for piece in pieces for change in changes_of(piece, self.source)]
            assert sorted(again, key=repr) == sorted(changes, key=repr)
        self.offset = end
        return True

    def apply(self, kind: int, row: Row) -> None:
        if kind in (1, 3):
            assert self.rows.pop(row["k"]) == row
        else:
            assert row["k"] not in self.rows
            self.rows[row["k"]] = row

    def catch_up(self) -> None:
        target = self.source.latest()
        while self.batch(target=target):
            pass


def changes_of(piece: Any, source: Any) -> list[tuple[int, Row]]:
    """(row kind, row) of a piece, which is sent to a task."""
    sent = pickle.dumps(piece)
    assert PASSWORD.encode() not in sent
    return [
        pair
        for batch, kinds in pickle.loads(sent).read(source.schema.names)
        for pair in zip(kinds.to_pylist(), batch.to_pylist(), strict=True)
    ]
