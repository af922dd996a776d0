"""What a piece of a capture changes in tables of the lake: its rows in their columns, and dead letters.

Memory: the rows that the piece gives at a time, and rows that do not fit, a thousand of each table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow.compute as pc

from tablestore.cdc.capture import dead_letters
from tablestore.cdc.capture.conversion import Conversion
from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import BadRow, CapturePiece, TableRows
from tablestore.cdc.phase import PHASE_OPTION
from tablestore.core.errors import InvalidRequest
from tablestore.flow.batch import WorkOf
from tablestore.flow.writing import RowsWritten, TableChanges, TableRefused, TableTarget, Takes
from tablestore.table.table import Table

_LETTERS = 1_000  # rows that do not fit and are written together


@dataclass(frozen=True)
class CaptureChanges:
    """The changes of pieces (`flow.writing.PieceChanges`); `routes` says to which of the `targets` each table
    of the source goes. `letters`: rows that do not fit are written beside it; else they are errors, or have
    their table refused, where the source goes on without it (`pausing`). Tables without a route are passed
    over."""

    rules: CaptureRules
    routes: Mapping[SourceName, str]
    targets: Mapping[str, TableTarget]
    letters: bool = False
    pausing: bool = False

    def of(self, work: WorkOf[CapturePiece], takes: Takes) -> Iterator[TableChanges | TableRefused]:
        """The changes; nothing is read of a piece without a table that is asked for."""
        chosen = {name: target for name, target in self.routes.items() if self._is_asked_for(target, takes)}
        if chosen.keys() & work.piece.tables.keys():
            yield from _PieceRows(self, work.piece, chosen, takes).changes()

    def are_logged(self, work: WorkOf[CapturePiece], table: Table) -> bool:
        """All but rows of a snapshot of which the table wants no changelog."""
        return work.piece.chunk is None or table.options.get(PHASE_OPTION, "true") == "true"

    def letters_of(self, target: str) -> str | None:
        """The table for rows that do not fit into a target."""
        return dead_letters.beside(target) if self.letters else None

    def _is_asked_for(self, target: str, takes: Takes) -> bool:
        letters = self.letters_of(target)
        return takes(target) or (letters is not None and takes(letters))


@dataclass(slots=True)
class _PieceRows:
    """The rows of one piece, on their way into the tables that are `chosen`."""

    of: CaptureChanges
    piece: CapturePiece
    chosen: Mapping[SourceName, str]
    takes: Takes
    conversions: dict[SourceName, Conversion] = field(default_factory=dict)
    bad: dict[str, list[BadRow]] = field(default_factory=dict)  # by table that takes them
    refused: set[SourceName] = field(default_factory=set)

    def changes(self) -> Iterator[TableChanges | TableRefused]:
        for part in self.piece.read():
            if part.table not in self.chosen or part.table in self.refused:
                continue
            target = self.chosen[part.table]
            if isinstance(part, BadRow):
                bad: Sequence[BadRow] = [part]
                converted = TableChanges(target, RowsWritten(bad_rows=1))
            else:
                done = self._conversion(part.table, target).convert(part)
                bad = done.bad
                counted = _counted(part, done.rows.num_rows, len(bad))
                rows = done.rows if done.rows.num_rows else None
                converted = TableChanges(target, counted, rows, done.kinds)
            if self.takes(target):
                yield converted
            yield from self._kept(self.of.letters_of(target), bad)
        for letters in list(self.bad):
            yield from self._letters(letters)

    def _conversion(self, name: SourceName, target: str) -> Conversion:
        if name not in self.conversions:
            shape = self.piece.tables.get(name)
            if shape is None:
                raise InvalidRequest(f"a piece gives rows of {name}, and does not say what they look like")
            table = self.of.targets[target].opened()
            self.conversions[name] = self.of.rules.conversion(
                name,
                shape,
                table.store.schema.fields,
                primary_key=table.primary_key,
                partition_by=table.partition_by,
            )
        return self.conversions[name]

    def _kept(self, letters: str | None, bad: Sequence[BadRow]) -> Iterator[TableChanges | TableRefused]:
        """Keep rows that do not fit for a table of theirs; where there is none they are an error."""
        if not bad or (letters is None and bad[0].unheld):
            return
        if letters is None:
            error = dead_letters.failed(bad[0])
            if not self.of.pausing:
                raise error
            self.refused.add(bad[0].table)
            yield TableRefused(bad[0].table, str(error))
            return
        waiting = self.bad.setdefault(letters, [])
        waiting.extend(bad)
        if len(waiting) >= _LETTERS:
            yield from self._letters(letters)

    def _letters(self, letters: str) -> Iterator[TableChanges]:
        bad = self.bad.pop(letters)
        if self.takes(letters):
            yield TableChanges(letters, RowsWritten(changes=len(bad)), dead_letters.as_rows(bad))


def _counted(part: TableRows, rows: int, bad: int) -> RowsWritten:
    """The count of a part of a piece that has this many good and bad rows."""
    if part.seconds is None:
        return RowsWritten(snapshot_rows=rows, bad_rows=bad)
    return RowsWritten(changes=rows, bad_rows=bad, newest=pc.max(part.seconds).as_py())
