"""Which tables a capture goes on without: those that its sink cannot follow are paused at their source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import CaptureSource, PausingSource
from tablestore.core.errors import SchemaMismatch
from tablestore.flow.source import Offset


@dataclass(frozen=True, slots=True)
class Pausing:
    """The paused tables of a source, batch by batch."""

    source: CaptureSource
    rules: CaptureRules

    def allowed(self, start: Offset) -> bool:
        """Whether a batch from `start` may leave a table out. A capture that is refused in its first batch
        has not begun, and tables that share their target are followed all or none."""
        begun = start != self.source.initial()
        return isinstance(self.source, PausingSource) and begun and not self.rules.merge_shards

    def tables(self, end: Offset) -> Mapping[SourceName, str]:
        """The tables of which the batch that ends here brings nothing, with the reason."""
        return self.source.paused(end) if isinstance(self.source, PausingSource) else {}

    def add(self, end: Offset, tables: Mapping[SourceName, str]) -> None:
        """Have the source go on without these, too; raises SchemaMismatch where there is no other."""
        assert isinstance(self.source, PausingSource), "only a source that can pause is asked to"
        if not self.source.pause(end, {**self.source.paused(end), **tables}):
            raise SchemaMismatch(next(iter(tables.values())))
