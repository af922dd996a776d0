"""The files of a split as they come out of a plan: objects on first use, sums without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.meta.entries import Entries

_FEW = 4_096  # files of a plan up to which the objects of all are made when one is asked for


class SplitFiles(Sequence[DataFileMeta]):
    """The files of a split as a sequence that makes its objects on first use: a plan of 10,000 files takes a
    tenth of the time that all their objects would take."""

    __slots__ = ("_entries", "_made", "_order", "_start", "_stop", "rows", "size", "whole")

    def __init__(
        self,
        entries: Entries,
        order: np.ndarray,
        start: int,
        stop: int,
        *,
        size: int,
        rows: int,
        whole: bool = False,
    ) -> None:
        """The files of the entries at positions `order[start:stop]`, which have `size` bytes and `rows`
        together; `whole`: none of these takes another one away, or is a part of one."""
        self._entries, self._order, self._start, self._stop = entries, order, start, stop
        self.size, self.rows, self.whole = size, rows, whole
        self._made: tuple[DataFileMeta, ...] | None = None

    @property
    def made(self) -> tuple[DataFileMeta, ...]:
        """The objects, made once."""
        if self._made is None:
            rows = self._order[self._start : self._stop]
            if len(self._entries) <= _FEW:  # others of this plan will be asked for too: all are made at once
                self._made = tuple(self._entries.objects[i].file for i in rows.tolist())
            else:
                self._made = tuple(e.file for e in self._entries.take(rows).objects)
        return self._made

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, at: Any) -> Any:
        return self.made[at]

    def __iter__(self) -> Iterator[DataFileMeta]:
        return iter(self.made)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.made == tuple(other)

    def __hash__(self) -> int:
        return hash(self.made)

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> Any:
        return tuple, (list(self.made),)
