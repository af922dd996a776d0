"""What tasks of a job compute: the changes of the result, of one piece of a source."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tablestore.flow.batch import Work
from tablestore.flow.source import Changes
from tablestore.format.predicates.predicate import Predicate
from tablestore.format.schema import TableSchema
from tablestore.sql.filling import Filling
from tablestore.sql.streaming.plan import Input
from tablestore.sql.streaming.row_step import RowStep, RowSteps
from tablestore.write.conform import conform

_KEPT = 4  # steps at work in one thread
MEMORY = "1GB"  # of one step: it holds a batch at a time


@dataclass(frozen=True, slots=True)
class SourceView:
    """The changes of one source: its columns, and the condition on them."""

    name: str
    columns: tuple[str, ...]
    where: Predicate | None = None

    @staticmethod
    def of(one: Input) -> SourceView:
        """That of an input of a plan."""
        return SourceView(one.view, one.columns, one.where)


@dataclass(frozen=True)
class StepChanges:
    """Calls give the changes that a step makes of a piece, as the columns that are filled. `at` are the
    snapshots of looked-up tables. With a `schema` rows have exactly its columns. Picklable."""

    step: RowStep
    views: tuple[SourceView, ...]
    filling: Filling
    at: Mapping[str, int] = field(default_factory=dict)
    schema: TableSchema | None = None

    def __call__(self, work: Work) -> Changes:
        steps, view = steps_of(self.step, self.at), self.views[work.source]
        for batch, kinds in work.piece.read(view.columns, view.where):
            rows, new_kinds = steps.rows(view.name, batch, kinds)
            if rows.num_rows:
                filled = self.filling.filled(rows)
                yield (filled if self.schema is None else conform(filled, self.schema)), new_kinds


_here = threading.local()


def steps_of(step: RowStep, at: Mapping[str, int]) -> RowSteps:
    """A step at work in this thread, with looked-up tables at these snapshots; the last few are kept."""
    kept: OrderedDict[bytes, RowSteps] = _here.__dict__.setdefault("kept", OrderedDict())
    key = pickle.dumps(step)
    if key not in kept:
        kept[key] = RowSteps(step, memory=MEMORY)
    kept.move_to_end(key)
    kept[key].look_up_at(at)
    while len(kept) > _KEPT:
        kept.popitem(last=False)[1].__exit__()
    return kept[key]
