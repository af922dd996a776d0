"""What was acknowledged of a table with a log, kept outside of it: the truth that readers are compared with.

A commit is in the files, or in the log alone, or nobody knows: its writer was killed before it had an answer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from tests.log.soak import Rows, TableTruth, joined


@dataclass
class Acknowledged:
    """`files`: the rows that a scan shows; `tail`: commits that the log alone has, in their order; `unsure`:
    the rows of a writer that was killed, `whole`: all of them are there or none."""

    files: TableTruth
    whole: bool = True
    tail: list[Rows] = field(default_factory=list)
    unsure: Rows = field(default_factory=list)

    @property
    def state(self) -> TableTruth:
        """All that was acknowledged."""
        return self.files.after(joined(self.tail))

    def finished(self) -> None:
        """The files have what the log has."""
        self.files, self.tail = self.state, []

    def possible(self) -> list[TableTruth]:
        """The states that a reader of the log may see: one, unless a writer was killed."""
        events = self.unsure
        if self.whole:
            return [self.state, *([self.state.after(events)] if events else [])]
        chosen = itertools.product((False, True), repeat=len(events))
        return [self.state.after(list(itertools.compress(events, some))) for some in chosen]

    def shown(self) -> list[TableTruth]:
        """What a scan may show: files, to which a killed writer may have brought more of the log."""
        if not self.unsure:
            return [self.files]
        finished = [self.files.after(joined(self.tail[:count])) for count in range(len(self.tail))]
        return [*finished, *self.possible()]

    def lacking(self, actual: TableTruth) -> list[str]:
        """What is wrong with the rows of a table of which the log's own rows are lost, and named: those of
        the files are there, or newer ones of their keys, and no others than were acknowledged."""
        events = [*joined(self.tail), *self.unsure]
        if self.files.kind == "append":
            most = self.files.rows + Counter((k, v) for _, k, v in events)
            return [
                *(f"lost {row}, which files had" for row in self.files.rows - actual.rows),
                *(f"nobody wrote {row}" for row in actual.rows - most),
            ]
        before, now = dict(self.files.rows.keys()), dict(actual.rows.keys())
        wrong = []
        for key in sorted(before.keys() | now.keys()):
            newer = {None if kind == "-D" else v for kind, k, v in events if k == key}
            if now.get(key) not in {before.get(key), *newer}:
                wrong.append(f"key {key} is {now.get(key)}, in files {before.get(key)}, in the log {newer}")
        return wrong
