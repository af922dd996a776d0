"""Keys of live files of one bucket, and how many of them are left where those files are merged.

A sample holds all keys of its files, or all up to one key. So any of these files can be merged in thought:
equal keys become one, the newest file decides, and a delete that wins takes its key away. Pure; `read_keys`
reads samples, and `merge_size` estimates by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tablestore.format.manifests.manifest import DataFileMeta


@dataclass(frozen=True, slots=True, eq=False)
class KeySample:
    """`files` newest first; `codes` by file name: ascending numbers that are equal where keys of these files
    are. `deletes`: which of a file's keys are retracts, absent where none is. `whole`: all keys are there.
    `fixed_bytes`: what a file takes besides its rows, on average; `sequence_bytes`: what each row takes for
    its sequence number. None where no footer says so.
    """

    files: tuple[DataFileMeta, ...]
    codes: Mapping[str, np.ndarray]
    deletes: Mapping[str, np.ndarray] = field(default_factory=dict)
    whole: bool = True
    fixed_bytes: float | None = None
    sequence_bytes: float | None = None

    @property
    def count(self) -> int:
        """How many keys were read."""
        return sum(map(len, self.codes.values()))

    def masked(self, files: Sequence[DataFileMeta]) -> int | None:
        """How many of the keys read are of rows that these files no longer have, since they are marked as
        deleted; None where not every key of every one of them is here."""
        codes = self.codes
        if not (self.whole and all(f.file_name in codes for f in files)):
            return None
        return sum(len(codes[f.file_name]) - f.row_count for f in files)

    def merged(self, newest_first: Sequence[DataFileMeta]) -> tuple[int, int]:
        """(keys that differ, those of them whose newest row is a delete) of these files."""
        names = [f.file_name for f in newest_first]
        keys, first = np.unique(np.concatenate([self.codes[n] for n in names]), return_index=True)
        if not self.deletes:
            return len(keys), 0
        gone = [self.deletes.get(n, np.zeros(len(self.codes[n]), dtype=bool)) for n in names]
        return len(keys), int(np.concatenate(gone)[first].sum())

    @property
    def mixing(self) -> float:
        """The share of neighbouring keys of all files merged whose newest rows lie in different files."""
        codes = [self.codes[f.file_name] for f in self.files]
        _, first = np.unique(np.concatenate(codes), return_index=True)
        holder = np.repeat(np.arange(len(codes)), [len(c) for c in codes])[first]
        return float((holder[1:] != holder[:-1]).mean()) if len(holder) > 1 else 0.0
