"""A task that both runners carry out in tests."""

from __future__ import annotations

from dataclasses import dataclass

from tablestore.flow.batch import Work


@dataclass(frozen=True)
class Summed:
    """A task: the sum of a column of a piece."""

    column: str

    def __call__(self, work: Work) -> int:
        return sum(sum(batch.column(0).to_pylist()) for batch, _ in work.piece.read([self.column]))
